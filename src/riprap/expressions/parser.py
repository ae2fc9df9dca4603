"""From text to a syntax tree. sqlglot reads the SQL (Spark's dialect); no other module uses it.

sqlglot accepts far more than this language, so the translation lists every construct it supports, with every argument
it understands, and rejects the rest: nothing that a user wrote is ignored silently.
"""

from datetime import date
from decimal import Decimal
from functools import lru_cache
from typing import Any

import pyarrow as pa

from riprap.base.errors import ExpressionError, known
from riprap.expressions.ast import Call, Cast, ColumnRef, Expression, Literal, Node
from riprap.expressions.kinds import INTERVAL, TIMESTAMP

# sqlglot's class → our function and the arguments in order; "expressions" is a list that is spliced in.
_CALLS = {
    "Add": ("+", "this", "expression"),
    "Sub": ("-", "this", "expression"),
    "Mul": ("*", "this", "expression"),
    "Div": ("/", "this", "expression"),
    "Mod": ("%", "this", "expression"),
    "EQ": ("=", "this", "expression"),
    "NEQ": ("<>", "this", "expression"),
    "LT": ("<", "this", "expression"),
    "LTE": ("<=", "this", "expression"),
    "GT": (">", "this", "expression"),
    "GTE": (">=", "this", "expression"),
    "And": ("AND", "this", "expression"),
    "Or": ("OR", "this", "expression"),
    "Not": ("NOT", "this"),
    "In": ("IN", "this", "expressions"),
    "Like": ("LIKE", "this", "expression"),
    "RegexpLike": ("RLIKE", "this", "expression"),
    "RegexpExtract": ("REGEXP_EXTRACT", "this", "expression", "group"),
    "RegexpReplace": ("REGEXP_REPLACE", "this", "expression", "replacement"),
    "DPipe": ("CONCAT", "this", "expression"),
    "Concat": ("CONCAT", "expressions"),
    "Coalesce": ("COALESCE", "this", "expressions"),
    "Nullif": ("NULLIF", "this", "expression"),
    "Abs": ("ABS", "this"),
    "Round": ("ROUND", "this", "decimals"),
    "Floor": ("FLOOR", "this"),
    "Ceil": ("CEIL", "this"),
    "Sqrt": ("SQRT", "this"),
    "Ln": ("LN", "this"),
    "Log": ("LOG", "this", "expression"),
    "Exp": ("EXP", "this"),
    "Pow": ("POWER", "this", "expression"),
    "Least": ("LEAST", "this", "expressions"),
    "Greatest": ("GREATEST", "this", "expressions"),
    "Length": ("LENGTH", "this"),
    "Lower": ("LOWER", "this"),
    "Upper": ("UPPER", "this"),
    "Trim": ("TRIM", "this"),
    "Substring": ("SUBSTRING", "this", "start", "length"),
    "StartsWith": ("STARTSWITH", "this", "expression"),
    "IsNan": ("ISNAN", "this"),
    "Year": ("YEAR", "this"),
    "Month": ("MONTH", "this"),
    "Day": ("DAY", "this"),
    "DayOfMonth": ("DAY", "this"),
    "Hour": ("HOUR", "this"),
    "Minute": ("MINUTE", "this"),
    "Second": ("SECOND", "this"),
    "UnixMicros": ("UNIX_MICROS", "this"),
}
# Arguments with which sqlglot describes dialects; in Spark's dialect they have only one value.
_MARKS = {"safe", "coalesce", "ignore_nulls", "typed", "null_if_pos_overflow"}
_FIELDS = ("YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND")

FUNCTIONS = sorted(
    {name for name, *_ in _CALLS.values() if name.isidentifier() and name not in {"AND", "OR", "NOT", "IN", "LIKE"}}
    | {"CASE", "CAST", "EXTRACT", "IF", "LTRIM", "RTRIM"}
)

_TYPES = {
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "TEXT": pa.string(),
    "TIMESTAMPTZ": TIMESTAMP,
    "TIMESTAMP": TIMESTAMP,
    "DATE": pa.date32(),
}
_TYPE_NAMES = "BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, STRING, TIMESTAMP, DATE"

_UNITS = {
    "MICROSECOND": 1,
    "MILLISECOND": 1_000,
    "SECOND": 1_000_000,
    "MINUTE": 60_000_000,
    "HOUR": 3_600_000_000,
    "DAY": 86_400_000_000,
    "WEEK": 604_800_000_000,
}


TOO_DEEP = "expression {!r}… is nested too deeply: split it over two operators"


def parse(text: str) -> Expression:
    """Parse `text`; raises an `ExpressionError` that names the position of a syntax error."""
    expression, alias = _parse(text)
    if alias is not None:
        raise ExpressionError(f"expression {text!r} has a name ({alias}) where none is expected: remove AS {alias}")
    return expression


def parse_named(text: str) -> tuple[str, Expression]:
    """Parse `expression AS name`, or a column, which keeps its name."""
    expression, alias = _parse(text)
    name = alias if alias is not None else expression.column
    if name is None:
        raise ExpressionError(f'expression {text!r} has no name: add "AS name"')
    return name, expression


