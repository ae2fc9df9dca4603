"""What aggregates, joins, sorts and barriers have in common: windows in row stores, and therefore state."""

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from riprap.operators.columns import ALL_VALID
from riprap.operators.contract import Digest, Operator, Setting, State, WindowEvent, check_chain
from riprap.operators.groups import GroupTable
from riprap.operators.kernels.hashing import hash_words
from riprap.operators.rows import RowStore, window_table
from riprap.operators.strings import StringPool


class WindowedOperator(Operator):
    """Subclasses make their stores in `_fresh`, one per stateful port, and name the whole numbers of their state."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self._events: list[WindowEvent] | None = None  # None: nobody is watching
        self._start_over()

    def _start_over(self) -> None:
        self.pool = StringPool()
        self.groups: GroupTable
        self.stores: dict[int, RowStore] = {}  # by port
        self._fresh()

    def _fresh(self) -> None:
        """Set `groups`, `stores` and everything else of the state to empty."""
        raise NotImplementedError

    def _scalars(self) -> dict[str, int]:
        """The whole numbers of the state."""
        return {}

    def _restore_scalars(self, scalars: Mapping[str, int]) -> None:
        pass

    def _settle(self) -> None:
        """Forget what can no longer matter, so that equal content looks equal."""

    # The contract -----------------------------------------------------------------------------------------------------

    def snapshot(self) -> State:
        return self._save(None)

    def delta(self, since: int) -> State:
        return self._save(since if all(store.marked(since) for store in self.stores.values()) else None)

    def _save(self, since: int | None) -> State:
        self._settle()
        tables: dict[str, pa.RecordBatch] = {}
        for port, store in self.stores.items():
            tables |= store.save(f"port{port}", self.version, since)
        return State(self.version, since, self._scalars(), tables)

    def restore(self, parts: Sequence[State]) -> None:
        check_chain(parts)
        self._start_over()
        for part in parts:
            for port, store in self.stores.items():
                store.load(f"port{port}", part.tables)
        self.version = parts[-1].version
        self._restore_scalars(parts[-1].scalars)
        for store in self.stores.values():
            store.mark(self.version)

    def digest(self) -> Digest:
        self._settle()
        groups = np.unique(np.concatenate([store.live() for store in self.stores.values()]))
        total = np.zeros(len(groups), np.uint64)
        for port, store in self.stores.items():
            live = store.live()
            of_port = np.full(len(groups), port, np.uint64)
            of_port[np.searchsorted(groups, live)] = store.digest(live)
            hash_words(of_port.view(np.int64), ALL_VALID, total)
        order = np.argsort(self.groups.hashes[groups], kind="stable")
        return Digest(self.groups.hashes[groups][order], total[order])

    def size(self) -> int:
        self._settle()
        return sum(store.size() for store in self.stores.values())

    def _tidy(self) -> None:
        """Give room back when most of it is taken by what was forgotten: move into fresh stores."""
        if any(store.wasteful() for store in self.stores.values()):
            self.restore([self.snapshot()])

    # Window events ----------------------------------------------------------------------------------------------------

    def observe_windows(self) -> None:
        self._events = []

    def window_events(self) -> list[WindowEvent]:
        events, self._events = self._events or [], [] if self._events is not None else None
        return events

    def window_content(self, port: int, key_hash: int) -> pa.RecordBatch | None:
        self._settle()
        found = np.flatnonzero(self.groups.hashes[: self.groups.count] == np.uint64(key_hash))
        store = self.stores.get(port)
        if store is None or not len(found) or found[0] >= len(store.base):
            return None
        return window_table(store, int(found[0]))

    def _tails(self, port: int) -> np.ndarray | None:
        """Where every group of the port is now, if somebody watches: to be given to `_note`."""
        if self._events is None:
            return None
        store = self.stores[port]
        return np.stack([store.head, store.tail])

    def _note(self, port: int, before: np.ndarray | None, closed: Sequence[tuple[int, int, int]] = ()) -> None:
        """Tell who watches which windows opened since `before`, and which (group, lo, hi) were given out for good."""
        if self._events is None or before is None:
            return
        store = self.stores[port]
        old = np.zeros((2, len(store.tail)), np.int64)
        old[:, : before.shape[1]] = before
        for group, lo, hi in closed:
            if lo >= old[1, group]:
                self._tell("opened", port, group, lo)
            self._tell("closed", port, group, hi)
        for group in np.flatnonzero(store.tail > old[1]).tolist():
            was_empty = old[0, group] == old[1, group] or store.head[group] >= old[1, group]
            if was_empty and store.tail[group] > store.head[group] and (closed or old[0, group] == old[1, group]):
                self._tell("opened", port, group, int(max(store.head[group], old[1, group])))

    def _tell(self, kind: str, port: int, group: int, index: int) -> None:
        assert self._events is not None
        self._events.append(WindowEvent(kind, port, int(self.groups.hashes[group]), int(index)))
