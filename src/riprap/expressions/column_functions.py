"""The generated code of an expression as a function of whole columns: the same statements, with arrays for a row's
values.

The code describes one row (`code_writer.py`); this module rewrites its syntax tree. `a and b` becomes `a & b`, a
choice between two values selects from two arrays, and a block under a condition changes the rows for which the
condition is true: the block's *mask*. Values computed for other rows are ignored, and only a row of the mask can
fail. So every function has one definition, and batches for which no loop was compiled need no compiler.

Text is held by Arrow. Parts that read one column with a dictionary are looked up in a table, as in a loop.
"""

import ast
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from riprap.expressions import kernels
from riprap.expressions.ast import Call, Cast, Lambda, Literal, Node, columns_of
from riprap.expressions.code_writer import ExpressionWriter
from riprap.expressions.comparing import chosen
from riprap.expressions.computed import Computation, is_long
from riprap.expressions.generated_code import Block, FunctionWriter, Value
from riprap.expressions.kinds import MONTHS, NESTED, ValueKind, kind_of, logical
from riprap.expressions.typed import EvaluationError
from riprap.expressions.vectors import Vector, aligned, from_arrow, full, validity

_ARROW = (pa.Array, pa.Scalar)


Shape = tuple[bool, bool]  # what selects the function for a column of a batch: see `shape_of`


def shape_of(column: pa.Array) -> Shape:
    """Whether it has nulls, and whether it is text with a dictionary."""
    return column.null_count > 0, isinstance(column, pa.DictionaryArray)


def in_full(column: pa.Array) -> pa.Array:
    """Decode a column whose dictionary contains a null."""
    if isinstance(column, pa.DictionaryArray) and column.dictionary.null_count:
        return column.cast(column.type.value_type)
    return column


class ColumnFunction(FunctionWriter):
    """An expression over columns with these shapes."""

    on_columns = True

    def __init__(self, node: Node, fields: Sequence[pa.Field], shapes: Sequence[Shape], expression: str) -> None:
        super().__init__()
        self._scope: dict[str, Any] = {}
        self._fetched: dict[str, Callable[[Any], Any]] = {}
        self._shapes = tuple(shapes)
        row = {field.name: self._column(place, field, shapes[place]) for place, field in enumerate(fields)}
        block = Block()
        result = ExpressionWriter(self, block, row, expression).write(node)
        self.type = result.type
        block.add(f"return {result.text}, {result.valid}")
        parameters = [name for place in range(len(fields)) for name in (f"col{place}", f"col{place}_ok")]
        head = f"def columns({', '.join(['failures', *parameters, *self._fetched])}):"
        # The generated code contains no names or literals of the expression: it may come from a file, and the code is
        # executed.
        self.text = "\n".join([head, *block.lines(1)])
        self._function = _vectorised(self.text, self._scope, folding=not fields)

    def _column(self, place: int, field: pa.Field, shape: Shape) -> Value:
        (nulls, encoded), type_ = shape, logical(field.type)
        valid = f"col{place}_ok" if nulls else None
        if kind_of(type_) is ValueKind.NULL:
            return Value(type_, "0", "False")
        if encoded:
            self.dictionary(f"dict{place}", lambda columns: columns[place].dictionary)
        return Value(type_, f"col{place}", valid, f"dict{place}" if encoded else None)

    def array(self, name: str, kind: str, fetch: Callable[[Any], Any]) -> str:
        self._fetched.setdefault(name, fetch)
        return name

    def literal(self, value: float) -> str:
        return self._known("lit", np.float64(value) if isinstance(value, float) else np.int64(value))

    def held(self, value: object, type_: pa.DataType) -> str:
        if isinstance(value, Computation):
            return self._known("held", value)
        if type_ == MONTHS and value is not None:
            value = pa.MonthDayNano((value, 0, 0))
        return self._known("held", pa.scalar(value, type_))

    def _known(self, stem: str, value: object) -> str:
        self._scope[name := self.fresh(stem)] = value
        return name

    def decoded(self, value: Value) -> str:
        assert value.dictionary is not None
        codes_of = self.dictionaries[value.dictionary]
        dictionary = self.array(f"of_{value.dictionary}", "", lambda inputs: codes_of.current)
        return f"decoded({dictionary}, {value.text}, {value.valid})"

    def fail(self, block: Block, condition: str, site: int, value: str, whole: str) -> None:
        block.add(f"fail({condition}, {site}, {value}, {whole})")

    def run(self, columns: Sequence[pa.Array]) -> Vector:
        """One value per row; raises `EvaluationError` for the first row that fails."""
        self.refresh(columns)
        failures = Failures()
        arguments: list[Any] = []
        for column, (_, encoded) in zip(columns, self._shapes, strict=True):
            arguments += _codes(column) if encoded else _loaded(column)
        with np.errstate(all="ignore"):
            values, valid = self._function(failures, *arguments, *[fetch(columns) for fetch in self._fetched.values()])
        if failures.row is not None:
            raise EvaluationError(failures.reason or self.error(failures.site, failures.value, failures.whole))
        if valid is not None:
            valid = None if np.all(valid) else valid if np.ndim(valid) else np.False_
        return Vector(values, valid)

    def truth(self, columns: Sequence[pa.Array]) -> tuple[np.ndarray, np.ndarray] | None:
        """If the expression is one table over a column's dictionary in which no entry fails: whether it is true for
        each code (null last), and the codes. Selecting rows then needs no value per row.
        """
        if len(self.tables) != 1 or len(self._shapes) != 1:
            return None
        self.refresh(columns)
        (table,) = self.tables.values()
        if table.reasons:
            return None
        true = ((table.states == 1) & (table.values != 0)).view(np.uint8)
        return np.append(true[1:], true[0]), _codes(columns[0])[0]


