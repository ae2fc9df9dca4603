"""What failures did to the output of a run: what is missing, or whose effect was undone, and how far that reaches.

A *failure* here is what one life of an element could not make good: the state that it did not begin with, and what its
inputs lacked or brought late while it lived, whoever had died. It follows from two ledgers: that of the life before, as
its death left it, says how far operators had come, and that of the life itself what it began without.

    state    An operator's undone input has event times up to those that its element had reached. What it had caused up
             to the keys that the element had promised was given out: so damage begins there.
    inputs   Items that never came lie between what had come before them and what came next; a late one between its own
             time and the place where it was taken.
    logs     What a log had not yet written when its process died lies behind what is in it.

How far that goes `graph/reach.py` says. Elements that are exact, in HA groups or in copies have no failures here.
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

Lives = Mapping[str, Sequence[tuple[int, Ledger]]]  # by element: epoch and ledger of each life, oldest first


@dataclass(frozen=True)
class Failure:
    """`sinks` bounds what it may have changed: every row that differs has an event time in there."""

    pe: str
    epoch: int  # of the life that began with the loss, or met it
    undone: Mapping[str, int]  # by operator: rows that it had taken, and that its state does not have any more
    lost: int  # items of the element's inputs that never came, and rows that its sinks and logs had not yet written
    hurt: Mapping[str, tuple[Span, ...]]  # by operator: event times of what its input or state lacks
    sinks: Mapping[str, tuple[Span, ...]]

    def as_json(self) -> dict[str, Any]:
        """Times are microseconds since 1970; null: not bounded on that side."""
        return {
            "pe": self.pe,
            "epoch": self.epoch,
            "undone": dict(self.undone),
            "lost": self.lost,
            "hurt": {name: _listed(spans) for name, spans in self.hurt.items()},
            "sinks": {name: _listed(spans) for name, spans in self.sinks.items()},
        }

    def sentence(self, at: float | None = None) -> str:
        """For people. `at`: seconds into the run when the life before died."""
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
    """An event time, in milliseconds that are not later, or with 999 not earlier."""
    whole = (time + rounding) // 1_000
    try:
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=whole)
    except OverflowError:
        return f"{time} us"
    return moment.strftime("%Y-%m-%d %H:%M:%S") + f".{whole % 1_000:03d}"


def _listed(spans: Sequence[Span]) -> list[list[int | None]]:
    return [[None if time in (BEGINNING, END) else time for time in span] for span in spans]


def failures(layout: Layout, lives: Lives) -> list[Failure]:
    """Element by element, in the order of its lives."""
    found: list[Failure] = []
    for pe in layout.pes:
        if layout.plan(pe).exact or pe.fragment.replicas > 1:
            continue
        before: Ledger | None = None
        for epoch, ledger in lives.get(pe.id, ()):
            failure = _failure(layout, pe, epoch, before, ledger)
            if failure.hurt or any(failure.undone.values()):
                found.append(failure)
            before = ledger
    return found


def _failure(layout: Layout, pe: Pe, epoch: int, before: Ledger | None, ledger: Ledger) -> Failure:
    marks: list[tuple[str, Span]] = []
    lost = 0
    for channel, inlet in ledger.inlets.items():
        marks += [(layout.stream(channel).target, span) for span in inlet.hurt]
        lost += max(inlet.missed - (before.inlets[channel].missed if before is not None else 0), 0)
    if before is not None:
        since = min((outlet.key.ts for outlet in before.outlets.values()), default=BEGINNING)
        taken = _taken(layout, pe, before)
        unsure = [name for name, state in ledger.states.items() if state.unsure]
        for name in (*unsure, *(name for name in _merging(layout.graph, pe) if name in taken)):
            marks.append((name, Span(since, max(taken.get(name, since), since))))
        for channel, outlet in ledger.outlets.items():
            if outlet.kept != END:
                lost += max(outlet.discarded - before.outlets[channel].discarded, 0)
                if layout.sink(channel) or not layout.outward(channel):  # a tap has no consumer in the app
                    span = Span(outlet.kept, max(before.outlets[channel].key.ts, outlet.kept))
                    marks.append((layout.stream(channel).target, span))
    marks = [(name, span) for name, span in marks if span.since < END]
    spans: dict[str, list[Span]] = {}
    for name, span in marks:
        for sink, wrong in reach(layout.graph, {name: span}).items():
            if sink in {one.name for one in layout.graph.sinks}:
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
    """By operator: no tuple that it has had, or that waits for it inside the element, has a later event time."""
    taken: dict[str, int] = {name: source.reached for name, source in ledger.sources.items() if source.position}
    for channel, inlet in ledger.inlets.items():
        target = layout.stream(channel).target
        if inlet.reached != BEGINNING:
            taken[target] = max(taken.get(target, BEGINNING), inlet.reached)
    for name in layout.graph.order:  # what goes round a cycle reaches to the end whatever is said here
        for stream in layout.graph.inputs(name) if name in pe.fragment.members else ():
            if stream.source in taken and stream.source in pe.fragment.members:
                taken[name] = max(taken.get(name, BEGINNING), _left(layout.graph, stream.source, taken[stream.source]))
    return taken


def _left(graph: Graph, name: str, taken: int) -> int:
    spec = graph[name]
    return min(taken + spec.delay, END) if isinstance(spec, Delay) else taken


def _merging(graph: Graph, pe: Pe) -> list[str]:
    """Operators in front of which tuples wait that came into the element some operators before: no channel counts
    them, and they die with it."""
    members = pe.fragment.members
    inner = {name for name in members if any(stream.source in members for stream in graph.inputs(name))}
    return [name for name in members if name in inner and len(graph.inputs(name)) > 1]
