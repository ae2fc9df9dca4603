"""Output score functions: a number over a set of output tuples, over all of them or section by section.

Written as SQL aggregates over the sink's columns: `sum(gain)`, `avg(gain)`, `count(*)`, `min(x)`, `max(x)`,
`rmse(x, y)` (the root of the mean squared difference of two columns), as the ratio of two of these, `sum(gain) /
sum(size)`, or as a Python function (`score_functions`). Tuples whose argument is null or NaN do not count. Over no
tuples every score, also avg, min, max, rmse and x/0, is 0, so that the quality score shows missing output.
"""

import re
from dataclasses import dataclass
from typing import Protocol, TypeGuard

import numpy as np
import pyarrow as pa

from riprap.base.errors import ExpressionError, GraphError, UsageError
from riprap.expressions import Bound, bind
from riprap.faults.score_functions import ScoreFunction, function_score
from riprap.graph.aggregates import parse_call
from riprap.graph.order_keys import visible_schema

FUNCTIONS = ("sum", "count", "avg", "min", "max")
_RMSE = re.compile(r"\s*rmse\s*\((.+),(.+)\)\s*", re.IGNORECASE | re.DOTALL)


class Score(Protocol):
    """An output score function of one sink. `values` converts tuples to an array, which determines the score."""

    @property
    def text(self) -> str: ...
    @property
    def nothing(self) -> np.ndarray: ...  # the values of an empty set
    def values(self, batch: pa.RecordBatch) -> np.ndarray: ...
    def over(self, values: np.ndarray) -> float: ...
    def by_section(self, values: np.ndarray, section: np.ndarray, sections: int) -> np.ndarray: ...


@dataclass(frozen=True)
class OutputScore:
    """An OSF, bound to the columns of one sink."""

    text: str
    function: str  # one of FUNCTIONS, or "rmse", whose argument is the difference
    argument: Bound | None  # None: count(*)

    @property
    def nothing(self) -> np.ndarray:
        return np.empty(0)

    def values(self, batch: pa.RecordBatch) -> np.ndarray:
        """The contribution of each output tuple to the score; NaN if it does not count."""
        if self.argument is None:
            return np.ones(batch.num_rows)
        column = self.argument.evaluate(batch)
        values = column.cast(pa.float64()).fill_null(np.nan).to_numpy(zero_copy_only=False)
        if self.function == "rmse":
            return np.asarray(values * values)
        return np.where(np.isnan(values), np.nan, 1.0) if self.function == "count" else np.asarray(values)

    def over(self, values: np.ndarray) -> float:
        """The score of a set of tuples."""
        return float(self.by_section(values, np.zeros(len(values), np.int64), 1)[0])

    def by_section(self, values: np.ndarray, section: np.ndarray, sections: int) -> np.ndarray:
        """The score of each section 0 … sections − 1; `section`: the section of each tuple."""
        counted = ~np.isnan(values)
        if not counted.all():
            values, section = values[counted], section[counted]
        if self.function in ("min", "max"):
            worst = np.inf if self.function == "min" else -np.inf
            out = np.full(sections, worst)
            (np.minimum if self.function == "min" else np.maximum).at(out, section, values)
            return np.where(np.isinf(out), 0.0, out)
        return self.of_totals(*self.totals(values, section, sections))

    def totals(self, values: np.ndarray, section: np.ndarray, sections: int) -> tuple[np.ndarray, np.ndarray]:
        """Sum and number of the tuples that count, by section."""
        counted = ~np.isnan(values)
        if not counted.all():
            values, section = values[counted], section[counted]
        return np.bincount(section, values, sections), np.bincount(section, minlength=sections)

    def of_totals(self, sums: np.ndarray, counts: np.ndarray) -> np.ndarray:
        """Scores from sums and counts; over no tuples exactly 0."""
        divisor = counts if self.function in ("avg", "rmse") else np.ones(len(counts))
        scores = np.divide(sums, divisor, out=np.zeros(len(counts)), where=counts > 0)
        return np.sqrt(np.maximum(scores, 0.0)) if self.function == "rmse" else scores


def in_sums(score: Score) -> TypeGuard[OutputScore]:
    """Whether a score is a function of sums and counts, so that tuples can be subtracted."""
    return isinstance(score, OutputScore) and score.function not in ("min", "max")


@dataclass(frozen=True)
class RatioScore:
    """One score over another. Its values are pairs."""

    text: str
    above: OutputScore
    below: OutputScore

    @property
    def nothing(self) -> np.ndarray:
        return np.empty(0, _PAIR)

    def values(self, batch: pa.RecordBatch) -> np.ndarray:
        pairs = np.empty(batch.num_rows, _PAIR)
        pairs["above"], pairs["below"] = self.above.values(batch), self.below.values(batch)
        return pairs

    def over(self, values: np.ndarray) -> float:
        return float(self.by_section(values, np.zeros(len(values), np.int64), 1)[0])

    def by_section(self, values: np.ndarray, section: np.ndarray, sections: int) -> np.ndarray:
        above = self.above.by_section(values["above"], section, sections)
        below = self.below.by_section(values["below"], section, sections)
        return np.divide(above, below, out=np.zeros(sections), where=below != 0)


_PAIR = np.dtype([("above", np.float64), ("below", np.float64)])


def parse_score(text: str, schema: pa.Schema, sink: str, function: ScoreFunction | None = None) -> Score:
    """Parses `sum(gain)` for a sink with these columns; or binds the user's `function`, which `text` describes."""
    if function is not None:
        return function_score(function, schema, sink)
    above, slash, below = _divided(text)
    if slash:
        return RatioScore(text, _parse_call(above, schema, sink), _parse_call(below, schema, sink))
    return _parse_call(text, schema, sink)


def _divided(text: str) -> tuple[str, str, str]:
    """Splits at a division outside of all brackets."""
    depth = 0
    for at, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if letter == "/" and depth == 0:
            return text[:at], "/", text[at + 1 :]
    return text, "", ""


def _parse_call(text: str, schema: pa.Schema, sink: str) -> OutputScore:
    rmse = _RMSE.fullmatch(text)
    if rmse is not None:
        difference = _parse_call(f"sum(({rmse.group(1)}) - ({rmse.group(2)}))", schema, sink)
        return OutputScore(text, "rmse", difference.argument)
    try:
        call = parse_call(f"{text} AS score")
    except (ExpressionError, GraphError) as error:
        raise UsageError(
            f"cannot read {text!r} as an output score function: write sum(gain), avg(x), count(*), rmse(x, y), "
            "a ratio of two of them, or module:function"
        ) from error
    if call.function not in FUNCTIONS:
        raise UsageError(f"{text} is not an output score function; use one of {', '.join(FUNCTIONS)}, rmse")
    if call.argument is None:
        return OutputScore(text, "count", None)
    try:
        argument = bind(call.argument, visible_schema(schema))
        call.output_field(argument.type, argument.nullable)
    except (ExpressionError, GraphError) as error:
        raise UsageError(f"the output score function {text} does not fit sink {sink}: {error}") from error
    return OutputScore(text, call.function, argument)


def default_score(schema: pa.Schema) -> str:
    """The sum of the last numeric column; without one, the number of tuples."""
    numeric = [f.name for f in schema if pa.types.is_floating(f.type) or pa.types.is_integer(f.type)]
    return f"sum({numeric[-1]})" if numeric else "count(*)"
