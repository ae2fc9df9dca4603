"""What the builder's methods share: annotations in either form, and texts with the operator's name in their errors."""

from collections.abc import Sequence

from riprap.base.errors import ExpressionError, GraphError
from riprap.expressions import Expression, parse, parse_named
from riprap.graph.aggregates import AggregateCall, parse_call
from riprap.graph.annotations import Annotations, combined

Protect = Annotations | Sequence[Annotations]


def annotations_of(protect: Protect) -> Annotations:
    return protect if isinstance(protect, Annotations) else combined(tuple(protect))


def parse_expression(name: str, text: str) -> Expression:
    try:
        return parse(text)
    except ExpressionError as error:
        raise GraphError(f"operator {name}: {error}") from error


def parse_column(name: str, text: str) -> tuple[str, Expression]:
    try:
        return parse_named(text)
    except ExpressionError as error:
        raise GraphError(f"operator {name}: {error}") from error


def parse_aggregate(name: str, text: str) -> AggregateCall:
    try:
        return parse_call(text)
    except (ExpressionError, GraphError) as error:
        raise GraphError(f"operator {name}: {error}") from error
