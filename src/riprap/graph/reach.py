"""The effect of lost input: which output may be wrong when an operator missed input or lost it from its state.

Damage is a *span* of event time. A span at an operator means that input of these times may be missing, late or lost
from its state; the span at a sink contains the times of all rows that differ from a run without faults. How an
operator extends a span depends on how long it retains a tuple:

    no state                        functor, split, union, punctor: the same span; a delay moves it
    time(w), emitting by time       until + w: the last window that a missing tuple belongs to
    time(w), emitting at each tuple until + w
    time(w) in a join               until + w, the longer of both ports
    count(1), emitting by time(s)   until + s
    anything else                   to the end: a count or session window recovers after an unpredictable number of
                                    tuples; a state variable and a barrier never do

    >>> app = App("sums")
    >>> sums = app.source("In", "k string, x long").aggregate("sum(x) AS x", window=time("5s"), by="k", name="Sums")
    >>> sums.sink("Out")
    >>> reach(app.build(), {"Sums": Span(1_000_000, 2_000_000)})
    {'Sums': Span(since=1000000, until=7000000), 'Out': Span(since=1000000, until=7000000)}
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from riprap.graph.cycles import cyclic_parts
from riprap.graph.graph import Graph
from riprap.graph.order_keys import END_KEY, START_KEY
from riprap.graph.specs import (
    Aggregate,
    Barrier,
    Delay,
    DropDuplicates,
    ExpiringJoin,
    Join,
    OperatorSpec,
    Scan,
    Sort,
    SparkStep,
    StatefulPython,
    UserDefined,
)
from riprap.graph.windows import Count, Time, Window, Zero

BEGINNING, END = START_KEY.ts, END_KEY.ts


class Span(NamedTuple):
    """Event time in microseconds since 1970, both ends included."""

    since: int  # BEGINNING: not bounded
    until: int  # END: to the end of the run

    @property
    def ends(self) -> bool:
        return self.until < END

    def joined(self, other: "Span | None") -> "Span":
        return self if other is None else Span(min(self.since, other.since), max(self.until, other.until))


def joined_spans(spans: Iterable[Span]) -> tuple[Span, ...]:
    """The union of the spans as disjoint spans, ascending."""
    disjoint: list[Span] = []
    for span in sorted(spans):
        if disjoint and span.since <= disjoint[-1].until:
            disjoint[-1] = disjoint[-1].joined(span)
        else:
            disjoint.append(span)
    return tuple(disjoint)


def reach(graph: Graph, damage: Mapping[str, Span]) -> dict[str, Span]:
    """By operator: the span of its output that may be wrong. `damage`: by operator, of its input or state."""
    cycling = {name for part in cyclic_parts(graph) for name in part}
    affected: dict[str, Span] = {}
    changed = True
    while changed:  # a cycle needs more than one pass
        changed = False
        for name in graph.order:
            span = damage.get(name)
            for stream in graph.inputs(name):
                if stream.source in affected:
                    span = _later(affected[stream.source], stream.delay).joined(span)
            if span is None:
                continue
            span = _through(graph[name], span)
            if name in cycling:
                span = Span(span.since, END)
            if affected.get(name) != span:
                affected[name], changed = span, True
    return affected


def _later(span: Span, delay: int) -> Span:
    return Span(*(time if time in (BEGINNING, END) else min(time + delay, END) for time in span))


def _through(spec: OperatorSpec, span: Span) -> Span:
    """The span of wrong output for a span of damaged input."""
    if isinstance(spec, Delay):
        return _later(span, spec.delay)
    if isinstance(spec, Sort) and spec.window != Count(1):
        # At the end it emits with the key of its latest tuple: if that was lost, with an earlier key.
        back = spec.window.size if isinstance(spec.window, Time) else None
        span = Span(BEGINNING if back is None or span.since == BEGINNING else span.since - back, span.until)
    retained = memory(spec)
    return Span(span.since, END) if retained is None else Span(span.since, _later(span, retained).until)


def memory(spec: OperatorSpec) -> int | None:
    """The event time after a tuple during which it can affect output; None: not bounded."""
    if isinstance(spec, Aggregate):
        return _aggregated(spec)
    if isinstance(spec, Join):
        sizes = [_time_size(window) for window in spec.windows]
        known = [size for size in sizes if size is not None]
        if len(known) < len(sizes):
            return None
        # A tuple decides whether another leaves without a match, which can be a window later.
        return sum(known) if isinstance(spec, ExpiringJoin) else max(known)
    if isinstance(spec, Sort):
        return 0 if spec.window == Count(1) else _time_size(spec.window)
    if isinstance(spec, Scan | Barrier | DropDuplicates | StatefulPython):
        return None
    if isinstance(spec, SparkStep | UserDefined) and any(spec.stateful):
        return None
    return 0


def _aggregated(spec: Aggregate) -> int | None:
    match spec.window, spec.every:
        case Time(size), Time() | Count(1):
            return size
        case Count(1), Count(1):
            return 0
        case Count(1), Time(every):
            return every
    return None  # another tuple may be the k-th, or a session may continue


def _time_size(window: Window) -> int | None:
    """How long a tuple stays in a time window."""
    if isinstance(window, Zero):
        return 0
    return window.size if isinstance(window, Time) else None
