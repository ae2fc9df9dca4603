"""Generates the code of expressions: statements about one row, and a (value, valid) pair for the result.

The code is Python that Numba compiles into the loop of a piece; interpreted it gives the same bits.
`column_functions.py` turns the same code into a function of whole columns. Values are int64, float64 or bool. A
boolean that is null is False. In a loop, text is a dictionary code, and any expression that reads only one text
column is a lookup table per dictionary (`FunctionWriter.table`). What cannot be written like that raises
`CannotCompile`, for instance functions that compute text from several columns; the operator then evaluates columns.
There, text is an Arrow array, and Arrow provides its functions.

An error (an integer beyond 64 bits, a value that a cast cannot hold) is a numbered *site*: the code reports the first
one of a row. A branch is computed only for rows that choose it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial

import pyarrow as pa

from riprap.expressions.ast import Call, Cast, ColumnRef, Constant, Lambda, Literal, Node, columns_of
from riprap.expressions.casts import cast, converter
from riprap.expressions.checking import LambdaTyped, type_of_node
from riprap.expressions.computed import Computation
from riprap.expressions.decimals import ZERO_DIVISOR
from riprap.expressions.facts import may_be_null, may_fail
from riprap.expressions.functions import rule_of
from riprap.expressions.generated_code import Block, CannotCompile, FunctionWriter, Value
from riprap.expressions.kinds import BOOLEAN, DOUBLE, FLOAT, HELD_BY_ARROW, TIMES, ValueKind, common_type, kind_of
from riprap.expressions.moments import MICROSECONDS_A_DAY
from riprap.expressions.type_names import name_of
from riprap.expressions.typed import EvaluationError, Typed

OVERFLOW = "an integer does not fit {} bits (CAST to a wider type to compute beyond them)"
_UNITS = {"HOUR": (3_600_000_000, 24), "MINUTE": (60_000_000, 60), "SECOND": (1_000_000, 60)}
_NESTED = 16  # blocks that a chain of choices nests at most


class ExpressionWriter:
    """Writes expressions over the columns of one row into a block."""

    def __init__(self, host: FunctionWriter, block: Block, columns: Mapping[str, Value], expression: str) -> None:
        self._host, self._block, self._columns, self._expression = host, block, columns, expression

    def write(self, node: Node) -> Value:
        value = self._write(node)
        if self._host.on_columns and value.dictionary is not None:
            return self._named(replace(value, text=self._host.decoded(value), dictionary=None))
        if value.kind in HELD_BY_ARROW and value.dictionary is None and not self._host.on_columns:
            raise CannotCompile("text that is not in a column's dictionary")
        return value if value.constant is not None or isinstance(node, ColumnRef) else self._named(value)

    def _operand(self, node: Node) -> Value:
        """An argument, which may be converted: a constant that a loop cannot hold may become one that it can."""
        return self._literal(node.value, node.type) if isinstance(node, Literal) else self.write(node)

    def _write(self, node: Node) -> Value:
        match node:
            case ColumnRef(name):
                return self._columns[name]
            case Literal(value, type_):
                return self._literal(value, type_)
            case Call("IS NULL", (ColumnRef(name),)):
                valid = self._columns[name].valid
                return Value(BOOLEAN, "False" if valid is None else f"(not {valid})")
        read = [name for name in columns_of(node) if self._columns[name].kind in HELD_BY_ARROW]
        if read and len(columns_of(node)) == 1 and self._columns[read[0]].dictionary is not None:
            return self._looked_up(node, self._columns[read[0]], read[0])
        match node:
            case Cast(operand, type_, trying):
                return self._cast(self._operand(operand), type_, trying=trying)
            case Call("CASE", arguments):
                return self._case(arguments)
            case Call("COALESCE", arguments):
                return self._coalesce(arguments)
            case Call("AND" | "OR" as function, (left, right)) if may_fail(right):
                return self._in_order(function, left, right)
            case Call(function, arguments) if any(isinstance(argument, Lambda) for argument in arguments):
                return self._higher(function, arguments)
            case Call(function, arguments):
                return self._call(function, [self._operand(argument) for argument in arguments])
        raise CannotCompile(f"{node} cannot be generated")

    # Small parts ------------------------------------------------------------------------------------------------------

    def _literal(self, value: Constant, type_: pa.DataType) -> Value:
        if value is None:
            return self._null(type_)
        if kind_of(type_) in HELD_BY_ARROW:
            text = self._host.held(value, type_) if self._host.on_columns else "None"
            return Value(type_, text, None, None, value)
        if isinstance(value, bool):
            return Value(type_, str(value), None, None, value)
        return Value(type_, self._host.literal(value), None, None, value)  # type: ignore[arg-type]

    def _null(self, type_: pa.DataType) -> Value:
        kind = kind_of(type_)
        if kind in HELD_BY_ARROW:
            return Value(type_, self._host.held(None, type_), "False")
        return Value(type_, "False" if kind is ValueKind.BOOLEAN else "0", "False")

    def _named(self, value: Value) -> Value:
        """Compute it once and give it a name."""
        name = self._host.fresh("v")
        self._block.add(f"{name} = {value.text}")
        if value.valid in (None, "False", "True"):
            return replace(value, text=name)
        self._block.add(f"{name}_ok = {value.valid}")
        return replace(value, text=name, valid=f"{name}_ok")

    @contextmanager
    def _inside(self, header: str) -> Iterator[None]:
        outer, self._block = self._block, self._block.sub(header)
        try:
            yield
        finally:
            self._block = outer

    def _fail(self, condition: str, message: str, value: str = "0.0", whole: str = "0") -> None:
        site = self._host.site(f"{message}, in expression {self._expression!r}" if self._expression else message)
        self._host.fail(self._block, condition, site, value, whole)

    def _typed(self, value: Value) -> Typed:
        known = value.constant is not None or value.valid == "False"
        constant = Literal(value.constant, value.type) if known else None
        return Typed(value.type, value.valid is not None, constant=constant)

    def _as(self, value: Value, type_: pa.DataType) -> Value:
        """The value converted as Spark converts an argument."""
        if value.type == type_ or type_ == pa.null():
            return value
        if value.valid == "False":
            return self._null(type_)
        if value.constant is not None:
            try:
                return self._literal(converter(value.type, type_)(value.constant), type_)
            except EvaluationError:
                pass  # it fails where it is computed
        return self._named(self._cast(value, type_))

    def _looked_up(self, node: Node, column: Value, name: str) -> Value:
        assert column.dictionary is not None
        field_ = pa.field(name, column.type, column.valid is not None)
        result_type = self._type_of(node)
        values, states, dictionary = self._host.table(column.dictionary, name, field_, node, result_type)
        at = self._host.fresh("k")
        code = f"np.uint64({column.text} + 1)"
        self._block.add(
            f"{at} = {code}" if column.valid is None else f"{at} = {code} if {column.valid} else np.uint64(0)"
        )
        if may_fail(node):
            self._fail(f"{states}[{at}] == 2", f"{{table:{dictionary}}}", whole=at)
        valid = f"({states}[{at}] == 1)" if column.valid is not None or may_be_null(node) else None
        text = f"({values}[{at}] != 0)" if pa.types.is_boolean(result_type) else f"{values}[{at}]"
        return Value(result_type, text, valid, dictionary if kind_of(result_type) in HELD_BY_ARROW else None)

    def _type_of(self, node: Node) -> pa.DataType:
        return type_of_node(node, self._fields())

    def _fields(self) -> dict[str, pa.Field]:
        return {name: pa.field(name, value.type, value.valid is not None) for name, value in self._columns.items()}

    # Functions --------------------------------------------------------------------------------------------------------

    def _call(self, function: str, arguments: list[Value]) -> Value:
        result = rule_of(function)([self._typed(argument) for argument in arguments])
        if result.takes is not None:
            arguments = [self._as(each, type_) for each, type_ in zip(arguments, result.takes, strict=True)]
        if result.compute is not None:
            return self._computed(function, result, arguments)
        kinds = [argument.kind for argument in arguments]
        if any(kind in (*HELD_BY_ARROW, ValueKind.OTHER) for kind in kinds) and not self._host.on_columns:
            raise CannotCompile(f"{function} of several columns, one of them text")
        if function in ("=", "<>", "<", "<=", ">", ">="):
            return self._compare(function, arguments)
        if function in ("AND", "OR"):
            return self._truth(function, *arguments)
        if function == "IN":
            return self._among(arguments)
        if function in ("LEAST", "GREATEST"):
            return self._extreme(function, arguments, result.type)
        if arguments[0].valid == "False" and function not in ("IS NULL", "ISNAN"):
            return self._null(result.type)
        return self._arithmetic(function, arguments, result)

    def _computed(self, function: str, result: Typed, arguments: Sequence[Value]) -> Value:
        """A function of whole columns."""
        if not self._host.on_columns:
            raise CannotCompile(f"{function} is evaluated on columns")
        assert result.compute is not None
        computation = Computation(result.compute, result.type, tuple(argument.type for argument in arguments))
        texts = [text for argument in arguments for text in (argument.text, argument.valid or "None")]
        held = self._host.fresh("h")
        self._block.add(f"{held} = called({', '.join([self._host.held(computation, result.type), *texts])})")
        text = held if result.kind in HELD_BY_ARROW else f"unheld({held})"
        return Value(result.type, text, f"valid_of({held})")

    def _higher(self, function: str, nodes: Sequence[Node]) -> Value:
        """A function with functions as arguments, which may read columns."""
        fields = self._fields()
        own: list[Value] = []
        typed: list[Typed] = []
        for node in nodes:
            if isinstance(node, Lambda):
                typed.append(LambdaTyped(pa.null(), True, lambda_=node, fields=fields))
            else:
                own.append(self._operand(node))
                typed.append(self._typed(own[-1]))
        result = rule_of(function)(typed)
        if result.takes is not None:
            own = [self._as(each, type_) for each, type_ in zip(own, result.takes, strict=True)]
        captured = sorted({name for each in typed if isinstance(each, LambdaTyped) for name in each.captured})
        return self._computed(function, result, [*own, *(self.write(ColumnRef(name)) for name in captured)])

    def _among(self, arguments: list[Value]) -> Value:
        if len(arguments) > 64 and not self._host.on_columns:
            raise CannotCompile("IN with more than 64 choices, which is evaluated on columns")
        choices = [self._call("=", [arguments[0], choice]) for choice in arguments[1:]]
        any_equal = choices[0]
        for choice in choices[1:]:
            any_equal = self._named(self._truth("OR", self._named(any_equal), self._named(choice)))
        return any_equal

    def _arithmetic(self, function: str, arguments: list[Value], result: Typed) -> Value:
        first, valid = arguments[0], _all(argument.valid for argument in arguments)
        floats = ValueKind.FLOAT in [argument.kind for argument in arguments]
        texts = [argument.text for argument in arguments]
        match function:
            case "+" | "-" | "*" if floats:
                return self._real(f"({texts[0]} {function} {texts[1]})", result.type, valid)
            case "+" | "-" | "*":
                return self._checked(function, texts[0], texts[1], result.type, valid)
            case "/" | "%" | "DIV" | "PMOD":
                return self._divide(function, arguments, result.type, valid, floats=floats)
            case "&" | "|" | "^":
                return Value(result.type, f"({texts[0]} {function} {texts[1]})", valid)
            case "~":
                return Value(result.type, f"({texts[0]} ^ np.int64(-1))", valid)
            case "NEGATE" if floats:
                return Value(result.type, f"(-{first.text})", valid)
            case "NEGATE":
                return self._checked("-", "np.int64(0)", first.text, result.type, valid)
            case "ABS" if floats:
                return Value(result.type, f"np.abs({first.text})", valid)
            case "ABS":
                opposite = self._named(self._checked("-", "np.int64(0)", first.text, result.type, valid))
                return Value(result.type, f"max({first.text}, {opposite.text})", valid)
            case "FLOOR" | "CEIL":
                if not floats:
                    return first
                whole = self._named(Value(DOUBLE, f"np.{function.lower()}({first.text})", valid))
                wrong = f"({whole.text} < {float(-(2**63))!r} or {whole.text} >= {float(2**63)!r})"
                self._fail(wrong if valid is None else f"{whole.valid} and {wrong}", OVERFLOW.format(64))
                return Value(result.type, f"saturated({whole.text})", whole.valid)
            case "ROUND":
                places = int(arguments[1].constant) if len(arguments) == 2 else 0  # type: ignore[arg-type]
                return Value(result.type, f"rounded({first.text}, {self._host.literal(10.0**places)})", first.valid)
            case "SQRT":
                return Value(result.type, f"np.sqrt({first.text})", valid)
            case "EXP":
                return Value(result.type, f"exponential({first.text})", valid)
            case "POWER":
                return Value(result.type, f"power({first.text}, {arguments[1].text})", valid)
            case "LN" | "LOG":
                return self._logarithm(arguments, result.type)
            case "ISNAN":
                return Value(BOOLEAN, f"({_all([valid, f'np.isnan({first.text})'])})")
            case "NOT":
                return Value(result.type, f"({_all([valid, f'not {first.text}'])})", valid)
            case "IS NULL":
                return Value(result.type, "False" if valid is None else f"(not {valid})")
            case "HOUR" | "MINUTE" | "SECOND":
                unit, modulus = _UNITS[function]
                return Value(result.type, f"({first.text} // {unit} % {modulus})", valid)
            case "YEAR" | "MONTH" | "DAY":
                days = first.text if first.kind is ValueKind.DATE else f"{first.text} // {MICROSECONDS_A_DAY}"
                return Value(result.type, f"civil({days}, {('YEAR', 'MONTH', 'DAY').index(function)})", valid)
            case "UNIX_MICROS":
                return Value(result.type, first.text, valid)
            case "UNIX_MILLIS" | "UNIX_SECONDS":
                return Value(
                    result.type, f"({first.text} // {1_000 if function == 'UNIX_MILLIS' else 1_000_000})", valid
                )
        raise CannotCompile(f"{function} is evaluated on columns")

    def _real(self, text: str, type_: pa.DataType, valid: str | None) -> Value:
        return Value(type_, f"np.float64(np.float32({text}))" if type_ == FLOAT else text, valid)

    def _divide(
        self, function: str, arguments: Sequence[Value], type_: pa.DataType, valid: str | None, *, floats: bool
    ) -> Value:
        left, right = arguments[0].text, arguments[1]
        name = self._host.fresh("q")
        zero = f"{right.text} == 0"
        if not right.constant:
            self._fail(zero if valid is None else f"{valid} and {zero}", ZERO_DIVISOR)
        self._block.add(f"{name} = {'0.0' if floats or function == '/' else 'np.int64(0)'}")
        with self._inside(f"if {right.text} != 0:"):
            if function == "/":
                self._block.add(f"{name} = {left} / {right.text}")
            elif floats:
                self._block.add(f"{name} = np.fmod({left}, {right.text})")
            elif function == "DIV":
                self._block.add(f"{name} = quotient({left}, {right.text})")
            else:
                self._block.add(f"{name} = remainder({left}, {right.text})")
            if function == "PMOD":
                again = "np.fmod" if floats else "remainder"
                with self._inside(f"if {name} < 0:"):
                    self._block.add(f"{name} = {again}({name} + {right.text}, {right.text})")
        if function == "DIV":
            wrong = f"{left} == {-(2**63)} and {right.text} == -1"
            self._fail(wrong if valid is None else f"{valid} and {wrong}", OVERFLOW.format(64))
        return self._real(name, type_, valid)

    def _logarithm(self, arguments: list[Value], type_: pa.DataType) -> Value:
        """NULL unless the number, and the base if given, are positive."""
        number = arguments[-1].text
        base = arguments[0] if len(arguments) == 2 else None
        known = {2.0: "binary", 10.0: "decimal"}.get(float(base.constant or 0)) if base is not None else "natural"  # type: ignore[arg-type]
        defined = [argument.valid for argument in arguments] + [f"(not {number} <= 0.0)"]
        if base is None or known is not None:
            return Value(type_, f"{known}({number})", _all(defined))
        return Value(
            type_, f"(natural({number}) / natural({base.text}))", _all([*defined, f"(not {base.text} <= 0.0)"])
        )

    def _checked(self, symbol: str, left: str, right: str, type_: pa.DataType, valid: str | None) -> Value:
        result = self._named(Value(type_, f"{left} {symbol} {right}", valid))
        bits = type_.bit_width if kind_of(type_) is ValueKind.INTEGER else 64
        if bits < 64:
            low, high = _limits(type_)
            wrong = f"({result.text} < {low} or {result.text} > {high})"
        else:
            wrong = {
                "+": f"(({left} ^ {result.text}) & ({right} ^ {result.text})) < 0",
                "-": f"(({left} ^ {right}) & ({left} ^ {result.text})) < 0",
                "*": f"product_overflows({left}, {right})",
            }[symbol]
        self._fail(wrong if result.valid is None else f"{result.valid} and {wrong}", OVERFLOW.format(bits))
        return result

    def _compare(self, symbol: str, arguments: Sequence[Value]) -> Value:
        left, right = arguments
        valid = _all([left.valid, right.valid])
        operator = {"=": "==", "<>": "!="}.get(symbol, symbol)
        text = f"{left.text} {operator} {right.text}"
        if left.kind is ValueKind.FLOAT:
            text = _floats_compared(symbol, left, right)
        return Value(BOOLEAN, f"({_all([valid, text])})", valid)

    def _in_order(self, name: str, first: Node, second: Node) -> Value:
        """AND and OR whose second side can fail: it is computed only where the first does not decide."""
        left = self._named(self._as(self._operand(first), BOOLEAN))
        value, defined = self._host.fresh("b"), self._host.fresh("b")
        self._block.add(f"{value} = {left.text}", f"{defined} = {left.valid or True}")
        open_ = _all([left.valid, f"not {left.text}"]) if name == "AND" else left.text
        with self._inside(f"if not ({open_}):"):
            right = self._as(self._operand(second), BOOLEAN)
            both = self._named(self._truth(name, left, right))
            self._block.add(f"{value} = {both.text}", f"{defined} = {both.valid or True}")
        return Value(BOOLEAN, f"({defined} and {value})", defined)

    def _truth(self, name: str, left: Value, right: Value) -> Value:
        value = f"({left.text} {name.lower()} {right.text})"
        if left.valid is None and right.valid is None:
            return Value(BOOLEAN, value)
        false = [f"({_all([side.valid, f'not {side.text}'])})" for side in (left, right)]
        known = f"({false[0]} {'or' if name == 'AND' else 'and'} {false[1]})"
        return Value(BOOLEAN, value, f"({value} or {known})")

    def _extreme(self, function: str, arguments: Sequence[Value], type_: pa.DataType) -> Value:
        best, *others = arguments
        for other in others:
            name, a, b = self._host.fresh("x"), best.text, other.text
            better = f"{a} <= {b} or {b} != {b}" if function == "LEAST" else f"{a} >= {b} or {a} != {a}"
            keeps = better
            if best.valid is not None or other.valid is not None:
                keeps = f"{best.valid or True} and (not {other.valid or True} or {better})"
            self._block.add(f"{name} = {a} if {keeps} else {b}")
            valid = None if best.valid is None or other.valid is None else f"({best.valid} or {other.valid})"
            best = self._named(Value(type_, name, valid))
        return best

    # Choices: a branch is computed only where it is chosen ------------------------------------------------------------

    def _case(self, arguments: Sequence[Node]) -> Value:
        type_ = self._common([*arguments[1:-1:2], arguments[-1]])
        if type_ == pa.null():
            return self._null(type_)
        dictionary, name = self._dictionary(type_, "CASE with text in its results"), self._host.fresh("c")

        def branch(condition: Node, value: Node) -> str:
            chosen = self._as(self._operand(condition), BOOLEAN)
            with self._inside(f"if {chosen.text}:"):
                self._assign(name, value, type_)
            return "else:"

        pairs = zip(arguments[:-1:2], arguments[1:-1:2], strict=True)
        self._chain([partial(branch, *pair) for pair in pairs], partial(self._assign, name, arguments[-1], type_))
        return Value(type_, name, f"{name}_ok", dictionary)

    def _common(self, nodes: Sequence[Node]) -> pa.DataType:
        type_ = common_type(map(self._type_of, nodes))
        assert type_ is not None
        return type_

    def _dictionary(self, type_: pa.DataType, what: str) -> str | None:
        """The dictionary of a choice between texts in a loop; else None."""
        if kind_of(type_) not in HELD_BY_ARROW or self._host.on_columns:
            return None
        if type_ not in self._host.chosen:
            raise CannotCompile(what)
        return self._host.chosen[type_]

    def _chain(self, steps: Sequence[Callable[[], str]], last: Callable[[], object]) -> None:
        """Write each step into the block that the one before it opens. Python allows about a hundred nested blocks,
        so after a few steps a flag leads to the next one.
        """
        with ExitStack() as further:
            while True:
                now, steps = steps[:_NESTED], steps[_NESTED:]
                more = self._host.fresh("more") if steps else ""
                if more:
                    self._block.add(f"{more} = False")
                with ExitStack() as nested:
                    for step in now:
                        nested.enter_context(self._inside(step()))
                    if not more:
                        last()
                        return
                    self._block.add(f"{more} = True")
                further.enter_context(self._inside(f"if {more}:"))

    def _assign(self, name: str, node: Node, type_: pa.DataType) -> None:
        literal = isinstance(node, Literal) and node.value is not None
        value = self._as(
            self.write(node) if kind_of(type_) in HELD_BY_ARROW and not literal else self._operand(node), type_
        )
        text, kind = f"({value.text})", kind_of(type_)
        if kind not in HELD_BY_ARROW:
            text = {ValueKind.FLOAT: "float", ValueKind.BOOLEAN: "bool"}.get(kind, "np.int64") + text
        elif not self._host.on_columns:
            text = self._host.code(value)
        self._block.add(f"{name} = {text}", f"{name}_ok = {value.valid or True}")

    def _coalesce(self, arguments: Sequence[Node]) -> Value:
        type_ = self._common(arguments)
        if type_ == pa.null():
            return self._null(type_)
        dictionary, name = self._dictionary(type_, "COALESCE of text"), self._host.fresh("c")

        def choice(argument: Node) -> str:
            self._assign(name, argument, type_)
            return f"if not {name}_ok:"

        *first, last = (partial(choice, argument) for argument in arguments)
        self._chain(first, last)
        return Value(type_, name, f"{name}_ok", dictionary)

    # Casts ------------------------------------------------------------------------------------------------------------

    def _cast(self, value: Value, target: pa.DataType, *, trying: bool = False) -> Value:
        result = cast(self._typed(value), target, trying=trying)
        if value.valid == "False":
            return self._null(target)
        if value.type == target:
            return value
        if result.compute is not None:
            return self._computed(f"a cast from {name_of(value.type)} to {name_of(target)}", result, [value])
        source, kind, text, valid = value.kind, kind_of(target), value.text, value.valid
        match source, kind:
            case (ValueKind.INTEGER, ValueKind.INTEGER):
                low, high = _limits(target)
                if target.bit_width < value.type.bit_width or not pa.types.is_signed_integer(target):
                    self._fits(f"{text} < {low} or {text} > {high}", value, target)
                return Value(target, text, valid)
            case (ValueKind.FLOAT, ValueKind.INTEGER):
                low, high = _limits(target)
                whole = self._named(Value(DOUBLE, f"np.trunc({text})"))
                least = f"{whole.text} >= {float(low)!r}" if target.bit_width == 64 else f"{whole.text} > {low - 1.0!r}"
                fits = f"{least} and {whole.text} < {high + 1.0!r}"
                self._fits(f"not ({fits})", value, target)
                return Value(target, f"(np.int64({whole.text}) if {fits} else np.int64(0))", valid)
            case (ValueKind.INTEGER | ValueKind.FLOAT, ValueKind.FLOAT):
                return self._real(f"float({text})", target, valid)
            case (ValueKind.BOOLEAN, ValueKind.INTEGER):
                return Value(target, f"np.int64({text})", valid)
            case (ValueKind.BOOLEAN, ValueKind.FLOAT):
                return Value(target, f"float({text})", valid)
            case (ValueKind.INTEGER | ValueKind.FLOAT, ValueKind.BOOLEAN):
                return Value(target, f"({_all([valid, f'{text} != 0'])})", valid)
            case (_, ValueKind.DATE) if source in TIMES:
                return Value(target, f"({text} // {MICROSECONDS_A_DAY})", valid)
            case (ValueKind.DATE, _) if kind in TIMES:
                return self._checked("*", text, f"np.int64({MICROSECONDS_A_DAY})", target, valid)
        return Value(target, text, valid)

    def _fits(self, wrong: str, value: Value, target: pa.DataType) -> None:
        floating = value.kind is ValueKind.FLOAT
        message = f"{{{'value' if floating else 'whole'}}} does not fit {name_of(target)}"
        condition = f"({wrong})" if value.valid is None else f"{value.valid} and ({wrong})"
        self._fail(condition, message, value.text if floating else "0.0", "0" if floating else value.text)


def _floats_compared(symbol: str, left: Value, right: Value) -> str:
    """NaN equals NaN and is above every number. Beside a constant that is none, most of that is implied."""
    a, b = left.text, right.text
    if symbol in ("<", "<="):  # a < b is b > a
        left, right, a, b, symbol = right, left, b, a, {"<": ">", "<=": ">="}[symbol]
    known = [each.constant is not None and each.constant == each.constant for each in (left, right)]
    match symbol:
        case "=" | "<>":
            equal = f"{a} == {b}" if any(known) else f"({a} == {b} or ({a} != {a} and {b} != {b}))"
            return equal if symbol == "=" else f"not {equal}"
        case ">" if known[0]:
            return f"{a} > {b}"
        case ">":
            return f"not {a} <= {b}" if known[1] else f"(not {a} <= {b} and {b} == {b})"
        case _ if known[0]:
            return f"{a} >= {b}"
    return f"not {a} < {b}" if known[1] else f"({a} >= {b} or {a} != {a})"


def _all(conditions: "Iterator[str | None] | Sequence[str | None]") -> str | None:
    """The conditions that are not None, joined with `and`."""
    present = list(dict.fromkeys(condition for condition in conditions if condition is not None))
    if "False" in present:
        return "False"
    return " and ".join(present) if present else None


def _limits(type_: pa.DataType) -> tuple[int, int]:
    signed = pa.types.is_signed_integer(type_)
    bits = type_.bit_width
    return (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
