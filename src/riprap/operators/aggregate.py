"""The aggregate operator. Semantics: `riprap.graph.specs.Aggregate`; functions: `riprap.graph.aggregates`."""

from collections.abc import Mapping
from typing import Any, NamedTuple, cast

import numpy as np
import pyarrow as pa

from riprap.expressions import Expression
from riprap.graph.aggregates import BOUNDS, AggregateCall
from riprap.graph.mark_keys import behind_boundary, behind_trigger, still_open
from riprap.graph.order_keys import KEY_COLUMNS, TIMER, TS_TYPE, OrderKey
from riprap.graph.specs import Aggregate
from riprap.graph.windows import Count, Punctuated, Session, Time
from riprap.operators.columns import Keys, WordColumn, batch_of, key_columns, take, times_of, to_words
from riprap.operators.contract import Channel, Emission, Punctuation, Setting
from riprap.operators.groups import GroupTable
from riprap.operators.kernels.rings import SMALLEST, insert_all
from riprap.operators.kernels.sessions import end_sessions
from riprap.operators.kernels.triggers import by_boundary, count_by_count, time_by_count
from riprap.operators.repeating import of_count, stamped
from riprap.operators.row_functions import WindowFunction, Windows
from riprap.operators.row_store import RowStore
from riprap.operators.tracking import Touched
from riprap.operators.windowed import WindowedOperator

_NONE, _FOREVER = np.iinfo(np.int64).min, np.iinfo(np.int64).max
_HASH_BITS = np.uint64(2**63 - 1)  # the bits of a group's hash that become its `_n`


class _Emitted(NamedTuple):
    """Windows that emit, in order: the row of the batch, the group, and the insertion indices [lo, hi)."""

    rows: np.ndarray
    groups: np.ndarray
    lo: np.ndarray
    hi: np.ndarray


class RunningSums:
    """Running sums per group that a step maintains. They are no state: they follow from the windows.

    `ints`: where the window of the sums starts, and whether they belong to this group's window; then, per argument,
    the number of values that are not null, their sum, and the sum of their upper halves; for floats, how many are NaN
    or +inf, and how many are NaN or -inf. `floats`: per argument the sum of the finite values, its error, and what
    was lost.
    """

    def __init__(self, arguments: int) -> None:
        self.ints = np.zeros((64, 2 + 3 * arguments), np.int64)
        self.floats = np.zeros((64, max(1, 3 * arguments)))

    def widen(self, groups: int) -> bool:
        """Make room for this many groups; return whether the arrays were replaced."""
        more = groups - len(self.ints)
        if more > 0:
            self.ints = np.concatenate([self.ints, np.zeros((more, self.ints.shape[1]), np.int64)])
            self.floats = np.concatenate([self.floats, np.zeros((more, self.floats.shape[1]))])
        return more > 0


