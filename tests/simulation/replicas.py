"""What runs with replicas or copies are held to, whatever was struck; a failure says how to repeat it."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise

from tests.simulation.schedules import Case, bounded, simulated
from tests.simulation.test_gaps import _keys

from riprap.runtime.coordination.counts import stream_counts
from riprap.runtime.simulation import Simulation


def span(run: Case, rows: int) -> int:
    """Microseconds in which faults may happen: while rows come, and some time after."""
    return int(rows / run.rate * 1e6) + 100_000


def unharmed(run: Case, recovery: str, repeated_by: str) -> Simulation:
    """The output is that of a run without faults, and streams of this recovery, and those to or within a group, count
    nothing as lost or repeated. A buffer stream may bring again what its consumer was working on when it was killed.
    """
    simulation = run.simulation()
    with _repeated(run, repeated_by):
        simulation.run(seconds=20.0)
        assert simulated(simulation) == bounded(run.layout.graph, run.inputs)
        for stream, counts in stream_counts(run.layout, simulation.ledgers()).items():
            if counts.recovery == recovery or run.layout.link(stream).target.group:
                assert counts.lost == 0, f"{stream}: {counts}"
                assert counts.repeated == 0 or counts.recovery == "buffer", f"{stream}: {counts}"
    return simulation


def ended(run: Case, repeated_by: str, *, counted: bool) -> Simulation:
    """The run ends, and keys ascend where nothing is counted as late. `counted`: no stream counts more as received
    than as sent.
    """
    simulation = run.simulation()
    with _repeated(run, repeated_by):
        simulation.run(seconds=30.0)
        found, graph = stream_counts(run.layout, simulation.ledgers()), run.layout.graph
        for sink in graph.sinks:
            keys = _keys(simulation, sink.name)
            late = any(found[stream.id].late for stream in graph.leading_to(sink.name).streams if stream.id in found)
            assert late or all(one < other for one, other in pairwise(keys)), f"keys fall at {sink.name}"
        for stream, counts in found.items() if counted else ():
            assert 0 <= counts.received <= counts.sent, f"{stream}: {counts}"
    return simulation


@contextmanager
def _repeated(run: Case, by: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        raise AssertionError(f"{by} repeats it: {run}") from error