class Failures:
    """The first row of a call that fails."""

    row: int | None = None
    site, value, whole, reason = 0, 0.0, 0, ""

    def fail(self, mask: Any, condition: Any, site: int, value: Any, whole: Any) -> None:
        wrong = condition if mask is np.True_ else mask & condition
        if not np.any(wrong):
            return
        row = int(np.argmax(wrong))
        if self.row is None or row < self.row:
            self.row, self.site, self.reason = row, site, ""
            self.value, self.whole = (np.broadcast_to(one, np.shape(wrong)).flat[row].item() for one in (value, whole))

    def called(self, mask: Any, computation: Computation, *values: Any) -> Any:
        """The results of a function of whole columns; after a failure, arbitrary ones."""
        try:
            return computation.run(mask, values)
        except EvaluationError as failure:
            row = failure.row or 0
            if self.row is None or row < self.row:
                self.row, self.reason = row, str(failure)
        rows = next((len(value) for value in values if is_long(value)), None)
        return pa.scalar(None, computation.type) if rows is None else pa.nulls(rows, computation.type)


def folded(node: Node) -> Node:
    """The expression with every constant part replaced by its value; raises `EvaluationError` if one fails. Constant
    arrays, maps and structs stay as they are.
    """
    match node:
        case Call(function, arguments):
            node = Call(function, tuple(map(folded, arguments)))
        case Cast(operand, type_, trying):
            node = Cast(folded(operand), type_, trying)
        case _:
            return node
    return node if columns_of(node) or any(isinstance(each, Lambda) for each in _parts(node)) else _constant(node)


def _parts(node: Node) -> Sequence[Node]:
    return node.arguments if isinstance(node, Call) else ()


@lru_cache(maxsize=256)
def _constant(node: Node) -> Node:
    function = ColumnFunction(node, [], [], "")
    values, valid = function.run([])
    if valid is not None:
        return Literal(None, function.type)
    if kind_of(function.type) in NESTED:
        return node
    if isinstance(values, pa.Scalar):
        return Literal(values.as_py(), function.type)
    return Literal(np.asarray(values).item(), function.type)


# Columns as arguments -------------------------------------------------------------------------------------------------


def _loaded(column: pa.Array) -> tuple[Any, Any]:
    kind = kind_of(column.type)
    return (None, validity(column)) if kind is ValueKind.OTHER else from_arrow(column)


def _codes(column: pa.DictionaryArray) -> tuple[np.ndarray, Any]:
    """Each row's dictionary code, one past the end for null; and which rows are not null."""
    indices = column.indices
    if indices.null_count:
        codes, valid = from_arrow(indices)
        return np.where(valid, codes, len(column.dictionary)), valid
    codes = aligned(indices.to_numpy())
    return (codes if codes.dtype in (np.int32, np.int64) else codes.astype(np.int64)), None


# Functions of the generated code --------------------------------------------------------------------------------------


def _choose(condition: Any, yes: Any, no: Any) -> Any:
    if np.ndim(condition) == 0:
        return yes if condition else no
    if condition.all():
        return yes
    if isinstance(yes, _ARROW) or isinstance(no, _ARROW):
        return chosen(condition, *(pa.repeat(v, len(condition)) if isinstance(v, pa.Scalar) else v for v in (yes, no)))
    dtype, rows = np.result_type(yes, no), condition.size
    width = np.uint8 if dtype == np.bool_ else np.int64  # select bits, of floats too
    sides = [full(side, rows).astype(dtype, copy=False).view(width) for side in (yes, no)]
    return kernels.choose(condition, *sides).view(dtype)


def _decoded(dictionary: pa.Array, codes: np.ndarray, valid: Any) -> pa.Array:
    if logical(dictionary.type) != dictionary.type:
        dictionary = dictionary.cast(logical(dictionary.type))
    return dictionary.take(pa.array(codes, mask=None if valid is None else ~full(valid, len(codes))))


