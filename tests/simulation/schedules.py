"""Random apps, layouts and crash schedules, each a pure function of one seed."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random

import pyarrow as pa

from riprap.base.errors import GraphError, UsageError
from riprap.base.quantities import Duration
from riprap.engine.engine import Engine
from riprap.graph.annotations import Annotations
from riprap.graph.builder import App
from riprap.graph.graph import Graph
from riprap.graph.order_keys import KEY_COLUMNS
from riprap.graph.specs import Sink, Source
from riprap.graph.windows import count, punctuated, time, zero
from riprap.operators.contract import Punctuation
from riprap.runtime.layout import Layout, Pe, arrange
from riprap.testing.simulated import Fault
from riprap.testing.simulation import Break, Crash, DirectorCrash, Simulation

MILLISECOND = 1_000


def batches(schedules: int, size: int = 20) -> list[range]:
    """The seeds of so many schedules, some to a test. All simulation together is to take two minutes of `make test`."""
    return [range(at, min(at + size, schedules)) for at in range(0, schedules, size)]


@dataclass(frozen=True)
class Case:
    """One simulated run; `str` of it goes into every failure."""

    seed: int
    layout: Layout
    inputs: dict[str, pa.RecordBatch]
    crashes: tuple[Fault, ...]
    batch_rows: int
    held_bytes: int
    rate: float
    restoring: int = 0

    def simulation(self, *, compiled: bool = False) -> Simulation:
        return Simulation(
            self.layout,
            self.inputs,
            seed=self.seed,
            crashes=self.crashes,
            rate=self.rate,
            batch_rows=self.batch_rows,
            held_bytes=self.held_bytes,
            compiled=compiled,
            restoring=self.restoring,
        )

    def __str__(self) -> str:
        streams = ", ".join(f"{link.stream.id}: {link.recovery}" for link in self.layout.links)
        pes = ", ".join(f"{pe.id} = {'+'.join(pe.fragment.members)}" for pe in self.layout.pes)
        crashes = "".join(f"\n  {crash}" for crash in self.crashes)
        return (
            f"seed {self.seed}, batches of {self.batch_rows}, {self.held_bytes} bytes held, {self.rate} rows/s\n"
            f"  elements: {pes}\n  streams: {streams}{crashes}"
        )


# Apps of all operators ------------------------------------------------------------------------------------------------


def any_app(random: Random, kinds: dict[str, Callable] | None = None, *, sources: int = 2, operators: int = 4) -> Graph:
    """Chains, diamonds, several sources, of many kinds of operators, or of `kinds`; every loose end leads to a sink."""
    build = kinds or BUILD
    app = App("any")
    streams = [app.source(f"S{j}", "k string, x long, id long") for j in range(random.randint(1, sources))]
    unused = list(streams)

    def pick():
        stream = random.choice(streams)
        if stream in unused:
            unused.remove(stream)
        return stream

    for j in range(random.randint(1, operators)):
        kind = random.choice(list(build))
        made = build[kind](random, pick, f"{kind}{j}")
        streams += made
        unused += made
    for j, stream in enumerate(unused):
        stream.sink(f"Sink{j}")
    return app.build()


def cyclic_app(random: Random) -> Graph:
    """A cycle in which tuples go round until they are small, with a window on it or not, and something behind it."""
    app = App("cyclic")
    source = app.source("S0", "k string, x long, id long")
    back = app.feedback("back", "k string, x long, id long", delay=random.choice(["100us", "1ms", "20ms"]))
    both = source.union(back, name="Both")
    if random.random() < 0.3:
        turned = both.aggregate("sum(x) AS x", "max(id) AS id", window=time("5ms"), by="k", name="Sums")
        turned.select("k", "CAST(x / 3 AS long) AS x", "id", where="x > 1", name="Third").feed("back")
    else:
        turned = both
        both.select("k", "x - 1 AS x", "id", where="x > 0", name="Lower").feed("back")
    for j in range(random.randint(0, 2)):
        kind = random.choice(["filter", "map", "aggregate", "sort"])
        [turned] = BUILD[kind](random, lambda stream=turned: stream, f"{kind}{j}")
    both.sink("All")
    turned.sink("Out")
    return app.build()


def _window(random):
    return random.choice([count(1), count(3), count(7), time("5ms"), time("20ms"), punctuated()])


def _aggregate(random, pick, name):
    size = _window(random)
    every = None if size == punctuated() else random.choice([None, count(1), count(2), time("5ms")])
    by = random.choice(["k", ()])
    calls = ["sum(x) AS x", "count(*) AS id"] if by else ["last(k) AS k", "sum(x) AS x", "count(*) AS id"]
    return [pick().aggregate(*calls, window=size, every=every, by=by, name=name)]


def _join(random, pick, name):
    left, right = pick(), pick().rename({"x": "y", "id": "other"}, name=f"{name}r")
    windows = [random.choice([count(1), count(3), time("5ms")]) for _ in range(2)]
    zeroed = random.choice([None, 0, 1])
    if zeroed is not None:
        windows[zeroed] = zero()
    return [
        left.join(right, on="k", left_window=windows[0], right_window=windows[1], select=["k", "x", "other AS id"],
                  per_group=random.random() < 0.5, name=name)
    ]  # fmt: skip


def _barrier(random, pick, name):
    other = pick().select("id AS other", name=f"{name}r")
    return [pick().barrier(other, name=f"{name}b").select("k", "x", "other AS id", name=name)]


BUILD = {
    "filter": lambda random, pick, name: [pick().filter(random.choice(["x > 1", "k = 'a'", "id % 2 = 0"]), name=name)],
    "map": lambda random, pick, name: [pick().select("k", "x * 2 AS x", "id", name=name)],
    "punctuate": lambda random, pick, name: [pick().punctuate(random.choice(["x = 1", "k = 'b'"]), name=name)],
    "aggregate": _aggregate,
    "join": _join,
    "sort": lambda random, pick, name: [
        pick().sort(random.choice(["x", "id desc"]), window=_window(random), name=name)
    ],
    "barrier": _barrier,
    "union": lambda random, pick, name: [pick().union(pick(), name=name)],
    "split": lambda random, pick, name: list(pick().split("x > 2", "k = 'a'", otherwise=True, name=name)),
}


# Protection, layouts, inputs, crashes ---------------------------------------------------------------------------------


def protected(graph: Graph, random: Random, *, kept: float, saved: float) -> Graph:
    """With persistent streams behind a share `kept` of the operators, and checkpoints of a share `saved`."""
    operators = []
    for spec in graph.operators:
        every = Duration(random.randint(10, 60) * MILLISECOND) if random.random() < saved else None
        backup = not isinstance(spec, Sink) and random.random() < kept
        off = every is None and len(operators) % 3 == 2  # others are saved if they are exact
        operators.append(replace(spec, annotations=Annotations(every, backup=backup, checkpoint_off=off)))
    return replace(graph, operators=tuple(operators))


def dropping_late(graph: Graph) -> Graph:
    """With streams that lose what comes late."""
    return replace(graph, streams=tuple(replace(stream, late="drop") for stream in graph.streams))


def laid_out(graph: Graph, random: Random) -> Layout:
    """Fused somehow, some operators in several shards, where that is possible."""
    parallelism = {s.name: random.randint(2, 3) for s in graph.operators if random.random() < 0.3}
    fuse = random.choice(["none", "auto", "auto", "all"])
    while True:
        try:
            if not any(isinstance(graph[name], Source | Sink) for name in parallelism):  # `test_sharded_ends` has them
                return arrange(graph, fuse, parallelism, settings={"interval": 20 * MILLISECOND})
            parallelism.popitem()
        except (UsageError, GraphError):
            if parallelism:
                parallelism.popitem()
            else:
                fuse = "none"


def rows(graph: Graph, random: Random, most: int) -> dict[str, pa.RecordBatch]:
    """Everything for each source; ties in `_ts`; `id` is unique among all."""
    given = {}
    for source in graph.sources:
        size = random.randint(most // 2, most)
        ts, now = [], 0
        for _ in range(size):
            now += random.choice([0, 0, 100, 300, 1000, 4000])
            ts.append(now)
        given[source.name] = pa.RecordBatch.from_arrays(
            [
                pa.array([random.choice("abc") for _ in range(size)]),
                pa.array([random.randint(0, 5) for _ in range(size)], pa.int64()),
                pa.array(range(source.rank * 10**6, source.rank * 10**6 + size), pa.int64()),
                pa.array(ts, pa.timestamp("us", "UTC")),
                pa.array(range(size), pa.int64()),
            ],
            names=["k", "x", "id", "_ts", "_seq"],
        )
    return given


def crashes(pes: list[str], random: Random, span: int, *, most: int = 6) -> tuple[Crash, ...]:
    """Single crashes, volleys, all at once; between calls and in the middle of them; right away and after the end."""
    found: list[Crash] = []
    for _ in range(random.randint(1, most)):
        at = random.randint(0, span) if random.random() < 0.9 else random.randint(0, 1000)
        struck = random.choice([1, 1, 1, 2, len(pes)])
        for pe in random.sample(pes, min(struck, len(pes))):
            effect = random.randint(1, 12) if random.random() < 0.5 else 0
            found.append(Crash(at, pe, random.choice([1_000, 5_000, 30_000, 120_000]), effect))
    return tuple(sorted(found))


def other_faults(layout: Layout, random: Random, span: int) -> tuple[Break | DirectorCrash, ...]:
    """Connections between elements that live, and the director."""
    channels = [c for link in layout.links if link.retention != "log" for c in link.channels()]
    breaks = [Break(random.randint(0, span), random.choice(channels)) for _ in range(random.randint(0, 4)) if channels]
    deaths = [
        DirectorCrash(random.randint(0, span), random.choice([1_000, 50_000])) for _ in range(random.randint(0, 2))
    ]
    return (*breaks, *deaths)


def case(
    seed: int, graph: Graph, random: Random, *, most: int = 60, mortal: Callable[[Layout, Pe], bool] | None = None
) -> Case:
    """A run of the graph in which all elements die, or those that are `mortal`."""
    layout = laid_out(graph, random)
    rate = random.choice([500.0, 2_000.0, 10_000.0])
    span = int(most / rate * 1e6) + 100_000
    pes = [pe.id for pe in layout.pes if mortal is None or mortal(layout, pe)]
    made = Case(
        seed, layout, rows(graph, random, most), crashes(pes, random, span),
        random.choice([4, 16, 64]), random.choice([1, 2_000, 1 << 20]), rate,
    )  # fmt: skip
    return replace(made, crashes=(*made.crashes, *other_faults(layout, random, span)))


# What came out --------------------------------------------------------------------------------------------------------


def bounded(graph: Graph, inputs: dict[str, pa.RecordBatch]) -> dict[str, list]:
    out: dict[str, list] = {sink.name: [] for sink in graph.sinks}
    for name, event in Engine(graph, cut_everywhere=True).run({name: [batch] for name, batch in inputs.items()}):
        if not isinstance(event, Punctuation):
            out[name] += as_tuples(event)
    return out


def simulated(simulation: Simulation) -> dict[str, list]:
    sinks = simulation.layout.graph.sinks
    return {sink.name: [row for b in simulation.sink(sink.name) for row in as_tuples(b)] for sink in sinks}


def played(run: Case, graph: Graph, repeated_by: str, *, compiled: bool = False) -> Simulation:
    """Run a case; its output has to be that of the bounded run."""
    simulation = run.simulation(compiled=compiled)
    try:
        simulation.run(seconds=5.0)
        assert simulated(simulation) == bounded(graph, run.inputs)
    except Exception as error:
        raise AssertionError(f"{repeated_by} repeats it: {run}") from error
    return simulation


def as_tuples(batch: pa.RecordBatch) -> list[tuple]:
    names = sorted(batch.schema.names, key=lambda n: (n in KEY_COLUMNS, n))
    columns = [batch.column(n).cast(pa.int64()) if n == "_ts" else batch.column(n) for n in names]
    return list(zip(*(column.to_pylist() for column in columns), strict=True))
