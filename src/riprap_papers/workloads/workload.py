"""A workload: a graph with two sizes of windows, generated input, and what was published about it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

import numpy as np
import pyarrow as pa

from riprap.base.errors import UsageError
from riprap.graph.graph import Graph

Windows = Literal["large", "small"]

START_US = 1_436_918_400_000_000  # 2015-07-15 UTC, the start of the public generator


@dataclass(frozen=True)
class PublishedWorkload:
    """The published experiments: input rates (events/s), elements per operator, and the operator that was killed.

    `windowless` workloads have one configuration where the others have a large and a small one. `estimated` rates were
    not published; they are the rate of the workload with the most similar windows.
    """

    rates: Mapping[Windows, int]
    shards: Mapping[str, int]
    killed: str
    windowless: bool = False
    estimated: bool = False


@dataclass(frozen=True)
class Carried:
    """State per key after the SQL of a query, over rows in the order of their times.

    `highest` passes the rows whose `value` is above all earlier ones of their `by`; `total` adds the running total of
    `value`.
    """

    keeps: Literal["highest", "total"]
    by: str
    value: str


@dataclass(frozen=True)
class Query:
    """The same as a query of Structured Streaming, over views with the names of its sources.

    Its windows close by watermark, not by order key: the micro-batch after the one with a later row emits them. Rows
    arrive in order, so the watermark is the latest time itself and no row is late: windows have the same content as
    ours.
    """

    sql: Callable[[Windows], str]
    carried: Carried | None = None
    closes: bool = False  # emits at the end of windows, so that a later row must follow
    sooner: Mapping[Windows, float] = field(default_factory=dict)  # event seconds before `_ts` at which rows are due
    note: str = ""  # other differences from ours than when windows close


def spelled(size: str) -> str:
    """A duration in Spark SQL."""
    return f"{size.removesuffix('s')} seconds"


@dataclass(frozen=True)
class Workload:
    """`generate(tuples, seed, rate, skew)`: a table per source, of about `tuples` rows together, in stream order."""

    name: str
    build: Callable[[Windows], Graph]
    generate: Callable[[int, int, float, float | None], dict[str, pa.Table]]
    published: PublishedWorkload
    cyclic: bool = False
    query: Query | None = None  # of Structured Streaming
    speaks_after: Mapping[Windows, float] = field(default_factory=dict)  # seconds of event time until its first output
    notes: tuple[str, ...] = field(default=())  # differences from the published workload

    def graph(self, windows: Windows = "large", *, shards: int | None = None) -> Graph:
        """The app. `shards`: elements of each operator that can be divided; omitted: one; 0: as published."""
        if windows not in get_args(Windows):
            raise UsageError(f"windows {windows}: expected large or small")
        graph = self.build(windows)
        if shards is None:
            return graph
        for name, count in self.published.shards.items():
            graph = graph.with_operator(replace(graph[name], parallelism=count if shards == 0 else min(shards, count)))
        return graph

    def inputs(
        self, tuples: int, seed: int, *, rate: float | None = None, skew: float | None = None
    ) -> dict[str, pa.Table]:
        """Generated input, at the published rate of the large windows if none is given."""
        if tuples < 1:
            raise UsageError(f"a stream of {tuples} tuples cannot be generated: ask for at least 1")
        if rate is not None and not rate > 0:
            raise UsageError(f"a rate of {rate:g} tuples/s: expected more than 0")
        if skew is not None and not 0 <= skew <= 10:
            raise UsageError(f"a skew of {skew:g}: expected the exponent of Zipf's law, 0 to 10")
        return self.generate(tuples, seed, rate or float(self.published.rates["large"]), skew)


def moments(count: int, rate: float) -> np.ndarray:
    """`_ts` of `count` events, evenly spaced at `rate` per second, in microseconds."""
    return START_US + np.floor(np.arange(count) * (1e6 / rate)).astype(np.int64)


def ranks(generator: np.random.Generator, size: int, most: int, exponent: float) -> np.ndarray:
    """Ranks 0, 1, … below `most`, Zipf-distributed: rank r with a probability as 1 / (r + 1)**exponent."""
    weights = np.cumsum(1.0 / np.arange(1, most + 1) ** exponent)
    return np.searchsorted(weights, generator.random(size) * weights[-1], side="right").clip(max=most - 1)


def table(columns: Mapping[str, pa.Array | np.ndarray], ts: np.ndarray) -> pa.Table:
    """With `_ts` and `_seq`, which is the row's number."""
    keys = {"_ts": pa.array(ts, pa.timestamp("us", "UTC")), "_seq": pa.array(np.arange(len(ts)), pa.int64())}
    arrays = {name: values if isinstance(values, pa.Array) else pa.array(values) for name, values in columns.items()}
    fields = [pa.field(name, values.type, nullable=False) for name, values in (arrays | keys).items()]
    return pa.table(list((arrays | keys).values()), schema=pa.schema(fields))
