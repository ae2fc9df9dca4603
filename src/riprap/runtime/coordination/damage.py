"""The effects of failures on the output of a run: which rows may be missing or wrong at each sink.

A *failure* here is what one incarnation of an element could not repair: the state that it started without, and items
that its inputs lost or delivered late, whichever element had died. Two ledgers determine it. That of the previous
incarnation, as its death left it, shows how far the operators were; its own shows what it started without.

    state    An operator's undone input has event times up to those that its element had reached. The results up to the
             element's announced watermarks had been emitted, so the damage starts there.
    inputs   Lost items lie between the items delivered before and after them; a late item between its own time and the
             position where it was delivered.
    logs     Rows that a log had not yet written when its process died lie behind the rows in it.

`graph/reach.py` computes how far the damage spreads. Elements that are exact, in HA groups or in copies have no
failures here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from riprap.graph.graph import Graph
from riprap.graph.reach import BEGINNING, END, Span, joined_spans, reach
from riprap.graph.specs import Delay
from riprap.runtime.element.ledger import Ledger
from riprap.runtime.layout import Layout, Pe

LedgersByIncarnation = Mapping[str, Sequence[tuple[int, Ledger]]]  # by element: epochs with their ledgers, oldest first


@dataclass(frozen=True)
class Failure:
    """`sinks` bounds the damage: every row that differs has an event time in these spans."""

    pe: str
    epoch: int  # of the incarnation that started with the loss, or met it
    undone: Mapping[str, int]  # by operator: rows that it had processed and that its state no longer reflects
    lost: int  # items of the element's inputs that never arrived, and rows that its sinks and logs had not yet written
    hurt: Mapping[str, tuple[Span, ...]]  # by operator: event times of what its input or state lacks
    sinks: Mapping[str, tuple[Span, ...]]

    def as_json(self) -> dict[str, Any]:
        """Times are microseconds since 1970; null: unbounded on that side."""
        return {
            "pe": self.pe,
            "epoch": self.epoch,
            "undone": dict(self.undone),
            "lost": self.lost,
            "hurt": {name: _listed(spans) for name, spans in self.hurt.items()},
            "sinks": {name: _listed(spans) for name, spans in self.sinks.items()},
        }

    def sentence(self, at: float | None = None) -> str:
        """For people. `at`: seconds into the run when the previous incarnation died."""
        undone = [f"undone {rows:,} rows at {name}" for name, rows in self.undone.items()]
        what = ", ".join([*undone, *([f"lost {self.lost:,}"] if self.lost or not undone else [])])
        touched = [f"{sink} {_in_words(spans)}" for sink, spans in self.sinks.items()]
        after = "" if at is None else f" (died at {at:.1f} s)"
        reached = f"rows of {'; of '.join(touched)} may be wrong" if touched else "no sink shows it"
        return f"{self.pe}{after}: {what}: {reached}"


def _in_words(spans: Sequence[Span]) -> str:
    return " and ".join(
        f"{'from the beginning' if span.since == BEGINNING else f'from {_moment(span.since, 0)}'} "
        f"{f'to {_moment(span.until, 999)}' if span.ends else 'to the end'}"
        for span in spans
    )


def _moment(time: int, rounding: int) -> str:
    """An event time in milliseconds, rounded down, or with 999 rounded up."""
    whole = (time + rounding) // 1_000
    try:
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=whole)
    except OverflowError:
        return f"{time} us"
    return moment.strftime("%Y-%m-%d %H:%M:%S") + f".{whole % 1_000:03d}"


def _listed(spans: Sequence[Span]) -> list[list[int | None]]:
    return [[None if time in (BEGINNING, END) else time for time in span] for span in spans]


def failures(layout: Layout, ledgers: LedgersByIncarnation) -> list[Failure]:
    """Element by element, in the order of epochs."""
    found: list[Failure] = []
    for pe in layout.pes:
        if layout.plan(pe).exact or pe.fragment.replicas > 1:
            continue
        before: Ledger | None = None
        for epoch, ledger in ledgers.get(pe.id, ()):
            failure = _failure(layout, pe, epoch, before, ledger)
            if failure.hurt or any(failure.undone.values()):
                found.append(failure)
            before = ledger
    return found


def _failure(layout: Layout, pe: Pe, epoch: int, before: Ledger | None, ledger: Ledger) -> Failure:
    marks: list[tuple[str, Span]] = []
    lost = 0
    for channel, inlet in ledger.inputs.items():
        marks += [(layout.stream(channel).target, span) for span in inlet.damage]
        lost += max(inlet.missed - (before.inputs[channel].missed if before is not None else 0), 0)
    if before is not None:
        since = min((outlet.key.ts for outlet in before.outputs.values()), default=BEGINNING)
        taken = _taken(layout, pe, before)
        unsure = [name for name, state in ledger.states.items() if state.unsure]
        for name in (*unsure, *(name for name in _merging(layout.graph, pe) if name in taken)):
            marks.append((name, Span(since, max(taken.get(name, since), since))))
        for channel, outlet in ledger.outputs.items():
            if outlet.log_until != END:
                lost += max(outlet.discarded - before.outputs[channel].discarded, 0)
                if layout.sink(channel) or not layout.outward(channel):  # a tap has no consumer in the app
                    span = Span(outlet.log_until, max(before.outputs[channel].key.ts, outlet.log_until))
                    marks.append((layout.stream(channel).target, span))
    marks = [(name, span) for name, span in marks if span.since < END]
    spans: dict[str, list[Span]] = {}
    for name, span in marks:
        for sink, wrong in reach(layout.graph, {name: span}).items():
            if sink in {spec.name for spec in layout.graph.sinks}:
                spans.setdefault(sink, []).append(wrong)
    return Failure(
        pe.id,
        epoch,
        {name: state.undone for name, state in ledger.states.items() if state.unsure},
        lost,
        {name: joined_spans(span for other, span in marks if other == name) for name, _ in marks},
        {name: joined_spans(found) for name, found in spans.items()},
    )


def _taken(layout: Layout, pe: Pe, ledger: Ledger) -> dict[str, int]:
    """By operator: the latest event time of its tuples, processed or waiting for it inside the element."""
    taken: dict[str, int] = {name: source.reached for name, source in ledger.sources.items() if source.position}
    for channel, inlet in ledger.inputs.items():
        target = layout.stream(channel).target
        if inlet.reached != BEGINNING:
            taken[target] = max(taken.get(target, BEGINNING), inlet.reached)
    for name in layout.graph.order:  # damage in a cycle reaches to the end in any case
        for stream in layout.graph.inputs(name) if name in pe.fragment.members else ():
            if stream.source in taken and stream.source in pe.fragment.members:
                taken[name] = max(taken.get(name, BEGINNING), _left(layout.graph, stream.source, taken[stream.source]))
    return taken


def _left(graph: Graph, name: str, taken: int) -> int:
    spec = graph[name]
    return min(taken + spec.delay, END) if isinstance(spec, Delay) else taken


def _merging(graph: Graph, pe: Pe) -> list[str]:
    """Operators that merge streams from inside the element: no channel counts the tuples that wait for them, and those
    are lost with the process."""
    members = pe.fragment.members
    inner = {name for name in members if any(stream.source in members for stream in graph.inputs(name))}
    return [name for name in members if name in inner and len(graph.inputs(name)) > 1]
