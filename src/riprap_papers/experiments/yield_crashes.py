"""The effect of crashes of the model on yield prediction: the published experiment with a user-defined operator.

    S1  golden  nothing fails
    S2  the model's process is killed and restarts after 2 to 5 s from its latest checkpoint, one every second
    S3  the same crash, and it restarts without state

The model's input during the outage is lost; every other operator goes on. S2 and S3 have the same crashes. For every
wafer predicted from the crash on, the quality metric QM (prediction less truth) is compared with S1's: the difference
is the *prediction error*, in percentage points. A wafer that was never predicted, because the model was down, has none
and is counted as missing.

All times are event time, so a study depends only on its seed. `Recorded.run` makes one run on the engine; `study` also
accepts other implementations.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import pyarrow as pa

from riprap.apps import fab
from riprap.apps.yield_prediction import MODEL, SINK, build
from riprap.base.errors import UsageError
from riprap.base.randomness import generator
from riprap.engine.engine import Engine, EngineState, Output
from riprap.engine.inputs import keyed
from riprap.faults.injection import with_fault
from riprap.faults.models import Fault
from riprap.graph.graph import Graph
from riprap.graph.order_keys import END_KEY, START_KEY, TIMER, TS, OrderKey
from riprap.operators.columns import view

Scenario = Literal["S2", "S3"]
SCENARIOS: tuple[Scenario, ...] = get_args(Scenario)
PUBLISHED_RMSE: Mapping[Scenario, float] = {"S2": 4.80, "S3": 7.79}
PUBLISHED_WORST: Mapping[Scenario, float] = {"S2": 6.0, "S3": 52.0}  # of one run; about
PUBLISHED_PROCESSED: Mapping[Scenario, float] = {"S2": 5370.85, "S3": 5370.875}  # tuples, on average
PUBLISHED_TUPLES = 5_381  # that reached the model in S1

CHECKPOINT_US = 1_000_000
OUTAGE_US = (2_000_000, 5_000_000)
STATE_EVERY_US = 60_000_000


@dataclass(frozen=True)
class ModelCrash:
    """`at`: microseconds since 1970, event time; `outage`: microseconds until the model processes tuples again."""

    at: int
    outage: int

    @property
    def over(self) -> int:
        return self.at + self.outage


@dataclass(frozen=True)
class YieldQuality:
    """The output: the QM of each wafer, wafers ascending."""

    wafers: np.ndarray
    qm: np.ndarray  # percentage points


@dataclass(frozen=True)
class YieldOutcome:
    """One run against the golden one, over the wafers predicted from the crash on."""

    errors: np.ndarray  # percentage points, QM less golden QM, by wafer
    missing: int  # wafers without a prediction

    @property
    def rmse(self) -> float:
        return _rms(self.errors)

    @property
    def worst(self) -> float:
        return float(np.abs(self.errors).max(initial=0.0))


@dataclass(frozen=True)
class Study:
    """`lost` and the outcomes of each scenario are by crash, in the order of `crashes`."""

    golden: YieldQuality
    tuples: int  # that reach the model where nothing fails
    crashes: tuple[ModelCrash, ...]
    lost: tuple[int, ...]  # tuples that did not reach the model
    outcomes: Mapping[Scenario, tuple[YieldOutcome, ...]]

    def errors(self, scenario: Scenario) -> np.ndarray:
        """Absolute prediction errors of all runs, ascending."""
        return np.sort(np.abs(np.concatenate([outcome.errors for outcome in self.outcomes[scenario]])))

    def rmse(self, scenario: Scenario) -> float:
        """Over all prediction errors of all runs."""
        return _rms(self.errors(scenario))

    def cdf(self, scenario: Scenario, at: np.ndarray) -> np.ndarray:
        """The share of the absolute prediction errors that are at most each of `at`."""
        errors = self.errors(scenario)
        return np.searchsorted(errors, at, side="right") / len(errors)


@dataclass(frozen=True)
class Recorded:
    """The input streams of the model and the operators after it, as emitted upstream; the golden run."""

    graph: Graph
    streams: Mapping[str, pa.RecordBatch]  # by id
    golden: YieldQuality
    states: Mapping[int, EngineState]  # of the golden run, by event time, so that a run need not start at the beginning
    predicted_at: np.ndarray  # event time at which each wafer of `golden` was predicted

    @property
    def tuples(self) -> int:
        """Tuples that reach the model."""
        return sum(batch.num_rows for batch in self._into_model())

    def lost(self, crash: ModelCrash) -> int:
        """Tuples that reach the model during an outage."""
        return sum(_between(batch, crash.at, crash.over).num_rows for batch in self._into_model())

    def run(self, crash: ModelCrash, scenario: Scenario) -> YieldQuality:
        """A run of the model and its consumers with a crash: the wafers predicted from shortly before the crash on."""
        saved = crash.at - (crash.at - fab.START_US) % CHECKPOINT_US
        restored = _from(saved) if scenario == "S2" else START_KEY
        fault = Fault("loss", _from(crash.at), _from(crash.over), restored)
        engine = Engine(with_fault(self.graph, [MODEL], fault), self.graph.reachable(MODEL))
        start = max(time for time in self.states if time <= saved)
        engine.restore(self.states[start])
        return quality(engine.run({name: [_between(batch, start)] for name, batch in self.streams.items()}))

    def _into_model(self) -> list[pa.RecordBatch]:
        return [self.streams[stream.id] for stream in self.graph.inputs(MODEL)]


def recorded(seed: int, lots: int = fab.LOTS) -> Recorded:
    """Generate the data, run everything that does not depend on the model, and make the golden run."""
    graph = build()
    before = frozenset(spec.name for spec in graph) - graph.reachable(MODEL)
    tables = fab.generate(lots, seed)
    given: dict[str, list[pa.RecordBatch]] = {
        stream.id: [] for stream in graph.streams if stream.source in before and stream.target not in before
    }
    for name, event in Engine(graph, before).run(
        {source.name: keyed(tables[source.name].to_batches(), source) for source in graph.sources}
    ):
        assert isinstance(event, pa.RecordBatch), "nothing in this app emits punctuation"
        given[name].append(event)
    streams = {name: pa.Table.from_batches(parts).combine_chunks().to_batches()[0] for name, parts in given.items()}
    golden, states = _golden(graph, streams)
    features = streams[graph.inputs(MODEL)[0].id]
    order = np.argsort(features.column("wafer").to_numpy())
    return Recorded(graph, streams, golden, states, _times(features)[order])


def _golden(graph: Graph, streams: Mapping[str, pa.RecordBatch]) -> tuple[YieldQuality, dict[int, EngineState]]:
    engine = Engine(graph, graph.reachable(MODEL))
    outputs: list[Output] = []
    states = {fab.START_US: engine.snapshot()}
    last = max(int(_times(batch)[-1]) for batch in streams.values())
    for start in range(fab.START_US, last + 1, STATE_EVERY_US):
        stop = start + STATE_EVERY_US
        for name, batch in streams.items():
            outputs += engine.push(name, _between(batch, start, stop))
        for name in streams:
            outputs += engine.advance(name, _from(stop))
        states[stop] = engine.snapshot()
    for name in streams:
        outputs += engine.end(name)
    return quality(outputs), states


def crashes(seed: int, count: int, lots: int = fab.LOTS) -> tuple[ModelCrash, ...]:
    """Crashes at uniformly random times of the run, each with a random outage."""
    if count < 1:
        raise UsageError(f"{count} crashes are too few: ask for at least 1")
    draws = generator(seed, "yield", "crashes")
    runtime = lots * fab.WAFERS_PER_LOT * fab.WAFER_US
    at = fab.START_US + draws.integers(0, runtime, count)
    outage = draws.integers(*OUTAGE_US, count)
    return tuple(ModelCrash(moment, length) for moment, length in zip(at.tolist(), outage.tolist(), strict=True))


def study(
    record: Recorded, crashes: Sequence[ModelCrash], run: Callable[[ModelCrash, Scenario], YieldQuality] | None = None
) -> Study:
    """Every crash in every scenario. `run` makes one run (the `quality` of its output); by default the engine does."""
    make = record.run if run is None else run
    outcomes = {
        scenario: tuple(_outcome(record, crash, make(crash, scenario)) for crash in crashes) for scenario in SCENARIOS
    }
    return Study(record.golden, record.tuples, tuple(crashes), tuple(map(record.lost, crashes)), outcomes)


def _outcome(record: Recorded, crash: ModelCrash, found: YieldQuality) -> YieldOutcome:
    due = record.predicted_at >= crash.at
    place = np.searchsorted(found.wafers, record.golden.wafers[due])
    there = np.isin(record.golden.wafers[due], found.wafers)
    return YieldOutcome(found.qm[place[there]] - record.golden.qm[due][there], int((~there).sum()))


def quality(outputs: Iterable[Output]) -> YieldQuality:
    """The output of a run, as `study` compares it."""
    batches = [event for name, event in outputs if name == SINK and isinstance(event, pa.RecordBatch)]
    wafers, qm = (np.concatenate([b.column(name).to_numpy() for b in batches]) for name in ("wafer", "qm"))
    order = np.argsort(wafers)
    return YieldQuality(wafers[order], qm[order])


def _times(batch: pa.RecordBatch) -> np.ndarray:
    return view(batch.column(TS), np.int64)


def _between(batch: pa.RecordBatch, start: int, stop: int = END_KEY.ts) -> pa.RecordBatch:
    """The rows of a stream between two event times, the second one exclusive."""
    first, last = np.searchsorted(_times(batch), (start, stop)).tolist()
    return batch.slice(first, last - first)


def _from(time: int) -> OrderKey:
    """Below every tuple of that time and later."""
    return OrderKey(time, TIMER, 0)


def _rms(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(values**2))) if len(values) else 0.0
