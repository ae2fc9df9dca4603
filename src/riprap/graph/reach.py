"""How far damage reaches: which output may be wrong when an operator has missed, or lost from its state, some input.

Damage is a *span* of event time. A span at an operator says that input of these times may be missing, late or no longer
in its state; the span at a sink says that every row of it that differs from a run without faults has a time in there.
What an operator makes of a span depends on how long it remembers a tuple:

    nothing remembered               functor, split, union, punctor: the same span; a delay moves it
    time(w), speaking by time        until + w: the last window that a missing tuple belongs to
    time(w), speaking at each tuple  until + w
    time(w) in a join                until + w, the longer of both ports
    count(1), speaking by time(s)    until + s
    anything else                    to the end: a count or session window heals by tuples that nobody foresees, a
                                     running value and a barrier never

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
from riprap.graph.specs import Aggregate, Barrier, Delay, Join, OperatorSpec, Scan, Sort, UserDefined
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
    """The same times in spans that do not touch, ascending."""
    found: list[Span] = []
    for span in sorted(spans):
        if found and span.since <= found[-1].until:
            found[-1] = found[-1].joined(span)
        else:
            found.append(span)
    return tuple(found)


def reach(graph: Graph, hurt: Mapping[str, Span]) -> dict[str, Span]:
    """By operator: the span of its output that may be wrong. `hurt` is by operator, of its input or state."""
    cycling = {name for part in cyclic_parts(graph) for name in part}
    found: dict[str, Span] = {}
    changed = True
    while changed:  # more than once where a cycle leads back
        changed = False
        for name in graph.order:
            span = hurt.get(name)
            for stream in graph.inputs(name):
                if stream.source in found:
                    span = _later(found[stream.source], stream.delay).joined(span)
            if span is None:
                continue
            span = _through(graph[name], span)
            if name in cycling:
                span = Span(span.since, END)
            if found.get(name) != span:
                found[name], changed = span, True
    return found


def _later(span: Span, delay: int) -> Span:
    return Span(*(time if time in (BEGINNING, END) else min(time + delay, END) for time in span))


def _through(spec: OperatorSpec, span: Span) -> Span:
    """What an operator makes of damage to its input."""
    if isinstance(spec, Delay):
        return _later(span, spec.delay)
    if isinstance(spec, Sort) and spec.window != Count(1):
        # At the end it speaks under the key of its latest tuple: without the lost ones that may be an earlier one.
        back = spec.window.size if isinstance(spec.window, Time) else None
        span = Span(BEGINNING if back is None or span.since == BEGINNING else span.since - back, span.until)
    remembered = memory(spec)
    return Span(span.since, END) if remembered is None else Span(span.since, _later(span, remembered).until)


def memory(spec: OperatorSpec) -> int | None:
    """For how much event time after a tuple, at most, it can change output; None: nobody can say, or for ever."""
    if isinstance(spec, Aggregate):
        return _aggregated(spec)
    if isinstance(spec, Join):
        kept = [_kept(window) for window in spec.windows]
        return None if None in kept else max(size for size in kept if size is not None)
    if isinstance(spec, Sort):
        return 0 if spec.window == Count(1) else _kept(spec.window)
    if isinstance(spec, Scan | Barrier) or (isinstance(spec, UserDefined) and any(spec.stateful)):
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
    return None  # which tuple is the k-th has shifted, or a session goes on


def _kept(window: Window) -> int | None:
    """How long a tuple stays in a window that takes it out by its time."""
    if isinstance(window, Zero):
        return 0
    return window.size if isinstance(window, Time) else None
