"""Type-checks a syntax tree, bottom up. Parts without columns are computed, and fail here if they have no value."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from riprap.expressions.ast import Call, Cast, ColumnRef, Lambda, Literal, Node, columns_of
from riprap.expressions.casts import cast
from riprap.expressions.functions import rule_of
from riprap.expressions.kinds import logical
from riprap.expressions.typed import EvaluationError, Mismatch, Typed

Fields = Mapping[str, pa.Field]


def typed(node: Node, fields: Fields) -> Typed:
    result = _checked(node, fields)
    if columns_of(node) or isinstance(node, (Literal, Lambda)):
        return replace(result, text=str(node))
    from riprap.expressions.column_functions import folded  # it generates code, which checks types again

    try:
        constant = folded(node)
    except EvaluationError as failure:
        raise Mismatch(str(failure)) from None
    if not isinstance(constant, Literal):
        return replace(result, text=str(node))
    return Typed(result.type, constant.value is None, str(node), constant)


def type_of_node(node: Node, fields: Fields) -> pa.DataType:
    """The type alone; constant parts are literals already."""
    return _checked(node, fields).type


def _checked(node: Node, fields: Fields) -> Typed:
    match node:
        case ColumnRef(name):
            return Typed(logical(fields[name].type), fields[name].nullable, name)
        case Literal(value, type_):
            return Typed(type_, value is None, str(node), node)
        case Cast(operand, type_, trying):
            return cast(typed(operand, fields), type_, trying=trying)
        case Lambda():
            return LambdaTyped(pa.null(), True, str(node), lambda_=node, fields=fields)
        case Call(function, arguments):
            return rule_of(function)([typed(part, fields) for part in arguments])
    raise AssertionError(node)


@dataclass(frozen=True, eq=False)
class LambdaTyped(Typed):
    """An argument that is a function; `fields` are the columns around it."""

    lambda_: Lambda | None = None
    fields: Fields | None = None

    @property
    def captured(self) -> list[str]:
        """The columns around it that its body reads."""
        assert self.lambda_ is not None
        return sorted(columns_of(self.lambda_))

    def bound(self, types: Sequence[pa.DataType], function: str) -> "BoundLambda":
        """The function for parameters of these types."""
        from riprap.expressions.ast import Expression
        from riprap.expressions.binding import bind

        assert self.lambda_ is not None
        assert self.fields is not None
        parameters = self.lambda_.parameters
        if len(parameters) > len(types):
            raise Mismatch(f"the function of {function} has {len(types)} parameters, not {len(parameters)}")
        schema = [pa.field(name, self.fields[name].type) for name in self.captured]
        schema += [pa.field(name, type_) for name, type_ in zip(parameters, types, strict=False)]
        bound = bind(Expression(self.text, self.lambda_.body), pa.schema(schema))
        type_ = bound.type
        return BoundLambda(type_, parameters, tuple(self.captured), bound.evaluate)


@dataclass(frozen=True)
class BoundLambda:
    type: pa.DataType
    parameters: tuple[str, ...]
    captured: tuple[str, ...]
    _evaluate: Callable[[pa.RecordBatch], pa.Array]

    def __call__(self, parameters: Sequence[pa.Array], captured: Mapping[str, pa.Array]) -> pa.Array:
        from riprap.base.errors import DataError

        columns = {name: captured[name] for name in self.captured} | dict(
            zip(self.parameters, parameters, strict=False)
        )
        rows = len(parameters[0])
        if not columns:
            columns = {"_": pa.nulls(rows)}
        try:
            result = self._evaluate(pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns)))
        except DataError as failure:
            raise EvaluationError(str(failure)) from None
        return result.dictionary_decode() if isinstance(result, pa.DictionaryArray) else result
