"""From text to a syntax tree. sqlglot reads the SQL (Spark's dialect); no other module uses it.

sqlglot accepts far more than this language, so the translation lists every construct it supports, with every argument
it understands, and rejects the rest: nothing that a user wrote is ignored silently.
"""

from decimal import Decimal
from functools import lru_cache
from typing import Any

import pyarrow as pa

from riprap.base.errors import ExpressionError, known
from riprap.expressions.ast import Call, Cast, ColumnRef, Expression, Lambda, Literal, Node
from riprap.expressions.functions import REWRITTEN, canonical, is_known, spellings
from riprap.expressions.intervals import UNITS, interval_of
from riprap.expressions.kinds import BOOLEAN, DOUBLE, INT, LONG, MOST_DIGITS, NULL, STRING
from riprap.expressions.type_names import SCALARS, UnknownType, type_of

# sqlglot's class of an operator → our function and the arguments in order; "expressions" is a list that is spliced in.
_CALLS = {
    "Add": ("+", "this", "expression"),
    "Sub": ("-", "this", "expression"),
    "Mul": ("*", "this", "expression"),
    "Div": ("/", "this", "expression"),
    "IntDiv": ("DIV", "this", "expression"),
    "Mod": ("%", "this", "expression"),
    "EQ": ("=", "this", "expression"),
    "NEQ": ("<>", "this", "expression"),
    "NullSafeEQ": ("<=>", "this", "expression"),
    "LT": ("<", "this", "expression"),
    "LTE": ("<=", "this", "expression"),
    "GT": (">", "this", "expression"),
    "GTE": (">=", "this", "expression"),
    "And": ("AND", "this", "expression"),
    "Or": ("OR", "this", "expression"),
    "Not": ("NOT", "this"),
    "In": ("IN", "this", "expressions"),
    "Like": ("LIKE", "this", "expression"),
    "ILike": ("ILIKE", "this", "expression"),
    "RegexpLike": ("RLIKE", "this", "expression"),
    "BitwiseAnd": ("&", "this", "expression"),
    "BitwiseOr": ("|", "this", "expression"),
    "BitwiseXor": ("^", "this", "expression"),
    "BitwiseNot": ("~", "this"),
    "DPipe": ("CONCAT", "this", "expression"),
    "Substring": ("SUBSTRING", "this", "start", "length"),
    "StrPosition": ("LOCATE", "substr", "this"),
    "Overlay": ("OVERLAY", "this", "expression", "from_", "for_"),
}
# Arguments with which sqlglot describes dialects; in Spark's dialect they have only one value.
_MARKS = {"safe", "coalesce", "ignore_nulls", "typed", "null_if_pos_overflow"}
_FIELDS = {
    **{name: name for name in ("YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "QUARTER")},
    **dict.fromkeys(("Y", "YEARS", "YR", "YRS"), "YEAR"),
    **dict.fromkeys(("MON", "MONS", "MONTHS"), "MONTH"),
    **dict.fromkeys(("D", "DAYS"), "DAY"),
    **dict.fromkeys(("H", "HOURS", "HR", "HRS"), "HOUR"),
    **dict.fromkeys(("M", "MIN", "MINS", "MINUTES"), "MINUTE"),
    **dict.fromkeys(("S", "SEC", "SECONDS", "SECS", "SECOND"), "EXTRACT_SECOND"),
    **dict.fromkeys(("QTR",), "QUARTER"),
    **dict.fromkeys(("WEEK", "W", "WEEKS"), "WEEKOFYEAR"),
    **dict.fromkeys(("DAYOFWEEK", "DOW"), "DAYOFWEEK"),
    **dict.fromkeys(("DAYOFWEEK_ISO", "DOW_ISO"), "EXTRACT_ISO_DAY"),
    **dict.fromkeys(("DOY",), "DAYOFYEAR"),
    "YEAROFWEEK": "EXTRACT_ISO_YEAR",
}
_NAMED_CASTS = {name.upper() for name in REWRITTEN if name.lower() in SCALARS}
_UNIT_FIRST = ("DATEADD", "DATE_ADD", "DATEDIFF", "DATE_DIFF", "TIMESTAMPADD", "TIMESTAMPDIFF")


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


@lru_cache(maxsize=1)
def _dialect() -> Any:
    """Spark's dialect, in which a function is its name and its arguments; sqlglot would translate many of them."""
    from sqlglot.dialects.spark import Spark

    own = ("CAST", "TRY_CAST", "EXTRACT", "TRIM", "SUBSTRING", "POSITION", "OVERLAY")

    class PlainParser(Spark.Parser):  # type: ignore[misc]
        FUNCTIONS: dict[str, Any] = {}  # noqa: RUF012
        FUNCTION_PARSERS = {name: Spark.Parser.FUNCTION_PARSERS[name] for name in own}  # noqa: RUF012
        NO_PAREN_FUNCTION_PARSERS = {"CASE": Spark.Parser.NO_PAREN_FUNCTION_PARSERS["CASE"]}  # noqa: RUF012
        NO_PAREN_FUNCTIONS: dict[Any, Any] = {}  # noqa: RUF012

    class PlainSpark(Spark):  # type: ignore[misc]
        Parser = PlainParser

    return PlainSpark()


def _read(text: str) -> Any:
    """sqlglot's tree."""
    from sqlglot import ParseError, TokenError, exp

    try:
        trees: list[Any] = _dialect().parse_into(exp.Expr, text)
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
        self._scopes: list[dict[str, str]] = []  # the parameters of the functions around a part: name → column
        self._lambdas = self._seeded = 0

    def refuse(self, why: str) -> ExpressionError:
        return ExpressionError(f"{why}, in expression {self.text!r}")

    def node(self, tree: Any) -> Node:
        kind = type(tree).__name__
        if kind in _CALLS:
            return self.operator(kind, tree)
        special = getattr(self, f"_{kind}", None)
        if special is None:
            raise self.refuse(f"{tree.sql('spark')!r} is not allowed in an expression")
        return special(tree)  # type: ignore[no-any-return]

    def nodes(self, trees: Any) -> list[Node]:
        return [self.node(tree) for tree in trees]

    def only(self, tree: Any, *understood: str) -> None:
        for name, value in tree.args.items():
            if value and name not in understood and name not in _MARKS and not name.startswith("_"):
                raise self.refuse(f"{tree.sql('spark')!r} has a part ({name}) that expressions do not support")

    def operator(self, kind: str, tree: Any) -> Node:
        function, *names = _CALLS[kind]
        self.only(tree, *names, "negate")
        arguments: list[Node] = []
        if kind in ("Like", "ILike") and type(tree.expression).__name__ in ("Any", "All"):
            return self._any_like(function, tree)
        for name in names:
            value = tree.args.get(name)
            if isinstance(value, list):
                arguments.extend(map(self.node, value))
            elif value is not None:
                arguments.append(self.node(value))
        call = Call(function, tuple(arguments))
        return Call("NOT", (call,)) if tree.args.get("negate") else call

    def _any_like(self, function: str, tree: Any) -> Node:
        how = "OR" if type(tree.expression).__name__ == "Any" else "AND"
        value, patterns = self.node(tree.this), tree.expression.this
        choices = patterns.expressions if type(patterns).__name__ == "Tuple" else [patterns.this]
        first, *others = [Call(function, (value, self.node(choice))) for choice in choices]
        for other in others:
            first = Call(how, (first, other))
        return first

    def _Escape(self, tree: Any) -> Node:
        call = self.node(tree.this)
        if not isinstance(call, Call) or call.function not in ("LIKE", "ILIKE"):
            raise self.refuse("ESCAPE belongs to LIKE")
        return Call(call.function, (*call.arguments, self.node(tree.expression)))

    def _NullSafeNEQ(self, tree: Any) -> Node:
        return Call("NOT", (Call("<=>", (self.node(tree.this), self.node(tree.expression))),))

    def _Concat(self, tree: Any) -> Node:  # 'it''s' parses as two adjacent strings
        raise self.refuse(r"two adjacent strings; a quote inside a string is written \'")

    def _Paren(self, tree: Any) -> Node:
        return self.node(tree.this)

    def _Trim(self, tree: Any) -> Node:
        function = {"LEADING": "LTRIM", "TRAILING": "RTRIM"}.get(tree.args.get("position") or "", "TRIM")
        characters = tree.args.get("expression")
        if characters is None:
            return Call(function, (self.node(tree.this),))
        if function == "TRIM":
            return Call("BTRIM", (self.node(tree.this), self.node(characters)))
        return Call(function, (self.node(characters), self.node(tree.this)))

    # Columns, fields and elements -------------------------------------------------------------------------------------

    def _Column(self, tree: Any) -> Node:
        names = [part.name for part in tree.parts]
        if len(names) == 1 and names[0].upper() in _CLOCK_WORDS and not tree.this.quoted:
            return _CLOCK[names[0].upper()]
        if type(tree.this).__name__ == "Star":
            raise self.refuse("* is not a single value")
        node: Node = self.named(names[0])
        for name in names[1:]:
            node = Call("FIELD", (node, Literal(name, STRING)))
        return node

    def named(self, name: str) -> ColumnRef:
        for scope in reversed(self._scopes):
            if name in scope:
                return ColumnRef(scope[name])
        return ColumnRef(name)

    def _Identifier(self, tree: Any) -> Node:
        return self.named(tree.name)

    def _Dot(self, tree: Any) -> Node:
        return Call("FIELD", (self.node(tree.this), Literal(tree.expression.name, STRING)))

    def _Bracket(self, tree: Any) -> Node:
        self.only(tree, "this", "expressions", "offset")
        if len(tree.expressions) != 1 or type(tree.expressions[0]).__name__ == "Slice":
            raise self.refuse("an element has one index or key, as in a[0] or m['key']")
        return Call("ELEMENT", (self.node(tree.this), self.node(tree.expressions[0])))

    # Functions --------------------------------------------------------------------------------------------------------

    def _Anonymous(self, tree: Any) -> Node:
        if not isinstance(tree.this, str):
            raise self.refuse(f"{tree.sql('spark')!r} is not a function")
        name = tree.this.upper()
        if name == "STRUCT":
            return self.struct(tree.expressions)
        if name == "LAMBDAFUNCTION":
            return self.catalyst_lambda(tree.expressions)
        if name == "NAMEDLAMBDAVARIABLE":
            return self.named("namedlambdavariable")
        if name in _CLOCK and not tree.expressions:
            return _CLOCK[name]
        if name in _SEEDED:
            return self.seeded(name, self.nodes(tree.expressions))
        if name in _UNIT_FIRST and len(tree.expressions) == 3:
            return self.by_unit(name, *tree.expressions)
        rewritten = getattr(self, f"rewritten_{name.lower()}", None)
        arguments = self.nodes(tree.expressions)
        if rewritten is not None:
            return rewritten(arguments)  # type: ignore[no-any-return]
        if name in _NAMED_CASTS and len(arguments) == 1:
            return Cast(arguments[0], type_of(name))
        return self.called(name, arguments)

    def called(self, name: str, arguments: list[Node]) -> Node:
        function = canonical(name)
        if not is_known(function) or function in ("AND", "OR", "NOT", "IN", "CASE"):
            raise self.refuse(f"unknown function {name}; known functions: {known(spellings(), name)}")
        if function == "IS NULL" and len(arguments) != 1:
            raise self.refuse("ISNULL takes 1 argument")
        if function in ("=", "%", "PMOD", "<=>") and len(arguments) != 2:
            raise self.refuse(f"{name} takes 2 arguments, not {len(arguments)}")
        return Call(function, tuple(arguments))

    def seeded(self, name: str, arguments: list[Node]) -> Node:
        """A random value: a function of the order key, of the number of the call, and of a seed."""
        self.arity(name, arguments, 0, 1)
        self._seeded += 1
        return Call(canonical(name), (ColumnRef("_ts"), ColumnRef("_seq"), Literal(self._seeded, INT), *arguments))

    def by_unit(self, name: str, unit: Any, *others: Any) -> Node:
        word = unit.name.upper()
        function = "TIMESTAMPADD" if name.endswith("ADD") else "TIMESTAMPDIFF"
        return Call(function, (Literal(word, STRING), *self.nodes(others)))

    def struct(self, trees: Any) -> Node:
        arguments: list[Node] = []
        for place, tree in enumerate(trees, 1):
            alias = type(tree).__name__ == "Alias"
            value = self.node(tree.this if alias else tree)
            name = tree.alias if alias else _field_name(value, place)
            arguments += [Literal(name, STRING), value]
        return Call("NAMED_STRUCT", tuple(arguments))

    def _Lambda(self, tree: Any) -> Node:
        return self.function_of([parameter.name for parameter in tree.expressions], tree.this)

    def catalyst_lambda(self, trees: Any) -> Node:
        """As Catalyst prints an analyzed one: the body, then its variables."""
        body, *variables = trees
        names = [getattr(each, "name", "") for each in variables]
        return self.function_of([name or "namedlambdavariable" for name in names], body)

    def function_of(self, names: list[str], body: Any) -> Node:
        self._lambdas += 1
        scope = {name: f"{name} of function {self._lambdas}" for name in names}
        self._scopes.append(scope)
        try:
            return Lambda(tuple(scope[name] for name in names), self.node(body))
        finally:
            self._scopes.pop()

    def arity(self, name: str, arguments: list[Node], *counts: int) -> None:
        if len(arguments) not in counts:
            wanted = " or ".join(map(str, counts))
            raise self.refuse(f"{name} takes {wanted} argument{'s' * (counts != (1,))}, not {len(arguments)}")

    def rewritten_if(self, arguments: list[Node]) -> Node:
        self.arity("IF", arguments, 3)
        return Call("CASE", tuple(arguments))

    def rewritten_nullif(self, arguments: list[Node]) -> Node:
        self.arity("NULLIF", arguments, 2)
        return Call("CASE", (Call("=", tuple(arguments)), Literal(None, NULL), arguments[0]))

    def rewritten_nvl2(self, arguments: list[Node]) -> Node:
        self.arity("NVL2", arguments, 3)
        return Call("CASE", (Call("NOT", (Call("IS NULL", (arguments[0],)),)), *arguments[1:]))

    def rewritten_isnotnull(self, arguments: list[Node]) -> Node:
        self.arity("ISNOTNULL", arguments, 1)
        return Call("NOT", (Call("IS NULL", (arguments[0],)),))

    def rewritten_zeroifnull(self, arguments: list[Node]) -> Node:
        self.arity("ZEROIFNULL", arguments, 1)
        return Call("COALESCE", (arguments[0], Literal(0, INT)))

    def rewritten_nullifzero(self, arguments: list[Node]) -> Node:
        return self.rewritten_nullif([*arguments, Literal(0, INT)])

    def rewritten_positive(self, arguments: list[Node]) -> Node:
        self.arity("POSITIVE", arguments, 1)
        return arguments[0]

    def rewritten_log10(self, arguments: list[Node]) -> Node:
        self.arity("LOG10", arguments, 1)
        return Call("LOG", (Literal(10.0, DOUBLE), arguments[0]))

    def rewritten_log2(self, arguments: list[Node]) -> Node:
        self.arity("LOG2", arguments, 1)
        return Call("LOG", (Literal(2.0, DOUBLE), arguments[0]))

    def rewritten_decode(self, arguments: list[Node]) -> Node:
        """With a character set of two arguments; else the value that follows an equal one."""
        if len(arguments) < 2:
            raise self.refuse(f"DECODE takes at least 2 arguments, not {len(arguments)}")
        if len(arguments) == 2:
            return Call("DECODE", tuple(arguments))
        value, *rest = arguments
        default = rest.pop() if len(rest) % 2 else Literal(None, NULL)
        branches: list[Node] = []
        for wanted, result in zip(rest[::2], rest[1::2], strict=True):
            branches += [Call("<=>", (value, wanted)), result]
        return Call("CASE", (*branches, default))

    def rewritten_date_part(self, arguments: list[Node]) -> Node:
        self.arity("DATE_PART", arguments, 2)
        field = arguments[0]
        if not isinstance(field, Literal) or not isinstance(field.value, str):
            raise self.refuse("the field of DATE_PART must be a constant, as in 'hour'")
        return self.part(field.value, arguments[1])

    rewritten_datepart = rewritten_date_part

    def part(self, field: str, value: Node) -> Node:
        function = _FIELDS.get(field.upper())
        if function is None:
            raise self.refuse(f"EXTRACT takes {known(sorted(_FIELDS), field.upper())}, not {field}")
        return Call(function, (value,))

    def _Extract(self, tree: Any) -> Node:
        return self.part(tree.this.name, self.node(tree.expression))

    # Literals ---------------------------------------------------------------------------------------------------------

    def _Literal(self, tree: Any) -> Node:
        return Literal(tree.this, STRING) if tree.is_string else self.number(tree.this)

    def number(self, digits: str) -> Literal:
        """An int or bigint, or a decimal; with an exponent a double."""
        try:
            value = Decimal(digits)
            if "e" in digits.lower():
                return Literal(float(digits), DOUBLE)
        except ArithmeticError:
            raise self.refuse(f"{digits} is not a number") from None
        if "." not in digits and -(2**63) <= value < 2**63:
            return Literal(int(value), INT if -(2**31) <= value < 2**31 else LONG)
        scale = len(digits.partition(".")[2])
        precision = max(len(value.as_tuple().digits), scale, 1)
        if precision > MOST_DIGITS:
            raise self.refuse(f"{digits} has more than {MOST_DIGITS} digits; write an exponent for a double")
        return Literal(value, pa.decimal128(precision, scale))

    def _Neg(self, tree: Any) -> Node:
        inner = tree.this
        if type(inner).__name__ == "Literal" and not inner.is_string:
            return self.number("-" + inner.this)
        suffixed = (
            type(inner).__name__ == "TryCast" and type(inner.this).__name__ == "Literal" and not inner.this.is_string
        )
        node = self.node(inner)
        if suffixed and isinstance(node, Literal) and node.type == LONG:
            return Literal(-node.value, LONG)  # type: ignore[operator]
        if (
            isinstance(node, Cast)
            and isinstance(node.operand, Literal)
            and not isinstance(node.operand.value, str | None)
        ):
            number = self.number("-" + inner.this.this)  # -128Y
            return number if number.type == node.type else Cast(number, node.type)
        return Call("NEGATE", (node,))

    def _Boolean(self, tree: Any) -> Node:
        return Literal(bool(tree.this), BOOLEAN)

    def _Null(self, tree: Any) -> Node:
        return Literal(None, NULL)

    def _HexString(self, tree: Any) -> Node:
        try:
            return Literal(bytes.fromhex(tree.this), pa.binary())
        except ValueError:
            raise self.refuse(f"X'{tree.this}' is not pairs of hexadecimal digits") from None

    def _Interval(self, tree: Any) -> Node:
        unit = tree.args.get("unit")
        span = (unit.this.name, unit.expression.name) if type(unit).__name__ == "IntervalSpan" else None
        value = tree.this
        negative = type(value).__name__ == "Neg"
        text = (value.this if negative else value).name if value is not None else ""
        literal = interval_of("-" * negative + text, unit.name if unit is not None and span is None else "", span)
        if literal is None:
            units = known(f"{name}S" for name in UNITS)
            raise self.refuse(f"an interval is a number and one of {units}, as in INTERVAL 5 SECONDS")
        return literal

    # Choices and casts ------------------------------------------------------------------------------------------------

    def _Between(self, tree: Any) -> Node:
        self.only(tree, "this", "low", "high")
        value = self.node(tree.this)
        low, high = self.node(tree.args["low"]), self.node(tree.args["high"])
        return Call("AND", (Call(">=", (value, low)), Call("<=", (value, high))))

    def _Is(self, tree: Any) -> Node:
        value, test = self.node(tree.this), self.node(tree.expression)
        if test == Literal(None, NULL):
            return Call("IS NULL", (value,))
        if not isinstance(test, Literal) or test.type != BOOLEAN:
            raise self.refuse(f"{tree.sql('spark')!r} is not allowed in an expression")
        return Call("COALESCE", (value if test.value else Call("NOT", (value,)), Literal(False, BOOLEAN)))

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
        arguments.append(Literal(None, NULL) if default is None else self.node(default))
        return Call("CASE", tuple(arguments))

    def _Cast(self, tree: Any) -> Node:
        operand = self.node(tree.this)
        try:
            type_ = type_of(tree.to.sql("spark"))
        except UnknownType:
            raise self.refuse(
                f"CAST to {tree.to.sql('spark')!r} is not supported; types are {', '.join(_TYPES)}"
            ) from None
        if isinstance(operand, Literal) and operand.type == type_:
            return operand
        return Cast(operand, type_, trying=type(tree).__name__ == "TryCast" and bool(tree.args.get("safe")))

    _TryCast = _Cast


# Functions of the clock: the time at which a tuple is processed is its event time.
_EVENT_TIME = ColumnRef("_ts")
_CLOCK: dict[str, Node] = {
    "CURRENT_TIMESTAMP": _EVENT_TIME,
    "NOW": _EVENT_TIME,
    "CURRENT_DATE": Cast(_EVENT_TIME, pa.date32()),
    "CURDATE": Cast(_EVENT_TIME, pa.date32()),
    "LOCALTIMESTAMP": Cast(_EVENT_TIME, pa.timestamp("us")),
    "UNIX_TIMESTAMP": Call("UNIX_SECONDS", (_EVENT_TIME,)),
    "MONOTONICALLY_INCREASING_ID": ColumnRef("_seq"),
}
_CLOCK_WORDS = ("CURRENT_TIMESTAMP", "CURRENT_DATE", "LOCALTIMESTAMP")
_SEEDED = ("RAND", "RANDOM", "RANDN", "UUID")
_TYPES = ("BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(p,s)", "STRING", "BINARY",
          "DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "ARRAY<…>", "MAP<…,…>", "STRUCT<…>")  # fmt: skip


def _field_name(value: Node, place: int) -> str:
    if isinstance(value, ColumnRef):
        return value.name.partition(" of function ")[0]
    if isinstance(value, Call) and value.function == "FIELD":
        return str(value.arguments[1].value)  # type: ignore[union-attr]
    return f"col{place}"
