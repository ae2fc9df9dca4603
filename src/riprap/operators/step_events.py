"""What a step tells the tracker of its operator (`tracking.py`), where windows are recorded as they change.

The loop lists every group that it touches once in a call, with where its ring was before; for a tumbling window that
opens it writes the time and the number of its first row to where the tracker has them. After the loop the tracker
works out from that list what opened, changed and closed. So what a row costs beyond its window is a look at one array.
"""

import numpy as np

from riprap.expressions.written import Block
from riprap.operators.function import Function
from riprap.operators.tracking import Tracker
from riprap.operators.windowed import WindowedOperator

_GROUP, _END = "group", "end"


class StepEvents:
    """Of one operator with one port. `tumbling`: windows are given out for good, and begin anew."""

    def __init__(self, function: Function, name: str, operator: WindowedOperator, most: int, *, tumbling: bool) -> None:
        self._function, self._operator, self._tumbling = function, operator, tumbling
        self._buffers = function.buffer(most)
        whole = np.dtype(np.int64)
        self._groups = function.array(f"{name}_touched", "int64", self._buffers.fetch(_GROUP, whole))
        self._ends = function.array(f"{name}_were", "int64", self._buffers.fetch(_END, whole))
        self._marks = function.column(f"{name}_marks", "int64", lambda views: self._tracker.touched)
        self._stamp = function.counter(f"{name}_stamp", lambda: self._tracker.stamp())
        self._count = function.counter(f"{name}_touches", lambda: 0)
        self._rows = function.counter(f"{name}_came", lambda: int(self._tracker.rows[0]))
        self._last = function.counter(f"{name}_last", lambda: 0)
        if tumbling:
            self._since = function.column(f"{name}_since", "int64", lambda views: self._tracker.since)
            self._start = function.column(f"{name}_start", "int64", lambda views: self._tracker.start[0])
            self._spoken = function.counter(f"{name}_spoken", lambda: 0)
        else:
            self._began = function.counter(f"{name}_began", lambda: 0)
        function.after.append(self._after)

    @property
    def _tracker(self) -> Tracker:
        assert self._operator.tracker is not None, "windows that are recorded are tracked before a row comes"
        return self._operator.tracker

    def row(self, block: Block, group: str, head: str, tail: str, ts: str) -> None:
        """A row is about to come into the window [head, tail) of a group, given as an index, at a time."""
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
        function, tracker = self._function, self._tracker
        value, arrays = function.value_of, self._buffers.arrays
        count = value(self._count)
        if not count:
            return
        groups, ends = arrays[_GROUP][:count], arrays[_END][:count]
        if self._tumbling:
            tracker.step_tumbled(groups, ends, value(self._spoken))
        else:
            tracker.step_slid(groups, ends, value(self._began))
        tracker.step_came(value(self._rows), value(self._last))
