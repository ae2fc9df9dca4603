"""Golden runs: the app without a fault, with everything that trials start from and compare with.

A golden run is made once per jitter seed. At each *start* (a cut where outages begin) the state of the whole engine
is kept, so that a trial can begin there. At each *check* (a cut after a start) a mark of the state is kept, so that a
trial can see whether it has come back to what it would have been.
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
STRIDE = 4  # each check is this many times as far from the start as the one before


@dataclass(frozen=True)
class StateMark:
    """The state at a cut. Where two runs have equal marks, they go on equally.

    Apps divided by key: `digests` has a row per stateful operator and a column per part (0: no state), `waiting` the
    parts of which tuples wait in front of an operator. Others: `whole` is a hash of everything.
    """

    digests: np.ndarray
    waiting: np.ndarray
    whole: bytes


@dataclass(frozen=True)
class Golden:
    """One golden run. `emitted` counts, for each cut and sink, the output tuples given out until then."""

    rows: Mapping[str, OutputRows]
    emitted: Mapping[int, Mapping[str, int]]
    states: Mapping[int, EngineState]  # by start
    marks: Mapping[int, StateMark]  # by check


def checks_after(start: int, tuples: int) -> list[int]:
    """Cuts at which a trial that begins at `start` looks whether it is over."""
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
    kept = sorted(set(starts))
    checks = {cut for start in kept for cut in checks_after(start, recording.tuples)}
    rows: dict[str, list[OutputRows]] = {reader.sink: [] for reader in readers}
    counts = {reader.sink: 0 for reader in readers}
    emitted: dict[int, dict[str, int]] = {}
    states: dict[int, EngineState] = {}
    marks: dict[int, StateMark] = {}
    at = 0
    for cut in sorted({*kept, *checks, recording.tuples}):
        outputs: list[Output] = list(recording.feed(engine, at, cut))
        for reader in readers:
            own = reader.read(outputs)
            rows[reader.sink].append(own)
            counts[reader.sink] += own.size
        emitted[cut] = dict(counts)
        if cut in kept:
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
    found = [op.digest_of(keys) for name, op in engine.operators.items() if any(engine.graph[name].stateful)]
    return np.array(found, np.uint64).reshape(len(found), len(keys))


def waiting_parts(engine: Engine, recording: Recording) -> np.ndarray:
    """Parts of which tuples wait in front of an operator."""
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
            # How many tuples have arrived matters to windows over a whole port alone, whose digest has it.
            scalars = {"now": scalars["now"]} if any(isinstance(w, Time) for w in spec.windows) else {}
        total.update(f"{name}{sorted(scalars.items())}".encode())
        if isinstance(operator, InjectedOperator) and operator.holding:
            total.update(b"held")
    for name, state in engine.waiting().items():
        for port, batch in state.batches():
            total.update(f"{name}{port}{batch.to_pylist()}".encode())
        total.update(f"{name}{state.marks()}".encode())
    return total.digest()
