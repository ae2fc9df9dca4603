"""The order-key merge in front of an operator with several input ports.

Each port is a queue of rows and punctuations. A row may pass when the watermarks show that no earlier row can arrive on
another port. So the order in which rows pass depends only on their keys (and on the jitter), not on batches.

Rows are compared by a vector of numbers, their *order*: the order key; only `_seq` if that is equivalent; with a
jitter, preceded by the arrival. A punctuation has the order of the row before it, by its key or in the queue, and
passes right after that row. A late item (`Late`) has the order of its `at`, or of the item before it in the queue, and
passes after all rows of that order. So does a punctuation before a tuple: its key sorts after all rows of the previous
trigger.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from riprap.base.errors import UsageError
from riprap.engine.jitter import Jitter
from riprap.graph.mark_keys import behind_trigger, is_behind_trigger, marked_alike, watermark_of_row
from riprap.graph.order_keys import END_KEY, START_KEY, KeyShape, OrderKey, just_before
from riprap.operators import views
from riprap.operators.columns import Keys, batch_of, concatenated, keys_of
from riprap.operators.contract import Late, Punctuation
from riprap.operators.kernels.merging import merge_many, merge_two, running_greatest, running_maximum
from riprap.operators.views import Views

Order = tuple[int, ...]
_FIRST = np.iinfo(np.int64).min
_LAST = np.iinfo(np.int64).max


class MergedRows(NamedTuple):
    """Rows of all ports, for `Operator.process_merged`; column views if those were put in."""

    batches: list[Any]
    ports: np.ndarray


class PortPunctuation(NamedTuple):
    """A punctuation of one port."""

    port: int
    punctuation: Punctuation


class Behind(NamedTuple):
    """A late item of one port."""

    port: int
    late: Late


class _Segment(NamedTuple):
    """Rows that wait on one port; `order` has one ascending vector per row."""

    batch: Any  # a record batch or column views; in a snapshot, a record batch
    order: np.ndarray


class _Cut(NamedTuple):
    """A punctuation that waits on one port."""

    punctuation: Punctuation
    order: Order

    @property
    def behind(self) -> OrderKey:
        """The key, if it sorts after all rows of its trigger (its order may be that of a single port's row)."""
        key = self.punctuation.key
        return key if is_behind_trigger(key) else START_KEY


class _Late(NamedTuple):
    """A late item that waits on one port."""

    late: Late
    order: Order


_Item = _Segment | _Cut | _Late


@dataclass(frozen=True)
class MergerState:
    """The contents of a merger, for a snapshot of the engine."""

    queues: tuple[tuple[_Item, ...], ...]
    watermark: tuple[OrderKey, ...]
    latest: tuple[int, ...]
    last_order: tuple[Order, ...]

    def batches(self) -> list[tuple[int, pa.RecordBatch]]:
        """The waiting rows, with their ports."""
        return [(port, item.batch) for port, q in enumerate(self.queues) for item in q if isinstance(item, _Segment)]

    def marks(self) -> list[tuple[int, Punctuation]]:
        """The waiting punctuations, with their ports."""
        return [(port, item.punctuation) for port, q in enumerate(self.queues) for item in q if isinstance(item, _Cut)]

    def emptied(self, port: int, watermark: OrderKey) -> "MergerState":
        """Without the items of a port, which will be sent again; its watermark is at most `watermark` then."""
        queues, known, latest, last = list(self.queues), list(self.watermark), list(self.latest), list(self.last_order)
        queues[port], latest[port], last[port] = (), _FIRST, (_FIRST,) * len(self.last_order[port])
        known[port] = min(known[port], watermark)
        return MergerState(tuple(queues), tuple(known), tuple(latest), tuple(last))

    def widened(self, ports: int) -> "MergerState":
        """With further ports, which are empty and have no watermark."""
        more, width = ports - len(self.queues), len(self.last_order[0])
        return MergerState(
            (*self.queues, *((),) * more),
            (*self.watermark, *(START_KEY,) * more),
            (*self.latest, *(_FIRST,) * more),
            (*self.last_order, *((_FIRST,) * width,) * more),
        )

    @classmethod
    def of(
        cls,
        queues: Iterable[Iterable[tuple[pa.RecordBatch, np.ndarray] | tuple[Punctuation | Late, Order]]],
        watermark: Iterable[OrderKey],
        latest: Iterable[int],
        last_order: Iterable[Order],
    ) -> "MergerState":
        """From the plain data of a checkpoint: each port's rows or punctuations, with their order."""

        def item(event: pa.RecordBatch | Punctuation | Late, order: np.ndarray | Order) -> _Item:
            if isinstance(event, Late):
                return _Late(event, tuple(order))
            return _Cut(event, tuple(order)) if isinstance(event, Punctuation) else _Segment(event, np.asarray(order))

        items = tuple(tuple(item(event, order) for event, order in queue) for queue in queues)
        return cls(items, tuple(watermark), tuple(latest), tuple(last_order))


class Merger:
    """The queues of one operator's ports. `streams`: their names, for the jitter.

    `shards`: the ports are shards of one stream, and a punctuation arrives on one or more of them. If all shards use
    the same key for it (`same_marks`), it is ordered by that key; otherwise each shard uses the key of one of its rows,
    and the punctuation is ordered after all rows of its trigger, on any shard.
    """

    def __init__(
        self,
        shapes: tuple[KeyShape, ...],
        schemas: tuple[pa.Schema, ...],
        streams: tuple[str, ...],
        jitter: Jitter | None,
        *,
        shards: bool = False,
        same_marks: bool = False,
    ) -> None:
        self._shapes, self._streams, self._jitter, self._shards = shapes, streams, jitter, shards
        self._behind = shards and not same_marks  # punctuations are ordered after all rows of their trigger
        one_source = len({shape.src for shape in shapes}) == 1 and shapes[0].src is not None and shapes[0].src >= 0
        # A punctuation's key may have another source rank than the tuples' keys: its `_seq` does not order it.
        self._by_seq = one_source and not any(shape.n or not marked_alike(shape) for shape in shapes)
        if jitter is not None and jitter.tuples is not None and not one_source:
            raise UsageError(
                f"a jitter in tuples needs streams of one source, and {', '.join(streams)} have several; use time= "
                "instead"
            )
        self._width = (1 if self._by_seq else 4) + (jitter is not None)
        self._nothing = [pa.RecordBatch.from_pylist([], schema=schema) for schema in schemas]
        self.restore(
            MergerState(
                queues=((),) * len(shapes),
                watermark=(START_KEY,) * len(shapes),
                latest=(_FIRST,) * len(shapes),
                last_order=((_FIRST,) * self._width,) * len(shapes),
            )
        )

    def snapshot(self) -> MergerState:
        queues = tuple(tuple(map(_saved, queue)) for queue in self._queues)
        return MergerState(queues, tuple(self._watermark), tuple(self._latest), tuple(self._last_order))

    def restore(self, state: MergerState) -> None:
        self._queues = [list(queue) for queue in state.queues]
        self._watermark = list(state.watermark)
        self._latest = list(state.latest)  # with a jitter: greatest arrival so far on each port
        self._last_order = list(state.last_order)  # of the latest row on each port
        self._waited = [True] * len(self._shapes)  # whether the merge waits for each port
        self._passed = START_KEY  # no item at or below this key waits

    # In ---------------------------------------------------------------------------------------------------------------

    def put(self, port: int, event: pa.RecordBatch | Views | Punctuation | Late) -> None:
        """Add to a port's queue."""
        if isinstance(event, Late):
            place = (self._seq_after(event.at) - 1,) if self._by_seq else tuple(event.at)
            self._last_order[port] = max(self._last_order[port], place)
            self._queues[port].append(_Late(event, self._last_order[port]))
        elif isinstance(event, Punctuation):
            # The tuple before it may have been dropped or renumbered upstream: the later of the two orders counts.
            order = self._order(port, _keys_of_one(behind_trigger(event.key) if self._behind else event.key))
            self._last_order[port] = max(self._last_order[port], tuple(order[0].tolist()))
            self._queues[port].append(_Cut(event, self._last_order[port]))
        elif size := _size(event):
            keys = keys_of(event, self._shapes[port])
            order = self._order(port, keys)
            self._queues[port].append(_Segment(event, order))
            self._last_order[port] = tuple(order[-1].tolist())
            self.advance(port, watermark_of_row(keys.at(size - 1)))

    def advance(self, port: int, key: OrderKey) -> None:
        """Announce that nothing at or below `key` will be put on this port."""
        self._watermark[port] = max(self._watermark[port], key)

    def wait_for(self, port: int, waited: bool) -> None:
        """Set whether rows of other ports wait for this one. Rows of an unawaited port pass when they arrive."""
        self._waited[port] = waited

    def known(self, port: int) -> OrderKey:
        """Nothing at or below this key will be put on this port."""
        return self._watermark[port]

    def spans(self) -> list[tuple[int, int]]:
        """First and last `_ts` of every waiting item."""
        spans = []
        for port, queue in enumerate(self._queues):
            for item in queue:
                if isinstance(item, _Segment):
                    times = keys_of(item.batch, self._shapes[port]).ts
                    spans.append((int(times[0]), int(times[-1])))
                else:
                    spans.append((_place(item).ts,) * 2)
        return spans

    def waits_for(self, port: int) -> bool:
        return self._waited[port]

    def ended(self, port: int) -> bool:
        return self._watermark[port] == END_KEY

    def _reached(self) -> OrderKey:
        """Nothing at or below this key will be put on an awaited port."""
        least = min(self._watermark)
        if all(self._waited) or least == END_KEY:
            return least
        key = min((k for k, waited in zip(self._watermark, self._waited, strict=True) if waited), default=START_KEY)
        # If all awaited ports have ended, the others have not.
        return self._greatest() if key == END_KEY else key

    def _greatest(self) -> OrderKey:
        """The greatest key of all items that wait or have passed."""
        keys = [self._last(port, item) for port, queue in enumerate(self._queues) for item in queue]
        return max([self._passed, *keys])

    def _last(self, port: int, item: _Item) -> OrderKey:
        if not isinstance(item, _Segment):
            return _place(item)
        return keys_of(item.batch.slice(_size(item.batch) - 1), self._shapes[port]).at(0)

    def _order(self, port: int, keys: Keys) -> np.ndarray:
        count = len(keys.ts)
        if self._by_seq:
            parts = [keys.seq]
        else:
            parts = [keys.ts, np.broadcast_to(keys.src, count), keys.seq, np.broadcast_to(keys.n, count)]
        if self._jitter is not None:
            arrivals = self._jitter.arrivals(self._streams[port], keys)
            in_order = np.empty(count, np.int64)
            self._latest[port] = int(running_maximum(arrivals, self._latest[port], in_order))
            order = np.stack([in_order, *parts], axis=1)
            # Downstream of another jitter keys may decrease; rows that arrived together stay in arrival order.
            running_greatest(order, np.array(self._last_order[port]))
            return order
        return parts[0].reshape(-1, 1) if len(parts) == 1 else np.stack(parts, axis=1)

    # Out --------------------------------------------------------------------------------------------------------------

    def release(self, *, everything: bool = False) -> Iterator[MergedRows | PortPunctuation | Behind]:
        """All items that may pass now, in order; `everything`: all items, because no port will receive more."""
        if not all(self._waited):
            self._passed = max(self._passed, self._reached())
        limit = (_LAST,) * self._width if everything else self._limit()
        reached = END_KEY if everything else self._reached()
        while True:
            heads = [next((i for i in q if not isinstance(i, _Segment)), None) for q in self._queues]
            cuts = [
                (item.order, item.late.at if isinstance(item, _Late) else item.behind, port)
                for port, item in enumerate(heads)
                if item is not None and item.order < limit and not (isinstance(item, _Late) and item.late.at > reached)
            ]
            # Rows up to the first punctuation that may pass (ties: lower ports first); then the punctuation.
            first = min(cuts) if cuts else None
            rows = self._take(first, limit)
            if rows is not None:
                yield rows
            if first is None:
                return
            item = self._queues[first[2]].pop(0)
            assert not isinstance(item, _Segment)
            yield PortPunctuation(first[2], item.punctuation) if isinstance(item, _Cut) else Behind(first[2], item.late)

    def _limit(self) -> Order:
        """Rows whose order is below this may pass: nothing that is still to come sorts before them."""
        key = self._reached()
        if self._jitter is not None:
            # Rows still to come have a greater `_seq` (or at least this `_ts`), and arrive no earlier than that.
            return (key.seq + 1,) if self._jitter.tuples is not None else (key.ts,)
        return (self._seq_after(key),) if self._by_seq else (*key[:3], key.n + 1)

    def _seq_after(self, key: OrderKey) -> int:
        """The least `_seq` that is not known to be at or below `key`. `key` may be the watermark of another source, or
        of a source that knows only the time of its next row.
        """
        if (key.src == self._shapes[0].src and key.seq < END_KEY.seq) or key in (START_KEY, END_KEY):
            return key.seq + 1
        greatest = _FIRST
        for port, queue in enumerate(self._queues):
            for item in queue:
                if isinstance(item, _Late):
                    greatest = max(greatest, item.order[0]) if item.late.at <= key else greatest
                    continue
                keys = _keys_of_one(item.punctuation.key) if isinstance(item, _Cut) else self._keys(port, item)
                count = bisect_right(range(len(keys.ts)), key, key=keys.at)
                if count:
                    greatest = max(greatest, int(keys.seq[count - 1]))
        return greatest + 1

    def _keys(self, port: int, segment: _Segment) -> Keys:
        return keys_of(segment.batch, self._shapes[port])

    def _take(self, cut: tuple[Order, OrderKey, int] | None, limit: Order) -> MergedRows | None:
        batches, orders = [], []
        for port, queue in enumerate(self._queues):
            taken: list[_Segment] = []
            while queue and isinstance(queue[0], _Segment):
                segment = queue[0]
                count = _below(segment.order, limit)
                if cut is not None:
                    count = _below(
                        segment.order, cut[0], inclusive=self._shards or cut[1] > START_KEY or port <= cut[2]
                    )
                if count == 0:
                    break
                if count == len(segment.order):
                    taken.append(segment)
                    queue.pop(0)
                    continue
                taken.append(_Segment(segment.batch.slice(0, count), segment.order[:count]))
                queue[0] = _Segment(segment.batch.slice(count), segment.order[count:])
                break
            batches.append(_joined([s.batch for s in taken]) if taken else self._nothing[port])
            orders.append([s.order for s in taken])
        if not any(orders):
            return None
        return MergedRows(batches, self._merged(orders))

    def _merged(self, orders: list[list[np.ndarray]]) -> np.ndarray:
        empty = np.empty((0, self._width), np.int64)
        joined = [np.concatenate(parts) if len(parts) > 1 else parts[0] if parts else empty for parts in orders]
        if self._width == 1 and len(joined) == 2:
            return merge_two(np.ascontiguousarray(joined[0][:, 0]), np.ascontiguousarray(joined[1][:, 0]))
        starts = np.cumsum([0, *(len(order) for order in joined)])
        return merge_many(np.concatenate(joined), starts)

    @property
    def watermark(self) -> OrderKey:
        """Nothing at or below this key will pass, except from ports that were not awaited."""
        key = self._reached()
        if self._jitter is not None:
            for port, queue in enumerate(self._queues):
                for item in queue:
                    key = min(key, just_before(self._least(port, item)))
        return min(key, self._behind_marks()) if self._shards else key

    def _behind_marks(self) -> OrderKey:
        """Nothing at or below this key waits behind a punctuation. Rows of its trigger may follow it if the trigger
        arrived on two channels: they wait with it, although nothing can precede them."""
        least = END_KEY
        for port, queue in enumerate(self._queues):
            cut = next((at for at, item in enumerate(queue) if isinstance(item, _Cut)), len(queue))
            rows = next((item for item in queue[cut:] if isinstance(item, _Segment)), None)
            if rows is not None:
                least = min(least, just_before(self._keys(port, rows).at(0)))
        return least

    def _least(self, port: int, item: _Item) -> OrderKey:
        """The least key of an item: downstream of another jitter, keys need not ascend."""
        if not isinstance(item, _Segment):
            return _place(item)
        keys = keys_of(item.batch, self._shapes[port])
        return keys.at(int(np.lexsort(tuple(np.broadcast_to(part, len(keys.ts)) for part in reversed(keys)))[0]))


def _place(item: _Cut | _Late) -> OrderKey:
    return item.punctuation.key if isinstance(item, _Cut) else item.late.at


def _below(order: np.ndarray, limit: Order, *, inclusive: bool = False) -> int:
    """The number of ascending rows below `limit` (`inclusive`: or equal to it)."""
    if len(limit) == 1:
        return int(np.searchsorted(order[:, 0], limit[0], side="right" if inclusive else "left"))
    find = bisect_right if inclusive else bisect_left
    return find(order, limit, key=lambda row: tuple(row.tolist()))


def _keys_of_one(key: OrderKey) -> Keys:
    return Keys(*(np.array([part], np.int64) for part in key))


def _size(batch: pa.RecordBatch | Views) -> int:
    return batch.rows if isinstance(batch, Views) else batch.num_rows


def _saved(item: _Item) -> _Item:
    if isinstance(item, _Segment) and isinstance(item.batch, Views):
        return item._replace(batch=item.batch.batch())
    return item


def _joined(batches: list[Any]) -> Any:
    """Concatenated batches of one stream; each may encode text differently."""
    if len(batches) == 1:
        return batches[0]
    viewed = next((batch for batch in batches if isinstance(batch, Views)), None)
    if viewed is not None:  # restored record batches may precede it
        return views.concatenated([b if isinstance(b, Views) else Views.of(b).select(viewed.names) for b in batches])
    names = batches[0].schema.names
    return batch_of({name: concatenated([batch.column(name) for batch in batches]) for name in names})
