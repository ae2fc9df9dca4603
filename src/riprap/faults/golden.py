"""Golden runs: the app without a fault, with the states that trials start from and compare with.

One golden run per jitter seed. At each *start* (a cut where outages start) it stores the state of the whole engine, for
trials to start from. At each *check* (a cut after a start) it stores a mark of the state, for trials to detect that
their state is golden again.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np

from riprap.engine.engine import Engine, EngineState, Output
from riprap.engine.jitter import Jitter
from riprap.faults.gated import golden_engine
from riprap.faults.injection import InjectedOperator
from riprap.faults.recording import Recording
from riprap.faults.trial_outputs import OutputRows, SinkReader, joined
from riprap.graph.graph import Graph
from riprap.graph.specs import Join
from riprap.graph.windows import Time
from riprap.operators.columns import keys_of

FIRST_CHECK = 4_096  # tuples after a start
STRIDE = 4  # each check is this many times farther from the start than the previous one


@dataclass(frozen=True)
class StateMark:
    """The state at a cut. Two runs with equal marks continue identically.

    Apps partitioned by key: `digests` has a row per stateful operator and a column per part (0: no state); `waiting`
    lists the parts with tuples that wait at an operator's input. Others: `whole` is a hash of everything.
    """

    digests: np.ndarray
    waiting: np.ndarray
    whole: bytes


@dataclass(frozen=True)
class Golden:
    """One golden run. `emitted`: by cut and sink, the number of output tuples so far."""

    rows: Mapping[str, OutputRows]
    emitted: Mapping[int, Mapping[str, int]]
    states: Mapping[int, EngineState]  # by start
    marks: Mapping[int, StateMark]  # by check


def checks_after(start: int, tuples: int) -> list[int]:
    """Cuts at which a trial that starts at `start` checks whether its state is golden again."""
    cuts, distance = [], FIRST_CHECK
    while start + distance < tuples:
        cuts.append(start + distance)
        distance *= STRIDE
    return cuts


def golden_run(
    graph: Graph,
    recording: Recording,
    readers: Sequence[SinkReader],
    jitter: Jitter | None,
    starts: Iterable[int],
    *,
    divided: bool,
) -> Golden:
    engine = golden_engine(graph, jitter)
    start_cuts = sorted(set(starts))
    checks = {cut for start in start_cuts for cut in checks_after(start, recording.tuples)}
    rows: dict[str, list[OutputRows]] = {reader.sink: [] for reader in readers}
    counts = {reader.sink: 0 for reader in readers}
    emitted: dict[int, dict[str, int]] = {}
    states: dict[int, EngineState] = {}
    marks: dict[int, StateMark] = {}
    at = 0
    for cut in sorted({*start_cuts, *checks, recording.tuples}):
        outputs: list[Output] = list(recording.feed(engine, at, cut))
        for reader in readers:
            new_rows = reader.read(outputs)
            rows[reader.sink].append(new_rows)
            counts[reader.sink] += new_rows.size
        emitted[cut] = dict(counts)
        if cut in start_cuts:
            states[cut] = engine.snapshot()
        if cut in checks:
            marks[cut] = mark(engine, recording, divided=divided)
        at = cut
    return Golden({sink: joined(parts) for sink, parts in rows.items()}, emitted, states, marks)


def mark(engine: Engine, recording: Recording, *, divided: bool) -> StateMark:
    if divided:
        return StateMark(digests_of(engine, recording.hashes), waiting_parts(engine, recording), b"")
    return StateMark(np.empty((0, 0), np.uint64), np.empty(0, np.int64), _fingerprint(engine))


def digests_of(engine: Engine, keys: np.ndarray) -> np.ndarray:
    """For each stateful operator, the digests of these keys (hashes); 0: no state."""
    digests = [op.digest_of(keys) for name, op in engine.operators.items() if any(engine.graph[name].stateful)]
    return np.array(digests, np.uint64).reshape(len(digests), len(keys))


def waiting_parts(engine: Engine, recording: Recording) -> np.ndarray:
    """Parts with tuples that wait at an operator's input."""
    positions = [np.empty(0, np.int64)]
    for name, state in engine.waiting().items():
        shapes = engine.graph.input_shapes(name)
        for port, batch in state.batches():
            positions.append(recording.positions_of(keys_of(batch, shapes[port])))
    return np.unique(recording.parts_of(np.concatenate(positions)))


def _fingerprint(engine: Engine) -> bytes:
    """A hash of all state that further output depends on."""
    total = blake2b(digest_size=16)
    for name, digest in engine.digests().items():
        total.update(name.encode() + digest.keys.tobytes() + digest.digests.tobytes())
    for name, operator in engine.operators.items():
        spec = engine.graph[name]
        scalars = operator.snapshot().scalars
        if isinstance(spec, Join) or (isinstance(getattr(spec, "target", None), Join)):
            # The number of arrived tuples only matters to windows over a whole port, whose digest includes it.
            scalars = {"now": scalars["now"]} if any(isinstance(w, Time) for w in spec.windows) else {}
        total.update(f"{name}{sorted(scalars.items())}".encode())
        if isinstance(operator, InjectedOperator) and operator.holding:
            total.update(b"held")
    for name, state in engine.waiting().items():
        for port, batch in state.batches():
            total.update(f"{name}{port}{batch.to_pylist()}".encode())
        total.update(f"{name}{state.marks()}".encode())
    return total.digest()
