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
from dataclasses import dataclass, field, replace
from functools import partial

import pyarrow as pa

from riprap.expressions.ast import Call, Cast, ColumnRef, Literal, Node, columns_of
from riprap.expressions.casts import cast
from riprap.expressions.facts import may_be_null, may_fail
from riprap.expressions.functions import RULES
from riprap.expressions.kinds import HELD_BY_ARROW, ValueKind, common, kind_of
from riprap.expressions.lookup_tables import Dictionary, Fetch, Table
from riprap.expressions.moments import MICROSECONDS_A_DAY
from riprap.expressions.typed import Kernel, Typed

OVERFLOW = "an integer does not fit 64 bits (CAST to DOUBLE to compute beyond them)"
_UNITS = {"HOUR": (3_600_000_000, 24), "MINUTE": (60_000_000, 60), "SECOND": (1_000_000, 60)}
_NESTED = 16  # blocks that a chain of choices nests at most


class CannotCompile(Exception):
    """No loop code can be generated for this; the message explains why."""


@dataclass
class Block:
    """Lines and indented blocks of lines, in order."""

    header: str = ""
    parent: "Block | None" = None
    items: "list[str | Block]" = field(default_factory=list)
    only: tuple[str, frozenset[object]] | None = None  # a value's text, and its possible values in this block

    def add(self, *lines: str) -> None:
        self.items += lines

    def sub(self, header: str) -> "Block":
        block = Block(header, self)
        self.items.append(block)
        return block

    @property
    def loops(self) -> bool:
        """Whether it is in a nested loop, within the loop over rows."""
        return self.header.startswith("for ") or (self.parent is not None and self.parent.loops)

    def lines(self, depth: int) -> Iterator[str]:
        pad = "    " * depth
        if self.header:
            yield pad + self.header
            pad += "    "
            depth += 1
        for item in self.items or ["pass"] * bool(self.header):
            if isinstance(item, str):
                yield pad + item
            else:
                yield from item.lines(depth)


@dataclass(frozen=True)
class Value:
    """A column or an expression of a row, as text without side effects."""

    type: pa.DataType
    text: str
    valid: str | None = None  # None: never null
    dictionary: str | None = None  # of text: the name of the dictionary of its codes
    constant: bool | int | float | str | bytes | None = None

    @property
    def kind(self) -> ValueKind:
        return kind_of(self.type)


