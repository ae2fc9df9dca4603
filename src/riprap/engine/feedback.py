"""Feedback: how an engine executes the cycles of a graph.

A feedback stream has a delay d > 0 of event time: a tuple that enters it at `_ts` arrives at `_ts` + d, with the rest
of its key unchanged. So keys increase on every path through the graph, and a merge in a cycle is the usual merge by
order key. It needs a watermark of the feedback stream. Let t be the least time of: the items that wait in the cycle,
the items that its input streams can still bring, and the next time boundary at which one of its operators may emit.
Nothing before t leaves the operators of the cycle, so nothing before t + d arrives on the feedback stream. Each turn
thus admits d of input, and skips a gap if the cycle is empty. The result does not depend on how the input is cut into
batches; only the cost does.

The end: when the inputs of a cycle have ended and nothing waits in it, its feedback ends. Output that operators emit at
the end is not fed back, and neither is that of time boundaries after the last tuple: a window in a cycle might never
end. Punctuations are not fed back: they would circulate for ever.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import pyarrow as pa

from riprap.base.errors import GraphError
from riprap.engine.merger import Merger
from riprap.graph.graph import Graph, StreamSpec
from riprap.graph.order_keys import END_KEY, START_KEY, KeyShape, OrderKey, physical_schema
from riprap.operators.columns import batch_of, key_columns, keys_of, times_of
from riprap.operators.contract import Event, Late, Operator


class CycleStatus(NamedTuple):
    """What can still circulate in a cycle, or in a part of it, when it is idle. Times are of `_ts`."""

    external: int = END_KEY.ts  # nothing earlier will enter from outside; END: nothing will
    reach: int = START_KEY.ts  # the watermark of its inputs before they ended
    first: int = END_KEY.ts  # least time of the waiting items; END: there are none
    last: int = START_KEY.ts  # greatest time of the waiting items
    boundary: int = END_KEY.ts  # next time boundary at which one of its operators may emit; END: none

    def beside(self, other: "CycleStatus") -> "CycleStatus":
        """The combination of two parts."""
        return CycleStatus(
            min(self.external, other.external), max(self.reach, other.reach), min(self.first, other.first),
            max(self.last, other.last), min(self.boundary, other.boundary),
        )  # fmt: skip

    def turned(self, delay: int) -> OrderKey:
        """The watermark of a feedback stream of the cycle. After the inputs ended, it does not pass the waiting
        items."""
        least = min(self.external, self.first, self.boundary)
        if least == START_KEY.ts:
            return START_KEY
        if self.external == END_KEY.ts:
            return all_before(min(least + delay, max(self.last + 1, self.reach + delay)))
        return all_before(least + delay)

    @property
    def over(self) -> bool:
        """Nothing will enter, and nothing waits: the feedback ends when its watermark is at `reach`."""
        return self.external == END_KEY.ts and self.first == END_KEY.ts


class FeedbackPort(NamedTuple):
    operator: str
    port: int


@dataclass
class Cycle:
    """A strongly connected component of a fragment: its operators, its feedback streams, the ports into it."""

    members: tuple[str, ...]
    streams: tuple[StreamSpec, ...]
    entries: tuple[FeedbackPort, ...]
    reach: int = field(default=START_KEY.ts)  # the watermark of its inputs before they ended

    def turn(
        self,
        operators: Mapping[str, Operator],
        mergers: Mapping[str, Merger],
        watermark: Mapping[str, OrderKey],
        inboxes: Mapping[str, list[tuple[int, Event | Late]]],
    ) -> list[tuple[StreamSpec, OrderKey]]:
        """The feedback streams whose watermark a pass over the operators advanced, with the new watermark."""
        known = [_known(mergers, watermark, port) for port in self.entries]
        self.reach = max([self.reach, *(key.ts for key in known if key != END_KEY)])
        waiting = [span for name in self.members for span in _waiting(name, mergers, inboxes)]
        standing = CycleStatus(
            min(known, default=END_KEY).ts,
            self.reach,
            min((first for first, _ in waiting), default=END_KEY.ts),
            max((last for _, last in waiting), default=START_KEY.ts),
            min((b for name in self.members if (b := operators[name].next_boundary()) is not None), default=END_KEY.ts),
        )
        announced = {
            stream: _known(mergers, watermark, FeedbackPort(stream.target, stream.target_port))
            for stream in self.streams
        }
        if standing.over and all(key >= all_before(self.reach + stream.delay) for stream, key in announced.items()):
            return [(stream, END_KEY) for stream, key in announced.items() if key != END_KEY]
        turned = {stream: standing.turned(stream.delay) for stream in self.streams}
        return [(stream, key) for stream, key in turned.items() if key > announced[stream]]


def cycles(graph: Graph, members: Iterable[str]) -> list[Cycle]:
    """The cycles within a fragment; the host closes those that leave it."""
    selected = frozenset(members)
    inside = [stream for stream in graph.streams if stream.source in selected and stream.target in selected]
    after: dict[str, list[str]] = {name: [] for name in selected}
    for stream in inside:
        after[stream.source].append(stream.target)
    parts: list[Cycle] = []
    for stream in inside:
        if stream.feedback is None or any(stream in cycle.streams for cycle in parts):
            continue
        part = {name for name in _reached(after, stream.target) if stream.target in _reached(after, name)}
        if stream.source not in part:
            raise GraphError(
                f"feedback stream {stream.id} passes through operators outside of the fragment of its ends"
            )
        parts.append(
            Cycle(
                tuple(name for name in graph.order if name in part),
                tuple(s for s in inside if s.feedback is not None and {s.source, s.target} <= part),
                tuple(
                    FeedbackPort(s.target, s.target_port)
                    for s in graph.streams
                    if s.target in part and s.source not in part
                ),
            )
        )
    return parts


def delayed(batch: pa.RecordBatch, stream: StreamSpec, shape: KeyShape, feedback: KeyShape) -> pa.RecordBatch:
    """Rows of an operator as its feedback stream carries them: the same tuples, later."""
    keys = keys_of(batch, shape)
    columns = {name: batch.column(name) for name in (stream.feedback or pa.schema([])).names}
    return batch_of(columns | key_columns(keys._replace(ts=keys.ts + stream.delay), feedback))


def delayed_watermark(key: OrderKey, stream: StreamSpec) -> OrderKey:
    """The watermark of a feedback stream, from the output watermark of its producer."""
    return key if key in (START_KEY, END_KEY) else all_before(key.ts + stream.delay)


def carried(graph: Graph, stream: StreamSpec) -> pa.Schema:
    """The schema of a batch on a feedback stream."""
    return physical_schema(graph.stream_schema(stream), graph.stream_shape(stream))


def _reached(after: Mapping[str, list[str]], name: str) -> set[str]:
    """Operators on the paths from `name`; itself only if a path leads back."""
    seen: set[str] = set()
    stack = list(after[name])
    while stack:
        if (operator := stack.pop()) not in seen:
            seen.add(operator)
            stack += after[operator]
    return seen


def _known(mergers: Mapping[str, Merger], watermark: Mapping[str, OrderKey], port: FeedbackPort) -> OrderKey:
    merger = mergers.get(port.operator)
    return watermark[port.operator] if merger is None else merger.known(port.port)


def _waiting(
    name: str, mergers: Mapping[str, Merger], inboxes: Mapping[str, list[tuple[int, Event | Late]]]
) -> list[tuple[int, int]]:
    """First and last time of the items that wait for an operator, per batch."""
    batches = [event for _, event in inboxes[name] if isinstance(event, pa.RecordBatch)]
    spans = [(int(times[0]), int(times[-1])) for times in map(times_of, batches)]
    spans += [(event.at.ts, event.at.ts) for _, event in inboxes[name] if isinstance(event, Late)]
    return spans + (mergers[name].spans() if name in mergers else [])


def all_before(ts: int) -> OrderKey:
    """The watermark of a stream on which nothing earlier than `ts` will follow."""
    return END_KEY._replace(ts=ts - 1)