@lru_cache(maxsize=1024)
def _parse(text: str) -> tuple[Expression, str | None]:
    tree = _read(text)
    alias, written = None, text
    if type(tree).__name__ == "Alias":
        from sqlglot import tokenize

        as_ = tokenize(text, dialect="spark")[-2]
        if as_.text.upper() != "AS":
            raise ExpressionError(
                f"expression {text!r} ends with a stray word {tree.alias!r}: "
                f"an operator is missing before it, or AS if it is meant as a name"
            )
        alias, written, tree = tree.alias, text[: as_.start], tree.this
    try:
        return Expression(written.strip(), _Translation(text).node(tree)), alias
    except RecursionError:
        raise ExpressionError(TOO_DEEP.format(text[:80])) from None


def _read(text: str) -> Any:
    """sqlglot's tree."""
    from sqlglot import Dialect, ParseError, TokenError, exp

    try:
        trees: list[Any] = Dialect.get_or_raise("spark").parse_into(exp.Expr, text)
    except ParseError as error:
        raise ExpressionError(_where(text, error.errors)) from None
    except TokenError:
        raise ExpressionError(f"cannot read expression {text!r}: a quote or comment is not closed") from None
    except RecursionError:
        raise ExpressionError(TOO_DEEP.format(text[:80])) from None
    except Exception as error:  # sqlglot raises other exceptions for some malformed calls, such as MAP(a)
        raise ExpressionError(f"cannot read expression {text!r}: {error}") from None
    if len(trees) > 1:
        raise ExpressionError(f"expected one expression, but {text!r} has {len(trees)}: remove the semicolon")
    if not trees or trees[0] is None:
        raise ExpressionError("an expression is empty: write a column's name or SQL such as price > 100")
    return trees[0]


def _where(text: str, errors: list[dict[str, Any]]) -> str:
    if not errors:
        return f"cannot read expression {text!r}: it is empty"
    first = errors[0]
    what = first["description"]
    if what.startswith("Required keyword"):
        what = "something is missing"
    elif "Unexpected token" in what:
        what = "this was not expected"
    near = f"{first['start_context'][-20:]}»{first['highlight']}«{first['end_context'][:20]}".replace("\n", " ")
    what = what[:1].lower() + what[1:]
    return f"cannot read expression {text!r}: {what} at line {first['line']}, column {first['col']}: {near}"


