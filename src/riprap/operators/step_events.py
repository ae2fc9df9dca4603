"""What a step tells the tracker of its operator (`tracking.py`), where windows are recorded as they change.

The loop lists every group that it touches once, with where its ring was before; for a tumbling window that opens it
writes the time and the number of its first row to where the tracker has them. When somebody asks the tracker, calls
later, it works out from that list what opened, changed and closed. So what a row costs beyond its window is a look at
one array, and a call costs next to nothing. Windows of one tuple are never open between two rows: of those nothing is
listed.
"""

import numpy as np

from riprap.expressions.written import Block
from riprap.operators.function import Function
from riprap.operators.tracking import Tracker
from riprap.operators.windowed import WindowedOperator

_GROUP, _END = "group", "end"
_NONE = np.empty(0, np.int64)
_MOST = 65_536  # groups that are listed before the tracker looks at them


class StepEvents:
    """Of one operator with one port. `tumbling`: windows are given out for good, and begin anew; `instant`: at once."""

    def __init__(
        self, function: Function, name: str, operator: WindowedOperator, most: int, *, tumbling: bool, instant: bool
    ) -> None:
        self._function, self._operator, self._tumbling, self._instant = function, operator, tumbling, instant
        self._before = 0  # rows that had come when somebody last looked
        self._rows = function.counter(f"{name}_came", self._begin)
        self._last = function.counter(f"{name}_last", lambda: 0)
        self._count = function.counter(f"{name}_touches")  # of groups that are listed
        self._stamp = function.counter(f"{name}_stamp")
        if tumbling:
            self._spoken = function.counter(f"{name}_spoken")
        else:
            self._began = function.counter(f"{name}_began")
        function.after.append(self._after)
        if instant:
            return
        self._buffers = function.buffer(most)
        whole = np.dtype(np.int64)
        self._groups = function.array(f"{name}_touched", "int64", self._buffers.fetch(_GROUP, whole))
        self._ends = function.array(f"{name}_were", "int64", self._buffers.fetch(_END, whole))
        self._marks = function.column(f"{name}_marks", "int64", lambda views: self._tracker.touched)
        if tumbling:
            self._since = function.column(f"{name}_since", "int64", lambda views: self._tracker.since)
            self._start = function.column(f"{name}_start", "int64", lambda views: self._tracker.start[0])

    @property
    def _tracker(self) -> Tracker:
        assert self._operator.tracker is not None, "windows that are recorded are tracked before a row comes"
        return self._operator.tracker

    def _begin(self) -> int:
        """Before a call: the rows that have come. Counters go on from call to call, until somebody looks."""
        tracker, function = self._tracker, self._function
        rows = int(tracker.rows[0])
        if tracker.noted is None:
            tracker.noted, self._before = self._tell, rows
            function.set(self._count, 0)
            function.set(self._stamp, tracker.stamp())
            if self._tumbling:
                function.set(self._spoken, 0)
        return rows

    def row(self, block: Block, group: str, head: str, tail: str, ts: str) -> None:
        """A row is about to come into the window [head, tail) of a group, given as an index, at a time."""
        if not self._instant:
            first = block.sub(f"if {self._marks}[{group}] != {self._stamp}:")
            place = self._function.fresh("t")
            first.add(f"{self._marks}[{group}] = {self._stamp}", f"{place} = np.uint64({self._count})",
                      f"{self._groups}[{place}] = np.int64({group})",
                      f"{self._ends}[{place}] = {head if self._tumbling else tail}")  # fmt: skip
            if self._tumbling:
                block.sub(f"if {head} == {tail}:").add(
                    f"{self._since}[{group}] = {ts}", f"{self._start}[{group}] = {self._rows}"
                )
            else:
                first.sub(f"if {self._count} == 0:").add(f"{self._began} = {ts}")
            first.add(f"{self._count} += 1")
        block.add(f"{self._rows} += 1", f"{self._last} = {ts}")

    def spoke(self, block: Block) -> None:
        """A window was given out."""
        if self._tumbling:
            block.add(f"{self._spoken} += 1")

    def _after(self) -> None:
        value, tracker = self._function.value_of, self._tracker
        tracker.step_came(value(self._rows), value(self._last))
        if not self._instant:
            self._buffers.held = value(self._count)
            if self._buffers.held >= _MOST:
                tracker.look()

    def _tell(self) -> None:
        """Somebody looks."""
        value, tracker = self._function.value_of, self._tracker
        groups = ends = _NONE
        if not self._instant:
            arrays, count = self._buffers.arrays, value(self._count)
            groups, ends = arrays[_GROUP][:count], arrays[_END][:count]
            self._buffers.held = 0
        if self._tumbling:
            tracker.step_tumbled(groups, ends, value(self._spoken))
        elif len(groups):
            tracker.step_slid(groups, ends, value(self._began), self._before)
