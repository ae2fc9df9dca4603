"""The operator that calls user code with state per key. Semantics: `riprap.graph.specs.StatefulPython`.

The state of a key is one stored row with one text (`state_values.py`), so snapshots, deltas, digests and shards are
those of windows. The keys that were called lately are kept decoded.
"""

import copy
import heapq
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

import numpy as np
import pyarrow as pa

from riprap.base.errors import DataError
from riprap.graph.order_keys import OrderKey
from riprap.graph.specs import StatefulPython
from riprap.operators.columns import (
    LATE_N,
    Keys,
    Numbering,
    batch_of,
    concatenated,
    key_columns,
    keys_of,
    renumbered_watermark,
    times_of,
    to_words,
)
from riprap.operators.contract import Channel, Emission, Punctuation, Setting
from riprap.operators.groups import GroupTable
from riprap.operators.python_calls import called, from_series, from_values, plain, to_series
from riprap.operators.row_store import STATE, RowStore
from riprap.operators.state_handles import ExpiredTimerInfo, GroupState, Moment, StateHandle, TimerValues
from riprap.operators.state_values import KeyState
from riprap.operators.windowed import WindowedOperator

_EARLIEST = np.iinfo(np.int64).min // 2
_LATEST = np.iinfo(np.int64).max // 2
_HASH_BITS = 2**63 - 1
_KEPT = 65_536  # decoded states between two calls


class _Output:
    """What calls have yielded, with the keys of what caused it."""

    def __init__(self) -> None:
        self.parts: list[list[pa.Array]] = []
        self.keys: list[tuple[int, int, int]] = []  # ts, src, seq of each row
        self.triggers: list[int] = []

    def add(self, columns: list[pa.Array], key: tuple[int, int, int], trigger: int) -> None:
        rows = len(columns[0]) if columns else 0
        if rows:
            self.parts.append(columns)
            self.keys += [key] * rows
            self.triggers += [trigger] * rows


