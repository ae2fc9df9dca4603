"""The numbers of a run, from what its elements told and counted."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

from riprap.protocols.protocol import WHOLE
from riprap.runtime.coordination.counts import stream_counts
from riprap.runtime.coordination.damage import Failure, failures
from riprap.runtime.coordination.element_metrics import CheckpointMetrics, ElementMetrics
from riprap.runtime.coordination.element_states import WorkerState
from riprap.runtime.coordination.history import History
from riprap.runtime.coordination.roster import PeStatus, Transition
from riprap.runtime.element.latency import Latencies
from riprap.runtime.element.ledger import Ledger, Ledgers, ledger_shape, read_ledger, read_lives
from riprap.runtime.host import Rates, pace_of
from riprap.runtime.layout import Layout, sink_channel
from riprap.runtime.run_context import stream_path
from riprap.runtime.stripes import below
from riprap.streams import PersistentStream
from riprap.streams.description import is_stream
from riprap.streams.shards import shards
from riprap.streams.stream_files import LocalFiles

_SENTENCES = 20  # of failures, in the warnings


class Lives:
    """The last metrics of every life of every element: numbers of a life that is over are not lost with it."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, int], ElementMetrics] = {}

    def note(self, table: Iterable[PeStatus]) -> None:
        for status in table:
            if status.metrics:
                self._last[status.pe, status.epoch] = ElementMetrics.from_json(status.metrics)

    def checkpoints(self, layout: Layout) -> dict[str, dict[str, int]]:
        """By operator: what is saved as a whole counts for each of its operators that has state."""
        totals: dict[str, dict[str, int]] = {}
        for (pe, _), metrics in self._last.items():
            members = layout.pe(pe).fragment.members
            for unit, counts in metrics.checkpoints.items():
                stateful = [name for name in members if any(layout.graph[name].stateful)]
                for name in (stateful or members[:1]) if unit == WHOLE else [unit]:
                    _add(totals.setdefault(name, {"taken": 0, "missed": 0, "bytes": 0}), counts)
        return totals

    def costs(self) -> dict[str, dict[str, float]]:
        """By element, over all of its lives: cores, bytes of memory, bytes a second that it wrote and sent."""
        found: dict[str, dict[str, float]] = {}
        for pe in dict.fromkeys(pe for pe, _ in self._last):
            spent = [metrics.spent for (other, _), metrics in self._last.items() if other == pe]
            seconds = sum(life.seconds for life in spent)
            if seconds > 0:
                found[pe] = {
                    "cores": sum(life.cpu for life in spent) / seconds,
                    "memory": max(life.memory for life in spent),
                    "written": sum(life.written for life in spent) / seconds,
                    "sent": sum(life.sent for life in spent) / seconds,
                }
        return found

    def latencies(self) -> Latencies:
        return Latencies().merge(Latencies(metrics.latency) for metrics in self._last.values())

    def late(self, layout: Layout) -> dict[str, int]:
        """By source: a life that comes back counts what those before it counted again.

        Shards that sort an input do so with all of it; else each counts rows of its own.
        """
        by_element: dict[tuple[str, str], int] = {}
        for (pe, _), metrics in self._last.items():
            for source, count in metrics.late.items():
                by_element[source, pe] = max(by_element.get((source, pe), 0), count)
        found: dict[str, int] = {}
        sorted_by = {source.name for source in layout.graph.sources if source.lateness is not None}
        for (source, _), count in by_element.items():
            same = source in sorted_by
            found[source] = max(found.get(source, 0), count) if same else found.get(source, 0) + count
        return found

    def warnings(self) -> list[str]:
        return list(dict.fromkeys(f"{pe}: {text}" for (pe, _), m in self._last.items() for text in m.warnings))


def _add(total: dict[str, int], counts: CheckpointMetrics) -> None:
    total["taken"] += counts.taken
    total["missed"] += counts.missed
    total["bytes"] += counts.bytes


def read_ledgers(directory: Path, layout: Layout) -> dict[str, Ledger]:
    """The newest ledger of every element."""
    return {
        pe.id: read_ledger(directory / "ledgers" / quote(pe.id, safe=""), ledger_shape(layout, pe)) for pe in layout.pes
    }


def read_failures(directory: Path, layout: Layout) -> list[Failure]:
    """What the failures of a run did, from the ledgers of all lives."""
    folder = directory / "ledgers"
    lives = {pe.id: read_lives(folder / quote(pe.id, safe=""), ledger_shape(layout, pe)) for pe in layout.pes}
    return failures(layout, lives)


def positions(layout: Layout, ledgers: Ledgers) -> dict[tuple[str, str], int]:
    """Rows taken, by element and source; of replicas, which read the same, by the first."""
    taken: dict[tuple[str, str], int] = {}
    for pe in layout.pes:
        for name, source in ledgers[pe.id].sources.items():
            at = (replace(pe, replica=0).id, name)
            taken[at] = max(taken.get(at, 0), below(source.position, pe.shard, pe.fragment.shards))
    return taken


