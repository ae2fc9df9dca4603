"""Choices: CASE (and IF), COALESCE, NULLIF, LEAST, GREATEST.

A branch counts only where it is chosen: an overflow in a branch that is not chosen for the row is no error. Branches
are computed on the whole batch, since that is quickest, and once more on the chosen rows alone if that fails.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from riprap.expressions import kernels
from riprap.expressions.kinds import HELD_BY_ARROW, NUMBERS, Kind, numpy_dtype
from riprap.expressions.logic import comparison
from riprap.expressions.typed import Mismatch, Typed, alike, apply, arity, expect
from riprap.expressions.vectors import Failure, Vector, from_arrow, full, null, to_arrow

_ONE_TYPE = "all results need one type"


def _choose(kind: Kind, condition: Any, yes: Vector, no: Vector) -> Vector:
    """`yes` where `condition` (bool, no nulls) holds, else `no`."""
    if np.ndim(condition) == 0:
        return yes if condition else no
    if kind in HELD_BY_ARROW:
        return from_arrow(pc.if_else(pa.array(condition), yes.values, no.values))
    rows = condition.size
    width = np.uint8 if kind is Kind.BOOLEAN else np.int64  # the bits are what is chosen, floats' too
    values = kernels.choose(condition, *[full(side.values, rows).view(width) for side in (yes, no)])
    values = values.view(numpy_dtype(kind))
    if yes.valid is None and no.valid is None:
        return Vector(values)
    valid = (condition if yes.valid is None else condition & yes.valid) | (
        ~condition if no.valid is None else ~condition & no.valid
    )
    return Vector(values, None if valid.all() else valid)


def _on(node: Typed, batch: pa.RecordBatch, chosen: Any) -> Vector:
    """`node` where `chosen`; arbitrary elsewhere."""
    try:
        return node.run(batch)
    except Failure:
        rows = np.flatnonzero(full(chosen, batch.num_rows))
        part = to_arrow(node.run(batch.take(pa.array(rows))), node.type, rows.size)
        places = np.full(batch.num_rows, -1)
        places[rows] = np.arange(rows.size)
        return from_arrow(part.take(pa.array(places, mask=places < 0)))


def case(arguments: Sequence[Typed]) -> Typed:
    """Condition, value, condition, value, …, default."""
    conditions = [expect(argument, (Kind.BOOLEAN,), "a condition") for argument in arguments[0:-1:2]]
    kind, results = alike([*arguments[1:-1:2], arguments[-1]], f"CASE or IF: {_ONE_TYPE}")
    *values, default = results

    def run(batch: pa.RecordBatch) -> Vector:
        undecided: Any = np.True_
        branches: list[tuple[Any, Vector]] = []
        for condition, value in zip(conditions, values, strict=True):
            true = _on(condition, batch, undecided).values & undecided
            branches.append((true, _on(value, batch, true)))
            undecided = undecided & ~true
        result = _on(default, batch, undecided)
        for true, vector in reversed(branches):
            result = _choose(kind, true, vector, result)
        return result

    return Typed(kind.type, any(result.nullable for result in results), run)


def coalesce(arguments: Sequence[Typed]) -> Typed:
    kind, choices = alike(arguments, f"COALESCE: {_ONE_TYPE}")

    def run(batch: pa.RecordBatch) -> Vector:
        result = null(kind)
        for choice in choices:
            missing = ~result.valid
            result = _choose(kind, missing, _on(choice, batch, missing), result)
            if result.valid is None:
                break
        return result

    return Typed(kind.type, all(choice.nullable for choice in choices), run)


def null_if(arguments: Sequence[Typed]) -> Typed:
    kind, operands = alike(arguments, "NULLIF compares two values of one type")
    equal = comparison("=", kind)

    def kernel(left: Vector, right: Vector) -> Vector:
        return _choose(kind, equal(left, right).values, null(kind), left)

    return apply(kind, kernel, operands, nullable=True)


# NaN is greater than every number, as in Spark: fmin passes it over, maximum keeps it.
_EXTREMES: dict[str, Callable[[Any, Any], Any]] = {"LEAST": np.fmin, "GREATEST": np.maximum}
_ARROW_EXTREMES = {"LEAST": "<", "GREATEST": ">"}


def extreme(name: str, arguments: Sequence[Typed]) -> Typed:
    """The least or greatest of the arguments that are not null."""
    arity(arguments, 2, None, name)
    kind, operands = alike(arguments, f"{name} compares values of one type")
    if kind not in (*NUMBERS, Kind.STRING, Kind.TIMESTAMP, Kind.DATE, Kind.INTERVAL, Kind.NULL):
        raise Mismatch(f"{name} takes numbers, strings, dates or timestamps, not {arguments[0]}")
    better = comparison(_ARROW_EXTREMES[name], kind) if kind in HELD_BY_ARROW else None
    pick = _EXTREMES[name]

    def pair(left: Vector, right: Vector) -> Vector:
        if better is not None:
            best = _choose(kind, better(left, right).values, left, right)
        elif left.valid is None and right.valid is None:
            return Vector(pick(left.values, right.values))
        else:
            best = Vector(pick(left.values, right.values), None)
        if left.valid is not None:
            best = _choose(kind, left.valid, best, right)
        return best if right.valid is None else _choose(kind, right.valid, best, left)

    def kernel(*vectors: Vector) -> Vector:
        result = vectors[0]
        for vector in vectors[1:]:
            result = pair(result, vector)
        return result

    node = apply(kind, kernel, operands)
    return Typed(node.type, all(operand.nullable for operand in operands), node.run)
