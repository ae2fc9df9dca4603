"""The base of aggregates, joins, sorts and barriers: windows in row stores, hence state."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from riprap.operators.columns import ALL_VALID, WordColumn
from riprap.operators.contract import Digest, Operator, OperatorState, Setting, check_chain
from riprap.operators.groups import GroupTable
from riprap.operators.kernels.hashing import hash_words
from riprap.operators.repeating import RecordedWindows, Repetition
from riprap.operators.row_store import RowStore, StoreImage
from riprap.operators.strings import StringPool
from riprap.operators.tracking import Tracker

_LITTLE = 65_536  # places in stores, groups and strings that are not worth compacting
_SLACK = 8  # places that may be allocated for each one in use


class WindowsImage(NamedTuple):
    """A copy of an operator's state arrays. They stay valid while the operator has this `pool`."""

    pool: StringPool
    version: int
    scalars: Mapping[str, int]
    stores: Mapping[int, StoreImage]


class WindowedOperator(Operator):
    """Subclasses create their stores in `_fresh`, one per stateful port, and name the scalars of their state."""

    new_groups = 1  # that one row of a piece's entry can create
    recorded = False  # whether a step reports changes of windows to the tracker
    ring = 0  # places of every group's ring, where a step overwrites them; 0: rings grow, and hold a batch as well

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.tracker: Tracker | None = None  # None: changes of windows are not recorded
        self.repetition: Repetition | None = None  # set while the operator repeats its past after a recovery
        self._largest = 0  # the most rows of one call so far
        self._tidy_at = _LITTLE  # the allocation at which `tidy` next checks what is in use
        self._start_over()

    def _start_over(self) -> None:
        self.pool = StringPool()
        self.groups: GroupTable
        self.stores: dict[int, RowStore] = {}  # by port
        self._fresh()

    def use_steps(self, size: int) -> None:
        """From now on a step maintains the windows, which are empty. `size`: the fewest places of a group's
        ring; 0: rings grow.
        """
        self.ring, self.new_groups = 1 << (size - 1).bit_length() if size else 0, 0
        self._start_over()

    def make_room(self) -> int:
        """Make room for what one row can add; return how many groups fit before this must be called again."""
        room = self.groups.make_room(self.new_groups)
        if self.ring:
            for store in self.stores.values():
                store.spread(room)
        if self.tracker is not None:
            self.tracker.make_room(room)
        return room

    def stamp(self) -> tuple[StringPool, int]:
        """Changes whenever an array of the state is replaced."""
        return self.pool, self.pool.moves

    def _fresh(self) -> None:
        """Set `groups`, `stores` and everything else of the state to empty."""
        raise NotImplementedError

    def scalars(self) -> dict[str, int]:
        """The integers of the state."""
        return {}

    def restore_scalars(self, scalars: Mapping[str, int]) -> None:
        pass

    def _decides(self) -> tuple[int, ...]:
        """The scalars of the state that decide, together with its window, what a key emits next."""
        return ()

    def settle(self, groups: np.ndarray | None = None) -> None:
        """Evict what no longer matters, so that equal content looks equal; for all groups or for some."""

    # The contract -----------------------------------------------------------------------------------------------------

    def snapshot(self) -> OperatorState:
        return self._save(None)

    def delta(self, since: int) -> OperatorState:
        return self._save(since if all(store.marked(since) for store in self.stores.values()) else None)

    def turned_over(self, since: int) -> bool:
        """Whether at least three quarters of the windows' rows are newer: a delta would hardly be smaller."""
        if not all(store.marked(since) for store in self.stores.values()):
            return True
        arrived = sum(store.rows_since(since) for store in self.stores.values())
        return 4 * arrived >= 3 * sum(store.size() for store in self.stores.values())

    def _save(self, since: int | None) -> OperatorState:
        self.settle()
        tables: dict[str, pa.RecordBatch] = {}
        for port, store in self.stores.items():
            tables |= store.save(f"port{port}", self.version, since)
        return OperatorState(self.version, since, self.scalars(), tables)

    def restore(self, parts: Sequence[OperatorState]) -> None:
        check_chain(parts)
        self._start_over()
        for part in parts:
            for port, store in self.stores.items():
                store.load(f"port{port}", part.tables)
        self.version = parts[-1].version
        self.restore_scalars(parts[-1].scalars)
        for store in self.stores.values():
            store.mark(self.version)

    def digest(self) -> Digest:
        self.settle()
        live = [store.live() for store in self.stores.values()]  # ascending
        groups = live[0] if len(live) == 1 else np.unique(np.concatenate(live))
        total = self._digests(groups)
        order = np.argsort(self.groups.hashes[groups], kind="stable")
        return Digest(self.groups.hashes[groups][order], total[order])

    def digest_of(self, keys: np.ndarray) -> np.ndarray:
        self.settle()
        groups = self.groups.with_hashes(keys)
        known = (groups >= 0) & np.logical_or.reduce([store.alive(groups) for store in self.stores.values()])
        out = np.zeros(len(keys), np.uint64)
        out[known] = self._digests(groups[known])
        return out

    def _digests(self, groups: np.ndarray) -> np.ndarray:
        total = np.zeros(len(groups), np.uint64)
        for port, store in self.stores.items():
            of_port = np.full(len(groups), port, np.uint64)
            live = np.flatnonzero(store.alive(groups))
            of_port[live] = store.digest(groups[live])
            hash_words(of_port.view(np.int64), ALL_VALID, total)
        for number in self._decides():
            hash_words(np.full(len(groups), number, np.int64), ALL_VALID, total)
        return total

    def image(self) -> WindowsImage:
        stores = {port: store.image() for port, store in self.stores.items()}
        return WindowsImage(self.pool, self.version, self.scalars(), stores)

    def put_back(self, image: Any) -> bool:
        assert isinstance(image, WindowsImage)
        if image.pool is not self.pool:  # its arrays were replaced: by a restore, or by `tidy`
            return False
        for port, store in self.stores.items():
            store.put_back(image.stores[port])
        self.version = image.version
        self.restore_scalars(image.scalars)
        return True

    def size(self) -> int:
        self.settle()
        return sum(store.size() for store in self.stores.values())

    def port_size(self, port: int) -> int:
        self.settle()
        return self.stores[port].size() if port in self.stores else 0

    def tidy(self, rows: int) -> None:
        """After a call with `rows` rows: compact the state if most of its memory holds evicted rows.

        It checks whenever the allocation has doubled since the last check, so the amortized cost is low. The room
        for one batch counts as in use: the next batch reuses it.
        """
        self._largest = max(self._largest, rows)
        if self._allocated() <= self._tidy_at:
            return
        self.settle()
        needed = self._largest + sum(len(store.live()) + store.size() for store in self.stores.values())
        if self._allocated() > _SLACK * needed:
            moving = self.tracker.moving() if self.tracker is not None else None
            self.restore([self.snapshot()])
            if self.tracker is not None and moving is not None:
                self.tracker.moved(moving)
        self._tidy_at = max(_LITTLE, 2 * self._allocated(), _SLACK * needed)

    def _allocated(self) -> int:
        return self.pool.count + self.groups.count + sum(store.used for store in self.stores.values())

    # Continuous checkpoints (`riprap.records`) ---------------------------------------------------------------------

    emission_period = 0  # microseconds between boundaries, where count windows emit by time

    def track(self) -> Tracker:
        """Track which windows open, change and close, from now on."""
        self.tracker = Tracker(self, len(self.setting.schemas))
        return self.tracker

    def repeat(self, past: RecordedWindows, then: Callable[[Repetition], None] | None = None) -> Repetition:
        """Expect rows of the past again, up to a point (`repeating.py`); the state of open windows is restored
        already.
        """
        self.repetition = Repetition(self, past, then)
        return self.repetition

    @property
    def repeating(self) -> bool:
        return self.repetition is not None and not self.repetition.over

    def groups_of(self, port: int, batch: pa.RecordBatch) -> np.ndarray:
        """The group of each row of a port; -1: no group."""
        raise NotImplementedError

    def words_of(self, port: int, batch: pa.RecordBatch) -> dict[str, WordColumn]:
        """The columns that are stored for rows of a port."""
        raise NotImplementedError

    def insert_past(
        self, port: int, words: Mapping[str, WordColumn], groups: np.ndarray, ts: np.ndarray, number: np.ndarray
    ) -> None:
        """Insert rows into windows and emit nothing; `number`: the rows' numbers on the port."""
        raise NotImplementedError