class StatefulOperator(WindowedOperator):
    def __init__(self, setting: Setting) -> None:
        self.spec = spec = cast(StatefulPython, setting.spec)
        self._what = f"operator {spec.name}: {spec.described}"
        self._rank = spec.timer_rank(setting.shapes)
        self._input = setting.schemas[0].names
        super().__init__(setting)

    def _fresh(self) -> None:
        spec, schema = self.spec, self.setting.schemas[0]
        self.groups = GroupTable([schema.field(name).type for name in spec.by], self.pool)
        self.stores = {0: RowStore(self.groups, [(STATE, pa.string())], self.pool)}
        self._now = np.full(1, _EARLIEST)  # no row before this time can follow
        self._numbering = Numbering()
        self._moment = Moment()
        self._user: Any = spec.function
        if spec.style != "group state":
            self._user = called(
                self._what, copy.deepcopy, spec.function
            )  # what it keeps in itself is not another operator's
            called(self._what, self._user.init, StateHandle(self._moment, spec.clock))
        self._forget()

    def _forget(self) -> None:
        """Forget what follows from the stored texts."""
        self._states: dict[int, KeyState] = {}
        self._called: dict[int, KeyState] = {}  # since the last `_flush`
        self._due: list[tuple[int, int, int, int]] | None = None  # a heap: time, hash, timer (-1: an end), group

    # Rows -------------------------------------------------------------------------------------------------------------

    def process(self, channel: Channel, batch: pa.RecordBatch) -> list[Emission]:
        self.version += batch.num_rows
        if not batch.num_rows:
            return []
        keys, groups = keys_of(batch, self.setting.shapes[0]), self.groups_of(0, batch).tolist()
        self.stores[0].widen(self.groups.count)
        output = _Output()
        owners = zip(*(plain(column).to_pylist() for column in self.groups.columns(np.array(groups))), strict=True)
        given = self._given(batch_of({name: plain(batch.column(name)) for name in self._input}))
        for row, (group, owner, content) in enumerate(zip(groups, owners, given, strict=True)):
            key = keys.at(row)
            self._reach(key.ts, output, row)
            columns = self._call(group, owner, content, None)
            output.add(columns, key[:3], row)
        self._flush()
        emissions = self._emission(output, caused_by_rows=True)
        self.tidy(batch.num_rows)
        return emissions

    def late(self, channel: Channel, batch: pa.RecordBatch, at: OrderKey) -> list[Emission]:
        """Rows behind the watermark of the timers are dropped, as in Spark."""
        self._now[0] = max(int(self._now[0]), at.ts)
        if self.spec.clock == "event":
            open_ = times_of(batch) >= int(self._now[0]) - self.spec.delay
            batch = batch.filter(pa.array(open_))
        with self._numbering.apart(LATE_N if self.setting.shapes[0].n else 0):
            return self.process(channel, batch)

    def groups_of(self, port: int, batch: pa.RecordBatch) -> np.ndarray:
        return self.groups.groups([batch.column(name) for name in self.spec.by])

    def _given(self, batch: pa.RecordBatch) -> Iterator[Any]:
        """What the call for each row gets: a frame, or a row."""
        if self.spec.style == "rows":
            named = StateRow.named(batch.schema.names)
            return (named(values) for values in zip(*(column.to_pylist() for column in batch.columns), strict=True))
        import pandas as pd

        frame = pd.DataFrame({name: to_series(batch.column(name)) for name in batch.schema.names})

        def single() -> Iterator[Any]:
            for row in range(len(frame)):
                one = frame.iloc[row : row + 1].copy()
                one.index = pd.RangeIndex(1)
                yield one

        return single()

    # Calls ------------------------------------------------------------------------------------------------------------

    def _call(self, group: int, owner: tuple[Any, ...], content: Any, timer: int | None) -> list[pa.Array]:
        """Call the user's code for one key: with a row, or for a timer. The columns that it yields."""
        spec, moment = self.spec, self._moment
        moment.state = self._state(group)
        moment.processing = int(self._now[0]) // 1000
        moment.watermark = max(0, (int(self._now[0]) - spec.delay) // 1000) if spec.clock == "event" else 0
        before = set(moment.state.timers)
        if spec.style == "group state":
            state = GroupState(moment, spec.clock, timer is not None)
            frames = iter([content] if timer is None else [])
            yielded = called(self._what, lambda: list(self._user(owner, frames, state) or ()))
        elif timer is None:
            values = TimerValues(moment)
            yielded = called(self._what, lambda: list(self._user.handleInputRows(owner, iter([content]), values) or ()))
        else:
            handle = getattr(self._user, "handleExpiredTimer", None)
            values, info = TimerValues(moment), ExpiredTimerInfo(timer)
            yielded = [] if handle is None else called(self._what, lambda: list(handle(owner, values, info) or ()))
        self._called[group] = moment.state
        if self._rank is not None:
            self._schedule(group, moment.state, moment.state.timers - before)
        return self._columns(yielded)

    def _columns(self, yielded: list[Any]) -> list[pa.Array]:
        schema = self.spec.schema
        if not yielded:
            return []
        if self.spec.style == "rows":
            for row in yielded:
                if not isinstance(row, tuple) or len(row) != len(schema):
                    raise DataError(f"{self._what} yielded {row!r}; write a Row with {', '.join(schema.names)}")
            rows = [_by_name(row, schema.names) for row in yielded]
            return [
                from_values(self._what, [row[place] for row in rows], field.type, field.name)
                for place, field in enumerate(schema)
            ]
        parts = []
        for frame in yielded:
            labels = list(getattr(frame, "columns", ()))
            by_place = bool(labels) and not any(isinstance(label, str) for label in labels)  # as in Spark
            missing = [name for name in schema.names if name not in labels]
            if (missing and not by_place) or (by_place and len(labels) != len(schema)):
                if not len(labels) and not len(frame):
                    continue  # an empty frame
                names = ", ".join(map(str, labels))
                raise DataError(f"{self._what} yielded a frame with {names}; it has to have {', '.join(schema.names)}")
            parts.append([
                from_series(self._what, frame.iloc[:, place] if by_place else frame[field.name], field.type, field.name)
                for place, field in enumerate(schema)
            ])  # fmt: skip
        return [concatenated([part[place] for part in parts]) for place in range(len(schema))] if parts else []

    # State ------------------------------------------------------------------------------------------------------------

    def _state(self, group: int) -> KeyState:
        known = self._called.get(group) or self._states.get(group)
        if known is None:
            known = self._states[group] = KeyState(self._texts(np.array([group]))[0])
        return known

    def _texts(self, groups: np.ndarray) -> list[str]:
        """The stored state of each group; "" where there is none."""
        store = self.stores[0]
        out = [""] * len(groups)
        live = np.flatnonzero(store.alive(groups))
        if len(live):
            column = plain(store.gather(STATE, store.positions(groups[live])))
            for place, text in zip(live.tolist(), column.to_pylist(), strict=True):
                out[place] = text
        return out

    def _flush(self) -> None:
        """Store the state of the keys that were called."""
        store, changed = self.stores[0], []
        for group, state in self._called.items():
            text = state.saved()
            if text != state.text:
                state.text = text
                changed.append((group, text))
        gone = np.array([group for group, text in changed if not text], np.int64)
        store.head[gone] = store.tail[gone]
        kept = [(group, text) for group, text in changed if text]
        if kept:
            words = to_words(pa.array([text for _, text in kept]), self.pool)
            store.insert(np.array([group for group, _ in kept], np.int64), {STATE: words}, np.empty(0, np.int64), 1)
        self._states |= self._called
        self._called = {}
        if len(self._states) > _KEPT:
            self._states = {}

    def put_back(self, image: Any) -> bool:
        self._forget()
        return super().put_back(image)

    def scalars(self) -> dict[str, int]:
        return {"now": int(self._now[0]), **self._numbering.scalars()}

    def restore_scalars(self, scalars: Mapping[str, int]) -> None:
        self._now[0] = scalars["now"]
        self._numbering.restore(scalars)

    # Time -------------------------------------------------------------------------------------------------------------

    def _schedule(self, group: int, state: KeyState, timers: Iterable[int]) -> None:
        due, hash_ = self._heap(), int(self.groups.hashes[group]) & _HASH_BITS
        for timer in timers:
            heapq.heappush(due, (self._fires(timer), hash_, timer, group))
        end = state.first_end() if self.spec.clock == "processing" else None
        if end is not None:
            heapq.heappush(due, (end * 1000, hash_, -1, group))

    def _fires(self, timer: int) -> int:
        """The event time at which a timer fires: when the watermark, in whole milliseconds, is above it."""
        at = (timer + 1) * 1000 + (self.spec.delay if self.spec.clock == "event" else 0)
        return min(max(at, int(self._now[0]) + 1), _LATEST)

    def _heap(self) -> list[tuple[int, int, int, int]]:
        if self._due is None:
            self._due = []
            groups = np.union1d(self.stores[0].live(), np.array(list(self._called), np.int64))
            for group in groups.tolist():
                state = self._state(group)
                self._schedule(group, state, state.timers)
        return self._due

    def _reach(self, ts: int, output: _Output, trigger: int) -> None:
        """Fire the timers, and end the values, whose time comes by `ts`."""
        if self._rank is not None:
            due = self._heap()
            while due and due[0][0] <= ts:
                at, hash_, timer, group = entry = heapq.heappop(due)
                while due and due[0] == entry:  # it was set, deleted and set again
                    heapq.heappop(due)
                state = self._state(group)
                self._now[0] = max(at, int(self._now[0]))
                if timer == -1:
                    state.purge(at // 1000)
                    self._called[group] = state
                    self._schedule(group, state, ())
                elif timer in state.timers:
                    if self.spec.style != "group state":
                        state.timers.discard(timer)
                    (owner,) = zip(*(plain(c).to_pylist() for c in self.groups.columns(np.array([group]))), strict=True)
                    output.add(self._call(group, owner, None, timer), (at, self._rank, hash_), trigger)
        self._now[0] = max(int(self._now[0]), ts)

    def watermark(self, key: OrderKey) -> list[Emission]:
        if self._rank is None or not (due := self._heap()) or due[0][0] > key.ts:
            return []
        output = _Output()
        self._reach(key.ts, output, 0)
        self.version += bool(self._called)
        self._flush()
        return self._emission(output, caused_by_rows=False)

    def next_boundary(self) -> int | None:
        return self._heap()[0][0] if self._rank is not None and self._heap() else None

    def punctuate(self, channel: Channel, punctuation: Punctuation) -> list[Emission]:
        return [Emission(0, Punctuation(self._numbering.key(punctuation.key)))]

    def output_watermark(self, key: OrderKey) -> OrderKey:
        return renumbered_watermark(key, self.setting.shapes)

    def _emission(self, output: _Output, *, caused_by_rows: bool) -> list[Emission]:
        if not output.parts:
            return []
        ts, src, seq = np.ascontiguousarray(np.array(output.keys, np.int64).T)
        keys = self._numbering.number(Keys(ts, src, seq, np.zeros(len(ts), np.int64)))
        columns = {
            field.name: concatenated([part[place] for part in output.parts])
            for place, field in enumerate(self.spec.schema)
            if field.name in self.setting.wanted[0]
        }
        triggers = np.array(output.triggers, np.int64) if caused_by_rows else None
        return [Emission(0, batch_of(columns | key_columns(keys, self.setting.output_shapes[0])), triggers)]


class StateRow(tuple[Any, ...]):
    """A row with fields by name, as PySpark's Row."""

    __fields__: tuple[str, ...] = ()

    @staticmethod
    def named(names: Iterable[str]) -> type["StateRow"]:
        return type("Row", (StateRow,), {"__fields__": tuple(names)})

    def __getattr__(self, name: str) -> Any:
        if name in self.__fields__:
            return tuple.__getitem__(self, self.__fields__.index(name))
        raise AttributeError(f"a row has no field {name}; it has {', '.join(self.__fields__)}")

    def __getitem__(self, place: Any) -> Any:
        return self.__getattr__(place) if isinstance(place, str) else super().__getitem__(place)

    def asDict(self) -> dict[str, Any]:
        return dict(zip(self.__fields__, self, strict=True))


def _by_name(row: Any, names: list[str]) -> list[Any]:
    """Values in the order of the columns: a row with names may have another order."""
    fields = list(getattr(row, "__fields__", ()))
    if sorted(fields) == sorted(names):
        return [row[fields.index(name)] for name in names]
    return list(row)
