"""What is known about an expression before it is evaluated: where it is null, and whether it can fail."""

from riprap.expressions.ast import Call, Cast, ColumnRef, Lambda, Literal, Node

_SURE = ("=", "<>", "<", "<=", ">", ">=", "AND", "OR", "NOT", "IS NULL", "IN", "LENGTH", "LOWER", "UPPER", "TRIM",
         "LTRIM", "RTRIM", "SUBSTRING", "CONCAT", "STARTSWITH", "LIKE", "RLIKE", "REGEXP_EXTRACT",
         "REGEXP_REPLACE")  # fmt: skip


def not_null_where(node: Node) -> frozenset[str]:
    """Columns that are not null in every row for which a condition is true."""
    match node:
        case Call("AND", (left, right)):
            return not_null_where(left) | not_null_where(right)
        case Call("OR", (left, right)):
            return not_null_where(left) & not_null_where(right)
        case Call(function, arguments) if function in _COMPARED:
            return frozenset().union(*map(_read, arguments[:1] if function == "IN" else arguments))
        case ColumnRef(name) | Call("NOT", (Call("IS NULL", (ColumnRef(name),)),)):
            return frozenset((name,))
    return frozenset()


def only_values(node: Node) -> tuple[str, frozenset[object]] | None:
    """A column, and the values that it can have in rows for which a condition is true."""
    match node:
        case Call("=", (ColumnRef(name), Literal(value, _))) if isinstance(value, str):
            return name, frozenset((value,))
        case Call("AND", (left, right)):
            return only_values(left) or only_values(right)
    return None


def _read(node: Node) -> frozenset[str]:
    """Columns that make the value null wherever one of them is null."""
    match node:
        case ColumnRef(name):
            return frozenset((name,))
        case Call(function, arguments) if function in _STRICT:
            return frozenset().union(*map(_read, arguments))
    return frozenset()


_COMPARED = ("=", "<>", "<", "<=", ">", ">=", "IN")
_STRICT = ("+", "-", "*", "/", "%", "NEGATE", "ABS", "FLOOR", "CEIL")


def may_fail(node: Node) -> bool:
    """Whether it is an error for some values."""
    match node:
        case Call(function, arguments):
            return function not in _SURE or any(map(may_fail, arguments))
        case Cast() | Lambda():
            return True
    return False


def may_be_null(node: Node) -> bool:
    """Whether it can be null where no column is."""
    match node:
        case Call(function, arguments):
            return function not in _SURE or any(map(may_be_null, arguments))
        case Cast(operand, _, trying):
            return trying or may_be_null(operand)
        case Lambda():
            return True
        case Literal(value, _):
            return value is None
    return False