def summary(
    directory: Path,
    layout: Layout,
    table: Iterable[PeStatus],
    lives: Lives,
    events: Sequence[Transition],
    history: History,
    before: Mapping[tuple[str, str], int],
    rates: Rates,
) -> dict[str, Any]:
    """One JSON object. `before`: the `positions` that this part of the run, begun or resumed, began with.

    Seconds, throughput and latency are of this part alone; seconds count from when its first tuple was due until the
    last element had ended.
    """
    ledgers = read_ledgers(directory, layout)
    sources = [
        (source.started_at, before.get((pe, name), 0), pace_of(rates, name).rate)
        for pe, ledger in ledgers.items()
        for name, source in ledger.sources.items()
    ]
    # Row 0 is said to be due when it would have been had the source never stopped.
    begun = min((at + (int(rows / rate * 1e6) if rate else 0) for at, rows, rate in sources if at), default=0)
    seconds = max((max((event.at for event in events), default=begun) - begun) / 1e6, 0.0) if begun else 0.0
    taken = positions(layout, ledgers)
    tuples = sum(taken.values())
    since = tuples - sum(before.values())
    latencies = lives.latencies()
    failed = [(failure, _died(events, failure, begun)) for failure in read_failures(directory, layout)]
    sentences = [failure.sentence(at) for failure, at in failed]
    if len(sentences) > _SENTENCES:
        more = f"{len(sentences) - _SENTENCES:,} more failures whose effect may show: see failures in summary.json"
        sentences[_SENTENCES:] = [more]
    return {
        "app": layout.graph.name,
        "pes": {
            status.pe: {
                "restarts": status.restarts,
                "went_back": status.went_back,
                "recoveries": [asdict(recovery) for recovery in status.recoveries],
                "delivery": delivery(layout, status.pe),
            }
            for status in table
        },
        "streams": {name: asdict(counts) for name, counts in stream_counts(layout, ledgers).items()},
        "checkpoints": lives.checkpoints(layout),
        "costs": lives.costs(),
        "protocol": {"name": layout.protocol.name, **history.summary()},
        "sinks": {
            sink.name: {
                "tuples": rows_in(directory / "sinks" / sink.name),
                "lost": sum(
                    outlet.discarded
                    for ledger in ledgers.values()
                    for channel, outlet in ledger.outlets.items()
                    if layout.sink(channel) == sink.name
                ),
                "path": str(directory / "sinks" / sink.name),
            }
            for sink in layout.graph.sinks
        },
        "taps": _taps(directory, layout),
        "sources": {
            source.name: {
                "tuples": sum(count for (_, name), count in taken.items() if name == source.name),
                "lost": sum(ledger.sources[source.name].lost for ledger in _with(source.name, ledgers)),
            }
            for source in layout.graph.sources
        },
        "tuples": tuples,
        "resumed_at": tuples - since,
        "late": lives.late(layout),
        "seconds": seconds,
        "throughput": since / seconds if seconds > 0 else 0.0,
        "latency": {"p50": latencies.quantile(0.5), "p99": latencies.quantile(0.99)},
        "failures": [{**failure.as_json(), "at": at} for failure, at in failed],
        "warnings": lives.warnings() + sentences,
    }


def _died(events: Sequence[Transition], failure: Failure, begun: int) -> float | None:
    """Seconds into this part of the run when the life before died; None: it did not, or in another part."""
    states = (WorkerState.DOWN, WorkerState.HANGING)
    died = [e.at for e in events if e.pe == failure.pe and e.epoch == failure.epoch - 1 and e.after in states]
    return max((died[0] - begun) / 1e6, 0.0) if died and begun else None


def rows_in(path: Path) -> int:
    """Of a persistent stream: what a reader finds there, whatever those who wrote it had counted."""
    return sum(
        PersistentStream.open(LocalFiles(each)).stable().position
        for each in shards(path)
        if is_stream(LocalFiles(each))
    )


def _taps(directory: Path, layout: Layout) -> dict[str, Any]:
    """Streams inside elements that are written for readers outside: what such a reader finds, by stream and shard."""
    found: dict[str, Any] = {}
    for pe in layout.pes:
        for id_ in layout.taps(pe):
            path = stream_path(directory, sink_channel(id_, pe.shard))
            one = found.setdefault(id_, {"tuples": 0, "paths": []})
            one["tuples"] += rows_in(path)
            one["paths"].append(str(path))
    return found


def _with(source: str, ledgers: Ledgers) -> list[Ledger]:
    return [ledger for ledger in ledgers.values() if source in ledger.sources]


def delivery(layout: Layout, pe: str) -> str:
    """What a crash of this element does to what it gives out, in words."""
    fragment, plan = layout.pe(pe).fragment, layout.plan(layout.pe(pe))
    if fragment.copied:
        return "exactly once, while another copy lives"
    if fragment.group in layout.deterministic and layout.settings.get("failover") != "plain":
        return "exactly once, while a full replica lives"
    if plan.exact:  # of a group it is not who comes back that goes on, but who takes over
        return "with gaps" if fragment.group else "exactly once"
    return f"at least once: {plan.reason}" if plan.whole else "with gaps"
