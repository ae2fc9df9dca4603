"""Output score functions: a number over a set of output tuples, over all of them or section by section.

Written as SQL aggregates over the sink's columns: `sum(gain)`, `avg(gain)`, `count(*)`, `min(x)`, `max(x)`. Tuples
for which the argument is null or NaN do not count. Over no tuples a sum and a count are 0; avg, min and max are 0 as
well: nothing was found, which is what a quality score has to show.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from riprap.base.errors import ExpressionError, GraphError, UsageError
from riprap.expressions import Bound, bind
from riprap.graph.aggregates import parse_call
from riprap.graph.keys import visible_schema

FUNCTIONS = ("sum", "count", "avg", "min", "max")


@dataclass(frozen=True)
class OutputScore:
    """An OSF, bound to the columns of one sink."""

    text: str
    function: str
    argument: Bound | None  # None: count(*)

    def values(self, batch: pa.RecordBatch) -> np.ndarray:
        """What each output tuple brings to the score, NaN for those that do not count."""
        if self.argument is None:
            return np.ones(batch.num_rows)
        column = self.argument.evaluate(batch)
        values = column.cast(pa.float64()).fill_null(np.nan).to_numpy(zero_copy_only=False)
        return np.where(np.isnan(values), np.nan, 1.0) if self.function == "count" else np.asarray(values)

    def over(self, values: np.ndarray) -> float:
        """The score of a set of tuples."""
        return float(self.by_section(values, np.zeros(len(values), np.int64), 1)[0])

    def by_section(self, values: np.ndarray, section: np.ndarray, sections: int) -> np.ndarray:
        """The score of each section 0 … sections − 1; `section` says where each tuple belongs."""
        counted = ~np.isnan(values)
        if not counted.all():
            values, section = values[counted], section[counted]
        if self.function in ("min", "max"):
            worst = np.inf if self.function == "min" else -np.inf
            out = np.full(sections, worst)
            (np.minimum if self.function == "min" else np.maximum).at(out, section, values)
            return np.where(np.isinf(out), 0.0, out)
        return self.of_totals(*self.totals(values, section, sections))

    @property
    def additive(self) -> bool:
        """Whether the score follows from sums and counts, so that tuples can be taken away again."""
        return self.function not in ("min", "max")

    def totals(self, values: np.ndarray, section: np.ndarray, sections: int) -> tuple[np.ndarray, np.ndarray]:
        """The sum and the number of the tuples that count, by section."""
        counted = ~np.isnan(values)
        if not counted.all():
            values, section = values[counted], section[counted]
        return np.bincount(section, values, sections), np.bincount(section, minlength=sections)

    def of_totals(self, sums: np.ndarray, counts: np.ndarray) -> np.ndarray:
        """Scores from sums and counts; over no tuples exactly 0."""
        divisor = counts if self.function == "avg" else np.ones(len(counts))
        return np.divide(sums, divisor, out=np.zeros(len(counts)), where=counts > 0)


def parse_score(text: str, schema: pa.Schema, sink: str) -> OutputScore:
    """`sum(gain)` for a sink with these columns."""
    try:
        call = parse_call(f"{text} AS score")
    except (ExpressionError, GraphError) as error:
        raise UsageError(
            f"cannot read {text!r} as an output score function: write sum(gain), avg(x) or count(*)"
        ) from error
    if call.function not in FUNCTIONS:
        raise UsageError(f"{call.function} is no output score function; use one of {', '.join(FUNCTIONS)}")
    if call.argument is None:
        return OutputScore(text, "count", None)
    try:
        argument = bind(call.argument, visible_schema(schema))
        call.output_field(argument.type, argument.nullable)
    except (ExpressionError, GraphError) as error:
        raise UsageError(f"the output score function {text} does not fit sink {sink}: {error}") from error
    return OutputScore(text, call.function, argument)


def default_score(schema: pa.Schema) -> str:
    """The sum of the last numeric column; the number of tuples where there is none."""
    numeric = [f.name for f in schema if pa.types.is_floating(f.type) or pa.types.is_integer(f.type)]
    return f"sum({numeric[-1]})" if numeric else "count(*)"