class AggregateOperator(WindowedOperator):
    new_rings = 0  # rings that one row of a piece's entry can enlarge
    largest_ring = SMALLEST

    def __init__(self, setting: Setting) -> None:
        self.spec = cast(Aggregate, setting.spec)
        schema = setting.schemas[0]
        arguments: dict[Expression, str] = {}  # each distinct argument is stored once, under this name
        for call in self.spec.calls:
            for argument in call.arguments:
                arguments.setdefault(argument, f"_value{len(arguments)}")
        self.arguments = [(name, self.spec.bind(argument, schema)) for argument, name in arguments.items()]
        self._named = arguments
        self._functions = [
            WindowFunction(call, tuple(arguments[each] for each in call.arguments), self.spec)
            for call in self.spec.calls
            if call.function not in BOUNDS
        ]
        self._bounds = {call.name: call.function for call in self.spec.calls if call.function in BOUNDS}
        self._output = [name for name in setting.output_schemas[0].names if name in setting.wanted[0]]
        summed = [self.column_of(call) for call in self.spec.calls if call.function in ("sum", "avg", "count")]
        self.places = {name: place for place, name in enumerate(dict.fromkeys(filter(None, summed)))}  # of running sums
        super().__init__(setting)

    def column_of(self, call: AggregateCall) -> str | None:
        """The stored column with the argument of a call."""
        return self._named[call.argument] if call.argument is not None else None

    def nullable(self, column: str) -> bool:
        """Whether a stored column can have nulls."""
        return next(bound.nullable for name, bound in self.arguments if name == column)

    def _fresh(self) -> None:
        schema, spec = self.setting.schemas[0], self.spec
        self.groups = GroupTable([schema.field(name).type for name in spec.by], self.pool)
        fields = [(name, bound.type) for name, bound in self.arguments]
        self.stores = {
            0: RowStore(
                self.groups,
                fields,
                self.pool,
                stamped=isinstance(spec.window, Time | Session),
                period=spec.every.size if isinstance(spec.every, Count) and not spec.tumbling else 1,
                emits_by_time=isinstance(spec.every, Time) and not isinstance(spec.window, Time),
                ring=self.ring,
            )
        }
        self._boundary = _NONE  # the next boundary to emit at, where time triggers
        self.now = np.full(1, _NONE)  # greatest `_ts` so far, for time windows
        self._earliest = np.full(1, _NONE)  # no open session ends before it
        self.running = RunningSums(len(self.places))
        self.oldest = _NONE  # while a step processes late rows: it drops rows at or before this time

    def make_room(self) -> int:
        room = super().make_room()
        if self.new_rings:
            store = self.stores[0]
            store.widen(room)
            self.largest_ring = max(SMALLEST, int(store.cap.max()))
            store.free(8 * self.new_rings * self.largest_ring)
            if self.running.widen(room):
                self.pool.moves += 1
        return room

    # Rows -------------------------------------------------------------------------------------------------------------

    def process(self, channel: Channel, batch: pa.RecordBatch) -> list[Emission]:
        if self.repeating:
            assert self.repetition is not None
            (batch,) = self.repetition.consume([batch])
        self.version += batch.num_rows
        if batch.num_rows == 0:
            return []
        groups = self.groups_of(0, batch)
        return self.take(groups, times_of(batch), self.words_of(0, batch), batch)

    def words_of(self, port: int, batch: pa.RecordBatch) -> dict[str, WordColumn]:
        return {name: to_words(bound.evaluate(batch), self.pool) for name, bound in self.arguments}

    def take(
        self, groups: np.ndarray, ts: np.ndarray, words: Mapping[str, WordColumn], batch: pa.RecordBatch | None = None
    ) -> list[Emission]:
        """Process rows, given the group, time and arguments of each. Groups that emit at a tuple read other columns
        from `batch`.
        """
        count, store, spec = len(groups), self.stores[0], self.spec
        store.reserve(groups)
        touched = self.tracker.before(groups) if self.tracker is not None else None
        positions = np.empty(count, np.int64)
        boundaries = None
        if isinstance(spec.every, Time | Session):
            emitted, boundaries = self._by_time(groups, ts, _NONE, positions)
        elif isinstance(spec.every, Count):
            emitted = self._by_count(groups, ts, positions)
        else:
            emitted = None
            positions = insert_all(groups, store.base, store.cap, store.tail)
        for name, _ in self.arguments:
            store.write(name, positions, words[name])
        if touched is not None:
            self._track(touched, groups, ts, emitted)
        if emitted is None or not len(emitted.groups):
            emissions = []
        elif boundaries is not None:
            emissions = [self._at_boundaries(emitted, boundaries, triggered_by_rows=True)]
        else:
            assert batch is not None
            emissions = [self._at_rows(emitted, batch)]
        self.tidy(count)
        return emissions

    def late(self, channel: Channel, batch: pa.RecordBatch, at: OrderKey) -> list[Emission]:
        return self.process(channel, batch.filter(pa.array(self.open_to(times_of(batch), at))))

    def open_to(self, ts: np.ndarray, at: OrderKey) -> np.ndarray:
        """Which late rows, arriving at key `at`, belong to a window that is still open."""
        window, every = self.spec.window, self.spec.every
        if isinstance(window, Time | Session) or isinstance(every, Time):
            self.now[0] = max(self.now[0], at.ts)  # a late row counts as of now
        now = int(self.now[0])
        if isinstance(window, Time) and isinstance(every, Time):
            next_one = (self._number(now) + 1) * every.size + every.offset
            boundary = self._boundary if self._boundary != _NONE else next_one
            return ts >= boundary - window.size
        if isinstance(window, Time | Session):
            return ts > now - (window.closes if isinstance(window, Session) else window.size)
        return np.ones(len(ts), bool)

    def step_late(self, at: OrderKey | None) -> None:
        """Tell the step that late rows follow, at this key; None: no more of them follow."""
        if at is not None and isinstance(self.spec.window, Time):
            self.now[0] = max(self.now[0], at.ts)
            self.oldest = int(self.now[0]) - self.spec.window.size
        else:
            self.oldest = _NONE

    def groups_of(self, port: int, batch: pa.RecordBatch) -> np.ndarray:
        if not self.spec.by:
            return np.zeros(batch.num_rows, np.int64)
        return self.groups.groups([batch.column(name) for name in self.spec.by])

    def _track(self, touched: Touched, groups: np.ndarray, ts: np.ndarray, emitted: _Emitted | None) -> None:
        assert self.tracker is not None
        if self.spec.tumbling:
            self.tracker.tumbled(touched, groups, ts, emitted.groups if emitted is not None else np.empty(0, np.int64))
        else:
            self.tracker.slid(touched, ts)

    def _by_count(self, groups: np.ndarray, ts: np.ndarray, positions: np.ndarray) -> _Emitted:
        store, spec = self.stores[0], self.spec
        every = cast(Count, spec.every).size
        rings = (store.base, store.cap, store.head, store.tail)
        if isinstance(spec.window, Time):
            return _Emitted(
                *time_by_count(groups, ts, *rings, store.stamps, spec.window.size, every, self.now, positions)
            )
        size = cast(Count, spec.window).size
        return _Emitted(*count_by_count(groups, *rings, size, every, spec.tumbling, spec.partial, positions))

    def _by_time(
        self, groups: np.ndarray, ts: np.ndarray, until: int, positions: np.ndarray
    ) -> tuple[_Emitted, np.ndarray]:
        """Insert rows and emit at boundaries; ordered by boundary, then by the groups' hash."""
        store, spec = self.stores[0], self.spec
        known = min(self.groups.count, len(store.base))
        if isinstance(spec.window, Session):
            out = end_sessions(
                groups, ts, until, store.base, store.cap, store.head, store.tail, store.stamps, known,
                spec.window.closes, self.now, self._earliest, positions,
            )  # fmt: skip
        else:
            by_time = isinstance(spec.window, Time)
            window, every = cast(Time | Count, spec.window).size, cast(Time, spec.every)
            out, boundary = by_boundary(
                groups, ts, until, store.base, store.cap, store.head, store.tail, store.emitted_tail, store.stamps,
                known, window, every.size, every.offset, by_time, self._boundary, self.now, positions,
            )  # fmt: skip
            self._boundary = int(boundary)
        out = out[np.lexsort((self.groups.hashes[out[:, 1]] & _HASH_BITS, out[:, 4]))]
        return _Emitted(*(np.ascontiguousarray(out[:, j]) for j in range(4))), out[:, 4]

    # Emitting --------------------------------------------------------------------------------------------------------

    def _at_rows(self, emitted: _Emitted, batch: pa.RecordBatch) -> Emission:
        """Groups that emit at a tuple: the tuple has the group's key and the order key."""
        passed = [name for name in self.spec.by if name in self.setting.wanted[0]]
        keys = [name for name in KEY_COLUMNS if name in batch.schema.names]
        trigger = take(batch.select([*passed, *keys]), emitted.rows)
        columns = self._columns(emitted, {name: trigger.column(name) for name in passed})
        columns |= {name: trigger.column(name) for name in keys}
        return Emission(0, batch_of(columns), emitted.rows)

    def _at_boundaries(self, emitted: _Emitted, boundaries: np.ndarray, *, triggered_by_rows: bool) -> Emission:
        boundaries = np.ascontiguousarray(boundaries)
        number = boundaries if isinstance(self.spec.every, Session) else self._number(boundaries)
        keys = Keys(boundaries, np.array([TIMER], np.int64), number, self._group_numbers(emitted.groups))
        return self._by_group(
            emitted, keys, emitted.rows if triggered_by_rows else None, self._ends(emitted, boundaries)
        )

    def _ends(self, emitted: _Emitted, boundaries: np.ndarray) -> dict[str, pa.Array]:
        """The columns with the bounds of windows that emit at boundaries."""
        if not self._bounds:
            return {}
        if isinstance(self.spec.window, Session):
            store = self.stores[0]
            first = store.base[emitted.groups] + (emitted.lo & (store.cap[emitted.groups] - 1))
            bounds = {"window_start": store.stamps[first], "window_end": boundaries - 1}
        else:
            bounds = {"window_start": boundaries - cast(Time, self.spec.window).size, "window_end": boundaries}
        return {name: pa.array(bounds[function]).cast(TS_TYPE) for name, function in self._bounds.items()}

    def _by_group(
        self, emitted: _Emitted, keys: Keys, triggers: np.ndarray | None, more: Mapping[str, pa.Array] | None = None
    ) -> Emission:
        """Groups that emit without a tuple: their key comes from the group table."""
        own = self.groups.columns(emitted.groups) if self.spec.by else []
        by = dict(zip(self.spec.by, own, strict=True))
        by = {name: by[name] for name in self.spec.by if name in self.setting.wanted[0]}
        columns = self._columns(emitted, by | (dict(more) if more is not None else {}))
        return Emission(0, batch_of(columns | key_columns(keys, self.setting.output_shapes[0])), triggers)

    def _group_numbers(self, groups: np.ndarray) -> np.ndarray:
        return (self.groups.hashes[groups] & _HASH_BITS).view(np.int64)

    def _columns(self, emitted: _Emitted, by: dict[str, pa.Array]) -> dict[str, pa.Array]:
        windows = Windows(self.stores[0], emitted.groups, emitted.lo, emitted.hi, overlapping=not self.spec.tumbling)
        for function in self._functions:
            if function.name in self.setting.wanted[0]:
                by[function.name] = function.over(windows)
        return {name: by[name] for name in self._output}

    # Control ----------------------------------------------------------------------------------------------------------

    def punctuate(self, channel: Channel, punctuation: Punctuation) -> list[Emission]:
        if self.repetition is not None and self.repetition.punctuated(0):
            return []
        if self.tracker is not None:
            self.tracker.marks[0] += 1
        if not isinstance(self.spec.window, Punctuated):
            return [Emission(0, Punctuation(self._behind_boundary(punctuation.key)))]
        store = self.stores[0]
        groups = store.live()
        if not len(groups):  # behind all groups: another punctuation with the same trigger may have made them emit
            return [Emission(0, Punctuation(behind_trigger(punctuation.key)))]
        groups = groups[np.argsort(self.groups.hashes[groups] & _HASH_BITS, kind="stable")]
        emitted = _Emitted(np.empty(0, np.int64), groups, store.head[groups], store.tail[groups])
        key = punctuation.key
        ts, src, seq = (np.full(len(groups), part, np.int64) for part in key[:3])
        emission = self._by_group(emitted, Keys(ts, src, seq, self._group_numbers(groups)), None)
        store.head[groups] = store.tail[groups]
        self.version += 1
        if self.tracker is not None:
            self.tracker.close(groups)
        last = key._replace(n=int(self._group_numbers(groups[-1:])[0]))
        return [emission, Emission(0, Punctuation(last))]

    def _behind_boundary(self, key: OrderKey) -> OrderKey:
        """A key behind all groups that emitted at the boundary that caused a punctuation, if one did."""
        every = self.spec.every
        if not isinstance(every, Time | Session):
            return key
        number, remainder = (key.ts, 0) if isinstance(every, Session) else divmod(key.ts - every.offset, every.size)
        return key if remainder else behind_boundary(key, number, int(_HASH_BITS))

    def watermark(self, key: OrderKey) -> list[Emission]:
        return self._emit_until(key.ts) if self._waits_for(key.ts) else []

    def end(self) -> list[Emission]:
        return self._emit_until(_FOREVER) if self._waits_for(_FOREVER) else []

    def _number(self, boundaries: Any) -> Any:
        """The number of a boundary, which rises with time."""
        every = cast(Time, self.spec.every)
        return (boundaries - every.offset) // every.size

    def _waits_for(self, time: int) -> bool:
        """Whether a window may emit at or before a time."""
        if self.repeating:
            return False
        if isinstance(self.spec.every, Session):
            return bool(self._earliest[0] <= time) and self.groups.count > 0
        return isinstance(self.spec.every, Time) and self._boundary != _NONE and self._boundary <= time

    def _emit_until(self, until: int) -> list[Emission]:
        nothing = np.empty(0, np.int64)
        emitted, boundaries = self._by_time(nothing, nothing, until, nothing)
        if self.tracker is not None and self.spec.tumbling:
            self.tracker.close(emitted.groups)
        if not len(emitted.groups):
            return []
        self.version += 1
        return [self._at_boundaries(emitted, boundaries, triggered_by_rows=False)]

    def next_boundary(self) -> int | None:
        if isinstance(self.spec.every, Session):
            store, live = self.stores[0], self.stores[0].live()
            last = store.base[live] + ((store.tail[live] - 1) & (store.cap[live] - 1))
            return int(store.stamps[last].min()) + self.spec.every.closes if len(live) else None
        waits = isinstance(self.spec.every, Time) and self._boundary != _NONE and self.size() > 0
        return self._boundary if waits else None

    def output_watermark(self, key: OrderKey) -> OrderKey:
        return still_open(key) if isinstance(self.spec.window, Punctuated) else key

    # The past ---------------------------------------------------------------------------------------------------------

    @property
    def emission_period(self) -> int:  # type: ignore[override]
        return self.spec.every.size if isinstance(self.spec.every, Time) else 0

    def insert_past(
        self, port: int, words: Mapping[str, WordColumn], groups: np.ndarray, ts: np.ndarray, number: np.ndarray
    ) -> None:
        self.stores[0].insert(groups, words, stamped(self.spec.window, ts, number), of_count(self.spec.window))

    # State ------------------------------------------------------------------------------------------------------------

    def settle(self, groups: np.ndarray | None = None) -> None:
        if not isinstance(self.spec.window, Time):
            return
        by_time = isinstance(self.spec.every, Time)
        # A boundary evicts rows older than its window; a tuple evicts rows as old as its window or older.
        newest = self._boundary - 1 if by_time else int(self.now[0])
        if (self._boundary if by_time else newest) != _NONE:
            self.stores[0].forget(newest - self.spec.window.size, groups)

    def _decides(self) -> tuple[int, ...]:
        return (self._boundary,) if isinstance(self.spec.every, Time) else ()

    def scalars(self) -> dict[str, int]:
        return {"boundary": self._boundary, "now": int(self.now[0])}

    def restore_scalars(self, scalars: Mapping[str, int]) -> None:
        self._boundary, self.now[0] = scalars["boundary"], scalars["now"]
        self._earliest[0], self.running.ints[:, 1] = _NONE, 0  # computed again when needed