class _Translation:
    """The translation of one text, which messages quote."""

    def __init__(self, text: str) -> None:
        self.text = text

    def refuse(self, why: str) -> ExpressionError:
        return ExpressionError(f"{why}, in expression {self.text!r}")

    def node(self, tree: Any) -> Node:
        kind = type(tree).__name__
        if kind in _CALLS:
            return self.call(kind, tree)
        special = getattr(self, f"_{kind}", None)
        if special is None:
            raise self.unknown(tree)
        return special(tree)

    def unknown(self, tree: Any) -> ExpressionError:
        from sqlglot import exp

        if isinstance(tree, exp.Func):
            name = tree.name if isinstance(tree, exp.Anonymous) else tree.sql_name()
            return self.refuse(f"unknown function {name.upper()}; known functions: {known(FUNCTIONS, name.upper())}")
        return self.refuse(f"{tree.sql('spark')!r} is not allowed in an expression")

    def only(self, tree: Any, *understood: str) -> None:
        for name, value in tree.args.items():
            if value and name not in understood and name not in _MARKS:
                raise self.refuse(f"{tree.sql('spark')!r} has a part ({name}) that expressions do not support")

    def call(self, kind: str, tree: Any) -> Node:
        function, *names = _CALLS[kind]
        self.only(tree, *names, "negate", "position")
        if kind == "Concat" and "safe" not in tree.args:  # 'it''s' parses as two adjacent strings
            raise self.refuse(r"two adjacent strings; a quote inside a string is written \'")
        if kind == "Trim" and tree.args.get("position"):
            function = {"LEADING": "LTRIM", "TRAILING": "RTRIM", "BOTH": "TRIM"}[tree.args["position"]]
        arguments: list[Node] = []
        for name in names:
            value = tree.args.get(name)
            if isinstance(value, list):
                arguments.extend(map(self.node, value))
            elif value is not None:
                arguments.append(self.node(value))
        call = Call(function, tuple(arguments))
        return Call("NOT", (call,)) if tree.args.get("negate") else call

    def _Paren(self, tree: Any) -> Node:
        return self.node(tree.this)

    def _TsOrDsToDate(self, tree: Any) -> Node:
        return self.node(tree.this)  # sqlglot wraps the argument of YEAR, MONTH and DAY in it

    def _Column(self, tree: Any) -> Node:
        if tree.args.get("table"):
            dotted = ".".join(part.name for part in tree.parts)
            raise self.refuse(f"columns have no qualifier; write `{dotted}` in backquotes if that is the column's name")
        self.only(tree, "this")
        if type(tree.this).__name__ == "Star":
            raise self.refuse("* is not a single value")
        return ColumnRef(tree.name)

    def _Literal(self, tree: Any) -> Node:
        return Literal(tree.this, pa.string()) if tree.is_string else self.number(tree.this)

    def number(self, digits: str) -> Literal:
        try:
            value = int(digits) if digits.lstrip("-").isdigit() else float(digits)
        except ValueError:
            raise self.refuse(f"{digits} is not a number") from None
        if isinstance(value, float):
            return Literal(value, pa.float64())
        if not -(2**63) <= value < 2**63:
            raise self.refuse(f"{digits} does not fit 64 bits; write {digits}.0 for a float")
        return Literal(value, pa.int64())

    def _Neg(self, tree: Any) -> Node:
        inner = tree.this
        if type(inner).__name__ == "Literal" and not inner.is_string:
            return self.number("-" + inner.this)
        return Call("NEGATE", (self.node(inner),))

    def _Boolean(self, tree: Any) -> Node:
        return Literal(bool(tree.this), pa.bool_())

    def _Null(self, tree: Any) -> Node:
        return Literal(None, pa.null())

    def _HexString(self, tree: Any) -> Node:
        try:
            return Literal(bytes.fromhex(tree.this), pa.binary())
        except ValueError:
            raise self.refuse(f"X'{tree.this}' is not pairs of hexadecimal digits") from None

    def _Between(self, tree: Any) -> Node:
        self.only(tree, "this", "low", "high")
        value = self.node(tree.this)
        low, high = self.node(tree.args["low"]), self.node(tree.args["high"])
        return Call("AND", (Call(">=", (value, low)), Call("<=", (value, high))))

    def _Is(self, tree: Any) -> Node:
        value, test = self.node(tree.this), self.node(tree.expression)
        if test == Literal(None, pa.null()):
            return Call("IS NULL", (value,))
        if not isinstance(test, Literal) or test.type != pa.bool_():
            raise self.unknown(tree)
        return Call("COALESCE", (value if test.value else Call("NOT", (value,)), Literal(False, pa.bool_())))

    def _If(self, tree: Any) -> Node:
        self.only(tree, "this", "true", "false")
        default = tree.args.get("false")
        otherwise = Literal(None, pa.null()) if default is None else self.node(default)
        return Call("CASE", (self.node(tree.this), self.node(tree.args["true"]), otherwise))

    def _Case(self, tree: Any) -> Node:
        self.only(tree, "this", "ifs", "default")
        arguments: list[Node] = []
        for branch in tree.args["ifs"]:
            condition = self.node(branch.this)
            arguments += [
                Call("=", (self.node(tree.this), condition)) if tree.this else condition,
                self.node(branch.args["true"]),
            ]
        default = tree.args.get("default")
        arguments.append(Literal(None, pa.null()) if default is None else self.node(default))
        return Call("CASE", tuple(arguments))

    def _Extract(self, tree: Any) -> Node:
        field = tree.this.name.upper()
        if field not in _FIELDS:
            raise self.refuse(f"EXTRACT takes {known(_FIELDS, field)}, not {field}")
        return Call(field, (self.node(tree.expression),))

    def _Interval(self, tree: Any) -> Node:
        unit = tree.args.get("unit")
        name = unit.name.upper().removesuffix("S") if unit is not None else ""
        try:
            micros = round(Decimal(tree.this.name) * _UNITS[name])
            if not -(2**63) <= micros < 2**63:
                raise OverflowError
            return Literal(micros, INTERVAL)
        except (ArithmeticError, AttributeError, KeyError, ValueError):
            units = known(f"{name}S" for name in _UNITS)
            raise self.refuse(f"an interval is a number and one of {units}, as in INTERVAL 5 SECONDS") from None

    def _Cast(self, tree: Any) -> Node:
        self.only(tree, "this", "to")
        name = tree.args["to"].this.name
        if name not in _TYPES or tree.args["to"].expressions:
            raise self.refuse(f"cannot cast to {tree.args['to'].sql('spark')}; known types: {_TYPE_NAMES}")
        operand, target = self.node(tree.this), _TYPES[name]
        if type(tree).__name__ == "Cast" and isinstance(operand, Literal) and isinstance(operand.value, str):
            return self.moment(operand.value, target)
        return Cast(operand, target)

    def _TryCast(self, tree: Any) -> Node:  # sqlglot's name for Spark's CAST; TRY_CAST itself is marked safe
        if tree.args.get("safe"):
            raise self.refuse("TRY_CAST is not supported; use CAST")
        return self._Cast(tree)

    def moment(self, text: str, target: pa.DataType) -> Literal:
        """TIMESTAMP '…' and DATE '…'."""
        try:
            if target == pa.date32():
                return Literal((date.fromisoformat(text) - date(1970, 1, 1)).days, target)
            zoned = pa.types.is_timestamp(target) and (text.endswith("Z") or "+" in text or text.count("-") > 2)
            value = pa.scalar(text).cast(target if zoned else pa.timestamp("us"))
            return Literal(value.cast(pa.int64()).as_py(), target)
        except (ValueError, pa.ArrowInvalid):
            raise self.refuse(
                f"{text!r} is not a date or time; write DATE '2024-01-31' or TIMESTAMP '2024-01-31 09:30:00.5' (UTC)"
            ) from None
