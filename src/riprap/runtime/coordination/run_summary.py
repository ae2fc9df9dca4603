"""The numbers of a run, from the heartbeats and ledgers of its elements."""

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
from riprap.runtime.element.ledger import Ledger, Ledgers, ledger_shape, read_incarnations, read_ledger
from riprap.runtime.host import Rates, pace_of
from riprap.runtime.layout import Layout, sink_channel
from riprap.runtime.run_context import stream_path
from riprap.runtime.stripes import below
from riprap.streams import PersistentStream
from riprap.streams.description import is_stream
from riprap.streams.shards import shards
from riprap.streams.stream_files import LocalFiles

_SENTENCES = 20  # about failures, in the warnings


class MetricsByIncarnation:
    """The last metrics of every incarnation of every element, so that numbers survive the incarnation."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, int], ElementMetrics] = {}

    def note(self, table: Iterable[PeStatus]) -> None:
        for status in table:
            if status.metrics:
                self._last[status.pe, status.epoch] = ElementMetrics.from_json(status.metrics)

    def checkpoints(self, layout: Layout) -> dict[str, dict[str, int]]:
        """By operator. A checkpoint of a whole element counts for each of its stateful operators."""
        totals: dict[str, dict[str, int]] = {}
        for (pe, _), metrics in self._last.items():
            members = layout.pe(pe).fragment.members
            for unit, counts in metrics.checkpoints.items():
                stateful = [name for name in members if any(layout.graph[name].stateful)]
                for name in (stateful or members[:1]) if unit == WHOLE else [unit]:
                    _add(totals.setdefault(name, {"taken": 0, "missed": 0, "bytes": 0}), counts)
        return totals

    def costs(self) -> dict[str, dict[str, float]]:
        """By element, over all of its incarnations: cores, bytes of memory, bytes written and sent per second."""
        costs: dict[str, dict[str, float]] = {}
        for pe in dict.fromkeys(pe for pe, _ in self._last):
            spent = [metrics.spent for (other, _), metrics in self._last.items() if other == pe]
            seconds = sum(part.seconds for part in spent)
            if seconds > 0:
                costs[pe] = {
                    "cores": sum(part.cpu for part in spent) / seconds,
                    "memory": max(part.memory for part in spent),
                    "written": sum(part.written for part in spent) / seconds,
                    "sent": sum(part.sent for part in spent) / seconds,
                }
        return costs

    def latencies(self) -> Latencies:
        return Latencies().merge(Latencies(metrics.latency) for metrics in self._last.values())

    def late(self, layout: Layout) -> dict[str, int]:
        """By source. An incarnation that recovers counts again what earlier ones counted.

        Shards that sort an input each sort all of it; else each shard counts its own rows.
        """
        by_element: dict[tuple[str, str], int] = {}
        for (pe, _), metrics in self._last.items():
            for source, count in metrics.late.items():
                by_element[source, pe] = max(by_element.get((source, pe), 0), count)
        late: dict[str, int] = {}
        sorted_by = {source.name for source in layout.graph.sources if source.lateness is not None}
        for (source, _), count in by_element.items():
            same = source in sorted_by
            late[source] = max(late.get(source, 0), count) if same else late.get(source, 0) + count
        return late

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
    """The effects of the failures of a run, from the ledgers of all incarnations."""
    folder = directory / "ledgers"
    ledgers = {pe.id: read_incarnations(folder / quote(pe.id, safe=""), ledger_shape(layout, pe)) for pe in layout.pes}
    return failures(layout, ledgers)


def positions(layout: Layout, ledgers: Ledgers) -> dict[tuple[str, str], int]:
    """Rows read, by element and source. Replicas read the same rows: they count for the first replica."""
    rows: dict[tuple[str, str], int] = {}
    for pe in layout.pes:
        for name, source in ledgers[pe.id].sources.items():
            at = (replace(pe, replica=0).id, name)
            rows[at] = max(rows.get(at, 0), below(source.position, pe.shard, pe.fragment.shards))
    return rows


def summary(
    directory: Path,
    layout: Layout,
    table: Iterable[PeStatus],
    metrics: MetricsByIncarnation,
    events: Sequence[Transition],
    history: History,
    before: Mapping[tuple[str, str], int],
    rates: Rates,
) -> dict[str, Any]:
    """One JSON object. `before`: the `positions` at which this part of the run started or resumed.

    Seconds, throughput and latency are of this part alone. Seconds count from the due time of its first tuple to the
    end of the last element.
    """
    ledgers = read_ledgers(directory, layout)
    sources = [
        (source.started_at, before.get((pe, name), 0), pace_of(rates, name).rate)
        for pe, ledger in ledgers.items()
        for name, source in ledger.sources.items()
    ]
    # `started_at` is the due time of row 0 as if the source had never stopped.
    begun = min((at + (int(rows / rate * 1e6) if rate else 0) for at, rows, rate in sources if at), default=0)
    seconds = max((max((event.at for event in events), default=begun) - begun) / 1e6, 0.0) if begun else 0.0
    taken = positions(layout, ledgers)
    tuples = sum(taken.values())
    since = tuples - sum(before.values())
    latencies = metrics.latencies()
    failed = [(failure, _died(events, failure, begun)) for failure in read_failures(directory, layout)]
    sentences = [failure.sentence(at) for failure, at in failed]
    if len(sentences) > _SENTENCES:
        more = f"{len(sentences) - _SENTENCES:,} more failures with possible effects: see failures in summary.json"
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
        "checkpoints": metrics.checkpoints(layout),
        "costs": metrics.costs(),
        "protocol": {"name": layout.protocol.name, **history.summary()},
        "sinks": {
            sink.name: {
                "tuples": rows_in(directory / "sinks" / sink.name),
                "lost": sum(
                    outlet.discarded
                    for ledger in ledgers.values()
                    for channel, outlet in ledger.outputs.items()
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
        "late": metrics.late(layout),
        "seconds": seconds,
        "throughput": since / seconds if seconds > 0 else 0.0,
        "latency": {"p50": latencies.quantile(0.5), "p99": latencies.quantile(0.99)},
        "failures": [{**failure.as_json(), "at": at} for failure, at in failed],
        "warnings": metrics.warnings() + sentences,
    }


def _died(events: Sequence[Transition], failure: Failure, begun: int) -> float | None:
    """Seconds into this part of the run when the previous incarnation died; None: it did not, or in another part."""
    states = (WorkerState.DOWN, WorkerState.HANGING)
    died = [e.at for e in events if e.pe == failure.pe and e.epoch == failure.epoch - 1 and e.after in states]
    return max((died[0] - begun) / 1e6, 0.0) if died and begun else None


def rows_in(path: Path) -> int:
    """Rows that a reader finds in a persistent stream, independent of its writers' counts."""
    return sum(
        PersistentStream.open(LocalFiles(shard)).stable().position
        for shard in shards(path)
        if is_stream(LocalFiles(shard))
    )


def _taps(directory: Path, layout: Layout) -> dict[str, Any]:
    """By stream and shard: the rows of streams inside elements that are written for external readers."""
    taps: dict[str, Any] = {}
    for pe in layout.pes:
        for id_ in layout.taps(pe):
            path = stream_path(directory, sink_channel(id_, pe.shard))
            tap = taps.setdefault(id_, {"tuples": 0, "paths": []})
            tap["tuples"] += rows_in(path)
            tap["paths"].append(str(path))
    return taps


def _with(source: str, ledgers: Ledgers) -> list[Ledger]:
    return [ledger for ledger in ledgers.values() if source in ledger.sources]


def delivery(layout: Layout, pe: str) -> str:
    """The delivery guarantee of an element's output over a crash, in words."""
    fragment, plan = layout.pe(pe).fragment, layout.plan(layout.pe(pe))
    if fragment.copied:
        return "exactly once, while another copy lives"
    if fragment.group in layout.deterministic and layout.settings.get("failover") != "plain":
        return "exactly once, while a full replica lives"
    if plan.exact:  # in a group another replica takes over, so the restored state does not help
        return "with gaps" if fragment.group else "exactly once"
    return f"at least once: {plan.reason}" if plan.whole else "with gaps"