class FunctionWriter:
    """A function that is being generated: its names, errors, dictionaries and tables."""

    on_columns = False  # whether it processes whole columns, or the rows of a loop
    code: "Callable[[Value], str]"  # in a loop, text as a code of the dictionary in `chosen`

    def __init__(self) -> None:
        self.sites: list[str] = []
        self.dictionaries: dict[str, Dictionary] = {}
        self.tables: dict[str, Table] = {}
        self._table_names: dict[tuple[str, str], str] = {}
        self.chosen: dict[ValueKind, str] = {}  # in a loop, by kind: the dictionary of text that a choice returns
        self._names = 0

    def fresh(self, stem: str) -> str:
        """A unique name."""
        self._names += 1
        return f"{stem}{self._names}"

    def array(self, name: str, kind: str, fetch: Fetch) -> str:
        """An array argument: `kind` is its dtype, with "=" before it where it is only read."""
        raise NotImplementedError

    def literal(self, value: float) -> str:
        """An argument with this value, so that texts that differ only in numbers are equal."""
        raise NotImplementedError

    def held(self, value: object, type_: pa.DataType) -> str:
        """A constant or function of text, held by Arrow."""
        raise CannotCompile("constant text in an expression that does not read exactly one text column")

    def decoded(self, value: "Value") -> str:
        """The text of these codes, held by Arrow."""
        raise NotImplementedError

    def fail(self, block: Block, condition: str, site: int, value: str, whole: str) -> None:
        """Report an error in rows for which a condition is true; `value` and `whole` are for its message."""
        raise NotImplementedError

    def site(self, message: str) -> int:
        """The number of an error; `message` may contain {value} (a float), {whole}, or {table:…} (why a code fails)."""
        self.sites.append(message)
        return len(self.sites)

    def dictionary(self, name: str, fetch: Fetch) -> str:
        self.dictionaries.setdefault(name, Dictionary(fetch))
        return name

    def table(
        self, dictionary: str, column: str, field: pa.Field, node: Node, result_type: pa.DataType
    ) -> tuple[str, str, str]:
        """For an expression of one text column: the names of the values and states by code + 1 (0: of null), and of
        the dictionary of the values. States: 0 null, 1 valid, 2 failed.
        """
        known = self._table_names.get((dictionary, str(node)))
        if known is None:
            known = self._table_names[dictionary, str(node)] = self.fresh("t")
            table = Table(self.dictionaries[dictionary], column, field, node, result_type)
            self.array(
                known, "=float64" if pa.types.is_floating(result_type) else "=int64", lambda inputs: table.values
            )
            self.array(f"{known}_s", "=uint8", lambda inputs: table.states)
            self.dictionaries[f"{known}_d"] = Dictionary(lambda inputs: table.result_dictionary)
            self.tables[f"{known}_d"] = table
        return known, f"{known}_s", f"{known}_d"

    def refresh(self, inputs: object) -> bool:
        """Refresh dictionaries and the tables over them, in order; return whether one changed."""
        moved = False
        for name, dictionary in self.dictionaries.items():
            table = self.tables.get(name)
            if table is not None:
                table.refresh()
                if table.result_dictionary is None:
                    continue
            moved |= dictionary.refresh(inputs)
        return moved

    def error(self, site: int, value: float, whole: int) -> str:
        message = self.sites[site - 1]
        for name, table in self.tables.items():
            message = message.replace(f"{{table:{name}}}", table.reasons.get(whole, ""))
        return message.replace("{value}", str(value)).replace("{whole}", str(whole))


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

    def _write(self, node: Node) -> Value:
        match node:
            case ColumnRef(name):
                return self._columns[name]
            case Literal(value, type_):
                return self._literal(value, type_)
            case Call("IS NULL", (ColumnRef(name),)):
                valid = self._columns[name].valid
                return Value(pa.bool_(), "False" if valid is None else f"(not {valid})")
        read = [name for name in columns_of(node) if self._columns[name].kind in HELD_BY_ARROW]
        if read and len(columns_of(node)) == 1 and self._columns[read[0]].dictionary is not None:
            return self._looked_up(node, self._columns[read[0]], read[0])
        match node:
            case Cast(operand, type_):
                return self._cast(self.write(operand), type_)
            case Call("CASE", arguments):
                return self._case(arguments)
            case Call("COALESCE", arguments):
                return self._coalesce(arguments)
            case Call(function, arguments):
                return self._call(function, [self.write(argument) for argument in arguments])
        raise CannotCompile(f"{node} cannot be generated")

    # Small parts ------------------------------------------------------------------------------------------------------

    def _literal(self, value: bool | int | float | str | bytes | None, type_: pa.DataType) -> Value:
        if value is None:
            return self._null(type_)
        if isinstance(value, (str, bytes)):
            return Value(type_, self._host.held(value, type_), None, None, value)
        if isinstance(value, bool):
            return Value(type_, str(value), None, None, value)
        return Value(type_, self._host.literal(value), None, None, value)

    def _null(self, type_: pa.DataType) -> Value:
        kind = kind_of(type_)
        if kind in HELD_BY_ARROW:
            return Value(type_, self._host.held(None, kind.type), "False")
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

    def _as(self, value: Value, kind: ValueKind) -> Value:
        if value.kind is kind or kind is ValueKind.NULL:
            return value
        if value.valid == "False":
            return self._null(kind.type)
        return Value(kind.type, f"float({value.text})", value.valid)

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
        match node:
            case ColumnRef(name):
                return self._columns[name].type
            case Literal(_, type_) | Cast(_, type_):
                return type_
            case Call(function, arguments):
                typed = [
                    Typed(self._type_of(a), True, constant=a if isinstance(a, Literal) else None) for a in arguments
                ]
                return RULES[function](typed).type
        raise AssertionError(node)

    # Functions --------------------------------------------------------------------------------------------------------

    def _call(self, function: str, arguments: list[Value]) -> Value:
        result = RULES[function]([self._typed(argument) for argument in arguments])
        if result.kernel is not None and self._host.on_columns:
            return self._kernel(result, result.kernel, [argument.text for argument in arguments], arguments)
        kinds = [argument.kind for argument in arguments]
        if any(kind in (*HELD_BY_ARROW, ValueKind.OTHER) for kind in kinds) and not self._host.on_columns:
            raise CannotCompile(f"{function} of several columns, one of them text")
        if function in ("=", "<>", "<", "<=", ">", ">="):
            return self._compare(function, arguments)
        if function in ("AND", "OR"):
            return self._truth(function, *(self._as(argument, ValueKind.BOOLEAN) for argument in arguments))
        if function == "IN":
            if len(arguments) > 64 and not self._host.on_columns:
                raise CannotCompile("IN with more than 64 choices, which is evaluated on columns")
            choices = [self._compare("=", [arguments[0], choice]) for choice in arguments[1:]]
            any_equal = choices[0]
            for choice in choices[1:]:
                any_equal = self._named(self._truth("OR", self._named(any_equal), self._named(choice)))
            return any_equal
        if function in ("LEAST", "GREATEST"):
            return self._extreme(function, arguments)
        if arguments[0].valid == "False" and function not in ("IS NULL", "ISNAN"):
            return self._null(result.type)
        return self._arithmetic(function, arguments, result)

    def _kernel(self, result: Typed, kernel: Kernel, texts: Sequence[str], arguments: Sequence[Value]) -> Value:
        """A function that Arrow computes; it is null exactly where an argument is."""
        valid = _all(argument.valid for argument in arguments)
        if valid == "False":
            return self._null(result.type)
        called = f"called({', '.join([self._host.held(kernel, result.type), *texts])})"
        if result.kind not in HELD_BY_ARROW:
            called = f"unheld({called})"
        return Value(result.type, called, valid)

    def _arithmetic(self, function: str, arguments: list[Value], result: Typed) -> Value:
        first, valid = arguments[0], _all(argument.valid for argument in arguments)
        floats = ValueKind.FLOAT in [argument.kind for argument in arguments]
        texts = [f"float({a.text})" if floats and a.kind is ValueKind.INTEGER else a.text for a in arguments]
        match function:
            case "+" | "-" | "*" if floats:
                return Value(result.type, f"({texts[0]} {function} {texts[1]})", valid)
            case "+" | "-" | "*":
                return self._checked(function, texts[0], texts[1], result.type, valid)
            case "/" | "%":
                right = arguments[1]
                divided = f"float({texts[0]}) / float({texts[1]})"
                if function == "%":
                    divided = f"np.fmod({texts[0]}, {texts[1]})" if floats else f"remainder({texts[0]}, {texts[1]})"
                if right.constant:
                    return Value(result.type, f"({divided})", valid)
                name = self._host.fresh("q")
                self._block.add(f"{name} = {'0.0' if result.kind is ValueKind.FLOAT else 'np.int64(0)'}")
                with self._inside(f"if {texts[1]} != 0:"):
                    self._block.add(f"{name} = {divided}")
                return Value(result.type, name, _all([valid, f"({texts[1]} != 0)"]))
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
                return Value(result.type, f"np.{function.lower()}({first.text})" if floats else first.text, valid)
            case "ROUND" if first.kind is ValueKind.FLOAT:
                places = int(arguments[1].constant) if len(arguments) == 2 else 0  # type: ignore[arg-type]
                return Value(result.type, f"rounded({first.text}, {self._host.literal(10.0**places)})", first.valid)
            case "ROUND":
                return Value(result.type, first.text, first.valid)
            case "SQRT":
                return Value(result.type, f"np.sqrt(float({first.text}))", valid)
            case "EXP":
                return Value(result.type, f"exponential(float({first.text}))", valid)
            case "POWER":
                return Value(result.type, f"power(float({first.text}), float({arguments[1].text}))", valid)
            case "LN" | "LOG":
                return self._logarithm(arguments, result.type)
            case "ISNAN":
                return Value(pa.bool_(), f"({_all([valid, f'np.isnan(float({first.text}))'])})")
            case "NOT":
                return Value(result.type, f"({_all([valid, f'not {first.text}'])})", valid)
            case "IS NULL":
                return Value(result.type, "False" if valid is None else f"(not {valid})")
            case "NULLIF":
                equal = self._named(self._compare("=", arguments))
                unequal = _all([first.valid, f"(not {equal.text})"])
                text = self._as(first, result.kind).text
                if result.kind in HELD_BY_ARROW:
                    text = f"({text} if {unequal} else {self._null(result.type).text})"
                return Value(
                    result.type, f"({unequal} and {text})" if result.kind is ValueKind.BOOLEAN else text, unequal
                )
            case "HOUR" | "MINUTE" | "SECOND":
                unit, modulus = _UNITS[function]
                return Value(result.type, f"({first.text} // {unit} % {modulus})", valid)
            case "YEAR" | "MONTH" | "DAY":
                days = first.text if first.kind is ValueKind.DATE else f"{first.text} // {MICROSECONDS_A_DAY}"
                return Value(result.type, f"civil({days}, {('YEAR', 'MONTH', 'DAY').index(function)})", valid)
            case "UNIX_MICROS":
                return Value(result.type, first.text, valid)
        raise CannotCompile(f"{function} is evaluated on columns")

    def _logarithm(self, arguments: list[Value], type_: pa.DataType) -> Value:
        """NULL unless the number, and the base if given, are positive."""
        number = f"float({arguments[-1].text})"
        base = arguments[0] if len(arguments) == 2 else None
        known = {2.0: "binary", 10.0: "decimal"}.get(float(base.constant or 0)) if base is not None else "natural"  # type: ignore[arg-type]
        defined = [argument.valid for argument in arguments] + [f"(not {number} <= 0.0)"]
        if base is None or known is not None:
            return Value(type_, f"{known}({number})", _all(defined))
        divisor = f"float({base.text})"
        return Value(type_, f"(natural({number}) / natural({divisor}))", _all([*defined, f"(not {divisor} <= 0.0)"]))

    def _checked(self, symbol: str, left: str, right: str, type_: pa.DataType, valid: str | None) -> Value:
        result = self._named(Value(type_, f"{left} {symbol} {right}", valid))
        wrong = {
            "+": f"(({left} ^ {result.text}) & ({right} ^ {result.text})) < 0",
            "-": f"(({left} ^ {right}) & ({left} ^ {result.text})) < 0",
            "*": f"product_overflows({left}, {right})",
        }[symbol]
        self._fail(wrong if result.valid is None else f"{result.valid} and {wrong}", OVERFLOW)
        return result

    def _compare(self, symbol: str, arguments: Sequence[Value]) -> Value:
        kind = common(argument.kind for argument in arguments)
        left, right = (self._as(argument, kind) for argument in arguments) if kind else arguments
        valid = _all([left.valid, right.valid])
        operator = {"=": "==", "<>": "!="}.get(symbol, symbol)
        return Value(pa.bool_(), f"({_all([valid, f'{left.text} {operator} {right.text}'])})", valid)

    def _truth(self, name: str, left: Value, right: Value) -> Value:
        value = f"({left.text} {name.lower()} {right.text})"
        if left.valid is None and right.valid is None:
            return Value(pa.bool_(), value)
        false = [f"({_all([side.valid, f'not {side.text}'])})" for side in (left, right)]
        known = f"({false[0]} {'or' if name == 'AND' else 'and'} {false[1]})"
        return Value(pa.bool_(), value, f"({value} or {known})")

    def _extreme(self, function: str, arguments: Sequence[Value]) -> Value:
        kind = common(argument.kind for argument in arguments)
        if kind is None or (kind in HELD_BY_ARROW and not self._host.on_columns):
            raise CannotCompile(f"{function} of text")
        if kind is ValueKind.NULL:
            return arguments[0]
        best, *others = [self._as(argument, kind) for argument in arguments]
        for other in others:
            name, a, b = self._host.fresh("x"), best.text, other.text
            better = f"{a} <= {b} or {b} != {b}" if function == "LEAST" else f"{a} >= {b} or {a} != {a}"
            keeps = better
            if best.valid is not None or other.valid is not None:
                keeps = f"{best.valid or True} and (not {other.valid or True} or {better})"
            self._block.add(f"{name} = {a} if {keeps} else {b}")
            valid = None if best.valid is None or other.valid is None else f"({best.valid} or {other.valid})"
            best = self._named(Value(kind.type, name, valid))
        return best

    # Choices: a branch is computed only where it is chosen ------------------------------------------------------------

    def _case(self, arguments: Sequence[Node]) -> Value:
        results = [*arguments[1:-1:2], arguments[-1]]
        kind = common(kind_of(self._type_of(result)) for result in results)
        if kind is ValueKind.NULL:
            return self._null(kind.type)
        assert kind is not None
        dictionary, name = self._dictionary(kind, "CASE with text in its results"), self._host.fresh("c")

        def branch(condition: Node, value: Node) -> str:
            chosen = self.write(condition)
            with self._inside(f"if {chosen.text}:"):
                self._assign(name, value, kind)
            return "else:"

        pairs = zip(arguments[:-1:2], arguments[1:-1:2], strict=True)
        self._chain([partial(branch, *pair) for pair in pairs], partial(self._assign, name, arguments[-1], kind))
        return Value(kind.type, name, f"{name}_ok", dictionary)

    def _dictionary(self, kind: ValueKind, what: str) -> str | None:
        """The dictionary of a choice between texts in a loop; else None."""
        if kind not in HELD_BY_ARROW or self._host.on_columns:
            return None
        if kind not in self._host.chosen:
            raise CannotCompile(what)
        return self._host.chosen[kind]

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

    def _assign(self, name: str, node: Node, kind: ValueKind) -> None:
        value = self._as(self.write(node), kind)
        text = f"({value.text})"
        if kind not in HELD_BY_ARROW:
            text = {ValueKind.FLOAT: "float", ValueKind.BOOLEAN: "bool"}.get(kind, "np.int64") + text
        elif not self._host.on_columns:
            text = self._host.code(value)
        self._block.add(f"{name} = {text}", f"{name}_ok = {value.valid or True}")

    def _coalesce(self, arguments: Sequence[Node]) -> Value:
        kind = common(kind_of(self._type_of(argument)) for argument in arguments)
        if kind is ValueKind.NULL:
            return self._null(kind.type)
        assert kind is not None
        dictionary, name = self._dictionary(kind, "COALESCE of text"), self._host.fresh("c")

        def choice(argument: Node) -> str:
            self._assign(name, argument, kind)
            return f"if not {name}_ok:"

        *first, last = (partial(choice, argument) for argument in arguments)
        self._chain(first, last)
        return Value(kind.type, name, f"{name}_ok", dictionary)

    # Casts ------------------------------------------------------------------------------------------------------------

    def _cast(self, value: Value, target: pa.DataType) -> Value:
        source, kind, text, valid = value.kind, kind_of(target), value.text, value.valid
        if valid == "False":
            return self._null(target)
        match source, kind:
            case (ValueKind.INTEGER, ValueKind.INTEGER):
                if target.bit_width < 64:
                    low, high = _limits(target)
                    self._fits(f"{text} < {low} or {text} > {high}", value, target)
                return Value(target, text, valid)
            case (ValueKind.FLOAT, ValueKind.INTEGER):
                low, high = _limits(target)
                whole = self._named(Value(pa.float64(), f"np.trunc({text})"))
                least = f"{whole.text} >= {float(low)!r}" if target.bit_width == 64 else f"{whole.text} > {low - 1.0!r}"
                fits = f"{least} and {whole.text} < {high + 1.0!r}"
                self._fits(f"not ({fits})", value, target)
                return Value(target, f"(np.int64({whole.text}) if {fits} else np.int64(0))", valid)
            case (ValueKind.INTEGER | ValueKind.FLOAT, ValueKind.FLOAT):
                single = target.bit_width == 32
                return Value(target, f"np.float64(np.float32({text}))" if single else f"float({text})", valid)
            case (ValueKind.BOOLEAN, ValueKind.INTEGER):
                return Value(target, f"np.int64({text})", valid)
            case (ValueKind.BOOLEAN, ValueKind.FLOAT):
                return Value(target, f"float({text})", valid)
            case (ValueKind.INTEGER | ValueKind.FLOAT, ValueKind.BOOLEAN):
                return Value(target, f"({_all([valid, f'{text} != 0'])})", valid)
            case (ValueKind.TIMESTAMP, ValueKind.DATE):
                return Value(target, f"({text} // {MICROSECONDS_A_DAY})", valid)
            case (ValueKind.DATE, ValueKind.TIMESTAMP):
                return self._checked("*", text, f"np.int64({MICROSECONDS_A_DAY})", target, valid)
            case _ if source is kind and (kind not in HELD_BY_ARROW or self._host.on_columns):
                return Value(target, text, valid)
        if self._host.on_columns and (kernel := (result := cast(self._typed(value), target)).kernel) is not None:
            return self._kernel(result, kernel, [text, valid or "None"], [value])
        raise CannotCompile(f"a cast from {value.type} to {target}")

    def _fits(self, wrong: str, value: Value, target: pa.DataType) -> None:
        floating = value.kind is ValueKind.FLOAT
        message = f"{{{'value' if floating else 'whole'}}} does not fit {target}"
        condition = f"({wrong})" if value.valid is None else f"{value.valid} and ({wrong})"
        self._fail(condition, message, value.text if floating else "0.0", "0" if floating else value.text)


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