def _valid_of(held: Any) -> Any:
    """Which rows are not null: a bool, or one for each."""
    if isinstance(held, pa.Scalar):
        return np.bool_(held.is_valid)
    return np.True_ if not held.null_count else validity(held)


def _table_entry(table: np.ndarray, places: np.ndarray) -> np.ndarray:
    return table.take(places.view(np.int64), mode="clip")


_SCOPE: dict[str, Any] = {
    "np": np,
    "both": np.logical_and,
    "either": np.logical_or,
    "negated": np.logical_not,
    "choose": _choose,
    "entry": _table_entry,
    "decoded": _decoded,
    "unheld": lambda held: from_arrow(held).values,
    "valid_of": _valid_of,
    "float": lambda values: np.asarray(values, np.float64)[()],
    "bool": lambda values: np.asarray(values, np.bool_)[()],
    "max": np.maximum,
    "Eq": np.equal,
    "NotEq": np.not_equal,
    "Lt": np.less,
    "LtE": np.less_equal,
    "Gt": np.greater,
    "GtE": np.greater_equal,
}
_REAL = ("exponential", "natural", "binary", "decimal", "power")  # their last bit depends on the implementation
_EXACT = ("product_overflows", "remainder", "quotient", "rounded", "saturated", "civil")


def _vectorised(text: str, own: dict[str, Any], *, folding: bool) -> Callable[..., tuple[Any, Any]]:
    """`folding`: for constants, which plain Python computes without loading a compiler."""
    from riprap.expressions import scalars  # (its functions are compiled on their first call)

    helpers = {name: getattr(scalars, name) for name in (*_REAL, *_EXACT)}
    if folding:
        helpers |= {name: helpers[name].plain for name in _EXACT}
    scope = _SCOPE | helpers | own
    tree = ast.parse(text)
    function = tree.body[0]
    assert isinstance(function, ast.FunctionDef)
    function.body = _Vectorizer({argument.arg for argument in function.args.args}).block(function.body, _EVERY)
    exec(compile(ast.fix_missing_locations(tree), "<columns>", "exec"), scope)  # the code was generated by this package
    return scope["columns"]  # type: ignore[no-any-return]


_EVERY = "np.True_"  # the mask of all rows


class _Vectorizer(ast.NodeTransformer):
    """From statements about a row to statements about columns."""

    def __init__(self, names: set[str]) -> None:
        self._names, self._mask, self._masks = names, "", 0

    def block(self, body: Sequence[ast.stmt], mask: str) -> list[ast.stmt]:
        outer, self._mask, rewritten = self._mask, mask, []
        for statement in body:
            rewritten += self._conditional(statement) if isinstance(statement, ast.If) else [self._plain(statement)]
        self._mask = outer
        return rewritten

    def _plain(self, statement: ast.stmt) -> ast.stmt:
        rewritten = self.visit(statement)
        if isinstance(rewritten, ast.Assign):
            name = rewritten.targets[0]
            assert isinstance(name, ast.Name)
            if name.id in self._names and self._mask != _EVERY:
                rewritten.value = _call("choose", _name(self._mask), rewritten.value, _name(name.id))
            self._names.add(name.id)
        return rewritten  # type: ignore[no-any-return]

    def _conditional(self, statement: ast.If) -> list[ast.stmt]:
        self._masks += 1
        true, false, outer = f"mask{self._masks}", f"mask{self._masks}_not", self._mask
        test = self.visit(statement.test)
        rewritten: list[ast.stmt] = [_assign(true, test if outer == _EVERY else _call("both", _name(outer), test))]
        if statement.orelse:
            rewritten.append(_assign(false, _call("both", _name(outer), _call("negated", _name(true)))))
        rewritten += self.block(statement.body, true)
        return rewritten + self.block(statement.orelse, false)

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        first, *others = (self.visit(value) for value in node.values)
        for other in others:
            first = _call("both" if isinstance(node.op, ast.And) else "either", first, other)
        return first  # type: ignore[no-any-return]

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        operand = self.visit(node.operand)
        return _call("negated", operand) if isinstance(node.op, ast.Not) else ast.UnaryOp(node.op, operand)

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        return _call("choose", *(self.visit(part) for part in (node.test, node.body, node.orelse)))

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        return _call(type(node.ops[0]).__name__, self.visit(node.left), self.visit(node.comparators[0]))

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        return _call("entry", self.visit(node.value), self.visit(node.slice))

    def visit_Call(self, node: ast.Call) -> ast.expr:
        node.args = [self.visit(argument) for argument in node.args]
        if isinstance(node.func, ast.Name) and node.func.id in ("fail", "called"):
            node.func = _name(f"failures.{node.func.id}")
            node.args.insert(0, _name(self._mask))
        return node


def _name(name: str) -> ast.expr:
    return ast.parse(name, mode="eval").body


def _call(function: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(_name(function), list(arguments), [])


def _assign(name: str, value: ast.expr) -> ast.stmt:
    return ast.Assign([ast.Name(name, ast.Store())], value)
