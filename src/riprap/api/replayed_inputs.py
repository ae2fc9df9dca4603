"""The part of recorded inputs that measurements and proofs replay, and its speed.

Data is replayed at its own speed where a run of it is neither too slow to show anything nor too fast for one machine.
Else it is replayed faster or slower, and everything that is measured, assessed, planned and proven holds at that speed:
an outage of one second is `speed` seconds of data.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from riprap.base import files
from riprap.base.errors import DataError, UsageError
from riprap.engine.inputs import keyed, read_file
from riprap.graph.graph import Graph
from riprap.graph.order_keys import TS

SLOWEST, FASTEST = 100.0, 20_000.0  # tuples/s of all sources together
SHORTEST, LONGEST = 20.0, 40.0  # seconds of a run
_AHEAD = 3.0  # recorded data for an assessment lasts this many times as long as a run of it


@dataclass(frozen=True)
class ReplayedInputs:
    run: Mapping[str, Path]  # what a run reads
    recorded: Mapping[str, Path]  # the same and what follows it, for assessments
    times: Mapping[str, np.ndarray]  # of the rows of a run, microseconds of event time
    speed: float  # seconds of data per second
    seconds: float  # that a run lasts
    rates: Mapping[str, float]  # rows/s of each source in a run

    @property
    def start(self) -> int:
        return min(int(times[0]) for times in self.times.values())

    def event_time(self, seconds: Mapping[str, float]) -> int:
        """The event time that a run has reached; `seconds`: by source, since its first row was due."""
        reached = []
        for name, times in self.times.items():
            row = int(seconds[name] * self.rates[name])
            reached.append(int(times[min(max(row, 0), len(times) - 1)]))
        return min(reached)


def replayed(
    graph: Graph, inputs: Mapping[str, Path], directory: Path, *, speed: float | None = None, longest: float = LONGEST
) -> ReplayedInputs:
    """Writes the parts to `directory`. The rates of a run are constant."""
    tables = {source.name: _table(graph, source.name, inputs) for source in graph.sources}
    times = {name: _times(table) for name, table in tables.items()}
    first = min(int(values[0]) for values in times.values())
    last = max(int(values[-1]) for values in times.values())
    rows, lasted = sum(map(len, times.values())), max((last - first) / 1e6, 1e-3)
    if rows < 2:
        raise DataError("the inputs have fewer than two rows: there is nothing to measure")
    chosen = _speed(rows, lasted) if speed is None else speed
    if not 1e-6 <= chosen <= 1e9:
        raise UsageError(f"--speed {chosen:g}: write seconds of data per second, as in 2.5")
    seconds = min(lasted / chosen, longest)
    files.make(directory)
    run, recorded, kept = dict[str, Path](), dict[str, Path](), dict[str, np.ndarray]()
    for name, table in tables.items():
        for folder, until in (("run", seconds), ("recorded", seconds * _AHEAD)):
            count = max(int(np.searchsorted(times[name], first + until * chosen * 1e6, "right")), 1)
            path = directory / f"{folder}-{name}.parquet"
            with files.open_file(path, "wb") as file:
                pq.write_table(table.slice(0, count), file)
            (run if folder == "run" else recorded)[name] = path
            if folder == "run":
                kept[name] = times[name][:count]
    rates = {name: len(values) / seconds for name, values in kept.items()}
    return ReplayedInputs(run, recorded, kept, chosen, seconds, rates)


def _speed(rows: int, lasted: float) -> float:
    """1 where that fits; else the nearest speed that does."""
    rate = rows / lasted
    most = min(FASTEST / rate, lasted / SHORTEST)
    least = min(SLOWEST / rate, most)
    return min(max(1.0, least), most)


def _table(graph: Graph, name: str, inputs: Mapping[str, Path]) -> pa.Table:
    source = next(each for each in graph.sources if each.name == name)
    batches = list(keyed(read_file(inputs[name]), source))
    if not batches:
        raise DataError(f"the input of source {name} is empty: there is nothing to measure")
    return pa.Table.from_batches(batches).unify_dictionaries()


def _times(table: pa.Table) -> np.ndarray:
    return np.asarray(table.column(TS).cast(pa.int64()).to_numpy())
