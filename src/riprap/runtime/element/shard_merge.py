"""Merges the channels of one stream, which come from the producer's shards, by order key."""

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from riprap.engine.merger import Behind, Merger, MergerState, PortPunctuation
from riprap.graph.mark_keys import behind_trigger
from riprap.graph.order_keys import KeyShape, OrderKey
from riprap.graph.specs import Delay, DropDuplicates, Functor, Punctor, Scan, Source, Split
from riprap.operators.contract import Late, Punctuation
from riprap.operators.views import Views, concatenated
from riprap.runtime.layout import Layout, Pe

EngineEvent = Views | Punctuation | Late


class ShardMerge:
    """The channels of one stream into one element, by the producer's shard.

    `same_marks`: all shards pass a punctuation under the same key, so that several may be between rows of one trigger.
    """

    def __init__(self, stream: str, shape: KeyShape, schema: pa.Schema, shards: int, *, same_marks: bool) -> None:
        self._merger = Merger(
            (shape,) * shards, (schema,) * shards, (stream,) * shards, None, shards=True, same_marks=same_marks
        )
        self._shape, self._same_marks = shape, same_marks
        self.shards = shards
        self._waited = [True] * shards
        self.reached = self._merger.watermark  # nothing at or below this key will be emitted any more

    def put(self, shard: int, event: EngineEvent | None, watermark: OrderKey | None) -> list[EngineEvent]:
        """Accept an event or a watermark of a shard's channel; returns what may pass now, in order."""
        if isinstance(event, Late) and event.at <= self.reached:  # its place has passed
            return [event, *self.put(shard, None, watermark)]
        if event is not None:
            self._merger.put(shard, _stored(event))
        if watermark is not None:
            self._merger.advance(shard, watermark)
        return self._released()

    def wait_for(self, shard: int, waited: bool) -> list[EngineEvent]:
        self._waited[shard] = waited
        self._merger.wait_for(shard, waited)
        return self._released()

    @property
    def waited(self) -> bool:
        """Whether the merge waits for more: not if some shards are down and all others have ended."""
        ended = [self._merger.ended(shard) for shard in range(len(self._waited))]
        return all(ended) or any(waits and not end for waits, end in zip(self._waited, ended, strict=True))

    def place(self, mark: OrderKey) -> OrderKey:
        """Where a punctuation with this key passes."""
        return mark if self._same_marks else behind_trigger(mark)

    def known(self, shard: int) -> OrderKey:
        """The watermark of a shard."""
        return self._merger.known(shard)

    def spans(self) -> list[tuple[int, int]]:
        """First and last event time of everything that waits here."""
        return self._merger.spans()

    def snapshot(self) -> MergerState:
        return self._merger.snapshot()

    def restore(self, state: MergerState) -> None:
        self._merger.restore(state)
        self.reached = self._merger.watermark

    def _released(self) -> list[EngineEvent]:
        events = list(self._events())
        self.reached = max(self.reached, self._merger.watermark)
        return events

    def _events(self) -> Iterator[EngineEvent]:
        marks: list[PortPunctuation] = []  # with one place
        for item in self._merger.release(everything=not self.waited):
            if isinstance(item, PortPunctuation):
                if marks and self.place(marks[0].punctuation.key) != self.place(item.punctuation.key):
                    yield from _once(marks)
                    marks = []
                marks.append(item)
                self.reached = max(self.reached, self.place(item.punctuation.key))
            elif isinstance(item, Behind):
                yield from _once(marks)
                marks = []
                yield item.late._replace(event=Views.of(item.late.event))
            else:
                yield from _once(marks)
                marks = []
                rows = _interleaved(item.batches, item.ports)
                self.reached = max(self.reached, rows.last_key(self._shape))
                yield rows
        yield from _once(marks)


def _stored(event: EngineEvent) -> pa.RecordBatch | Punctuation | Late:
    if isinstance(event, Late):
        return event._replace(event=event.event.batch())
    return event.batch() if isinstance(event, Views) else event


def _once(marks: Sequence[PortPunctuation]) -> list[Punctuation]:
    """Each shard passes on a punctuation that was sent to all of them; or one shard created it."""
    if not marks:
        return []
    last = max(mark.punctuation.key for mark in marks)
    return [Punctuation(last)] * max(Counter(mark.port for mark in marks).values())


def _interleaved(batches: Sequence[pa.RecordBatch], shards: np.ndarray) -> Views:
    """Rows of several batches, the k-th from batch `shards[k]`."""
    full = [Views.of(batch) for batch in batches if batch.num_rows]
    if len(full) == 1:
        return full[0]
    rows = np.empty(len(shards), np.int64)
    rows[np.argsort(shards, kind="stable")] = np.arange(len(shards))
    return concatenated(full).take(rows)


_KEEP_KEYS = (Source, Functor, Punctor, Split, Delay, DropDuplicates, Scan)


def _same_marks(layout: Layout, name: str) -> bool:
    """Whether all sharded operators up to here preserve the keys of punctuations; others number them per shard."""
    if all(pe.fragment.shards == 1 for pe in layout.hosting(name)):
        return True
    return isinstance(layout.graph[name], _KEEP_KEYS) and all(
        _same_marks(layout, upstream) for upstream in layout.graph.upstream(name)
    )


def shard_merges(layout: Layout, pe: Pe) -> dict[str, ShardMerge]:
    """The merges before the engine, for streams from several shards."""
    channels = Counter(channel.stream for channel in layout.inputs(pe))
    return {
        link.stream.id: ShardMerge(
            link.stream.id,
            layout.graph.stream_shape(link.stream),
            layout.schema(link.channels()[0]),
            channels[link.stream.id],
            same_marks=_same_marks(layout, link.stream.source),
        )
        for link in layout.links
        if link.target == pe.fragment and channels[link.stream.id] > 1
    }
