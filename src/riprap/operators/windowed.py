"""What aggregates, joins, sorts and barriers have in common: windows in row stores, and therefore state."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from riprap.operators.columns import ALL_VALID, TextColumn
from riprap.operators.contract import Digest, Operator, OperatorState, Setting, check_chain
from riprap.operators.groups import GroupTable
from riprap.operators.kernels.hashing import hash_words
from riprap.operators.repeating import RecordedWindows, Repetition
from riprap.operators.row_store import RowStore, StoreImage
from riprap.operators.strings import StringPool
from riprap.operators.tracking import Tracker

_LITTLE = 65_536  # places in stores, groups and strings that are not worth tidying up
_SLACK = 8  # how many of them may be held for each that is needed


class WindowsImage(NamedTuple):
    """The state of an operator in its own arrays. `pool`: as long as it has this one, they are the same."""

    pool: StringPool
    version: int
    scalars: Mapping[str, int]
    stores: Mapping[int, StoreImage]


class WindowedOperator(Operator):
    """Subclasses make their stores in `_fresh`, one per stateful port, and name the whole numbers of their state."""

    new_groups = 1  # that one row of a piece's entry can bring
    recorded = False  # whether a step tells the tracker of windows that change
    ring = 0  # places of every group's ring, where a step overwrites them; 0: rings grow, and hold a batch as well

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.tracker: Tracker | None = None  # None: windows are not recorded as they change
        self.repetition: Repetition | None = None  # not over: it comes back, and repeats its past
        self._largest = 0  # rows that a call brought at most
        self._tidy_at = _LITTLE  # what may be held before `tidy` looks whether it is needed
        self._start_over()

    def _start_over(self) -> None:
        self.pool = StringPool()
        self.groups: GroupTable
        self.stores: dict[int, RowStore] = {}  # by port
        self._fresh()

    def use_steps(self, size: int) -> None:
        """From here on a step keeps the windows; nothing is in them yet. `size`: tuples that rings of one size hold at
        least; 0: rings grow."""
        self.ring, self.new_groups = 1 << (size - 1).bit_length() if size else 0, 0
        self._start_over()

    def make_room(self) -> int:
        """For what one row can bring; returns how many groups there may be before it has to be made again."""
        room = self.groups.make_room(self.new_groups)
        if self.ring:
            for store in self.stores.values():
                store.spread(room)
        if self.tracker is not None:
            self.tracker.make_room(room)
        return room

    def stamp(self) -> tuple[StringPool, int]:
        """Changes when an array of the state is another one than before."""
        return self.pool, self.pool.moves

    def _fresh(self) -> None:
        """Set `groups`, `stores` and everything else of the state to empty."""
        raise NotImplementedError

    def scalars(self) -> dict[str, int]:
        """The whole numbers of the state."""
        return {}

    def restore_scalars(self, scalars: Mapping[str, int]) -> None:
        pass

    def _decides(self) -> tuple[int, ...]:
        """Those whole numbers of the state that decide, beside its window, what a key gives out next."""
        return ()

    def settle(self, groups: np.ndarray | None = None) -> None:
        """Forget what can no longer matter, so that equal content looks equal; of all groups, or of some."""

    # The contract -----------------------------------------------------------------------------------------------------

    def snapshot(self) -> OperatorState:
        return self._save(None)

    def delta(self, since: int) -> OperatorState:
        return self._save(since if all(store.marked(since) for store in self.stores.values()) else None)

    def turned_over(self, since: int) -> bool:
        """Whether at least three quarters of what windows hold has come since: a delta would hardly be smaller."""
        if not all(store.marked(since) for store in self.stores.values()):
            return True
        came = sum(store.came_since(since) for store in self.stores.values())
        return 4 * came >= 3 * sum(store.size() for store in self.stores.values())

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
        each = [store.live() for store in self.stores.values()]  # ascending
        groups = each[0] if len(each) == 1 else np.unique(np.concatenate(each))
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
        if image.pool is not self.pool:  # it has moved into other arrays: restored, or tidied up
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
        """After a call that brought `rows`: give room back when most of it is taken by what was forgotten.

        It is looked for whenever what is held has doubled since the last time, which is cheap in the long run. A batch
        takes room of its own, which the next one uses again.
        """
        self._largest = max(self._largest, rows)
        if self._held() <= self._tidy_at:
            return
        self.settle()
        needed = self._largest + sum(len(store.live()) + store.size() for store in self.stores.values())
        if self._held() > _SLACK * needed:
            moving = self.tracker.moving() if self.tracker is not None else None
            self.restore([self.snapshot()])
            if self.tracker is not None and moving is not None:
                self.tracker.moved(moving)
        self._tidy_at = max(_LITTLE, 2 * self._held(), _SLACK * needed)

    def _held(self) -> int:
        return self.pool.count + self.groups.count + sum(store.used for store in self.stores.values())

    # Records of windows as they change (`riprap.records`) ----------------------------------------------------------

    speaking_period = 0  # microseconds between boundaries, where windows of a count of tuples speak by time

    def track(self) -> Tracker:
        """Keep account of which windows open, change and close, from here on."""
        self.tracker = Tracker(self, len(self.setting.schemas))
        return self.tracker

    def repeat(self, past: RecordedWindows, then: Callable[[Repetition], None] | None = None) -> Repetition:
        """What comes next came before, up to a point: see `repeating.py`. State of open windows was put in."""
        self.repetition = Repetition(self, past, then)
        return self.repetition

    @property
    def repeating(self) -> bool:
        return self.repetition is not None and not self.repetition.over

    def groups_of(self, port: int, batch: pa.RecordBatch) -> np.ndarray:
        """The group of each row of a port; -1: none."""
        raise NotImplementedError

    def words_of(self, port: int, batch: pa.RecordBatch) -> dict[str, TextColumn]:
        """What is stored of rows of a port."""
        raise NotImplementedError

    def insert_past(
        self, port: int, words: Mapping[str, TextColumn], groups: np.ndarray, ts: np.ndarray, number: np.ndarray
    ) -> None:
        """Put rows into windows without giving anything out; `number`: which rows of the port they are."""
        raise NotImplementedError
