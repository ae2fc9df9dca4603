"""What a step reports to the tracker of its operator (`tracking.py`), for continuous checkpoints.

The loop lists every group that it touches once, with the previous position of its ring. When a tumbling window emits,
it writes the number of the row. When the tracker is queried, calls later, it derives from that list what opened,
changed and closed. So a row costs one array access more, and a call almost nothing: the loop does not detect that a
row opens a window, which would be an unpredictable branch for every row. Windows of one tuple are never open between
two rows and are not listed.
"""

import re

import numpy as np

from riprap.expressions.generated_code import Block
from riprap.operators.function import Function
from riprap.operators.tracking import Tracker
from riprap.operators.windowed import WindowedOperator

_GROUP, _END = "group", "end"
_NONE = np.empty(0, np.int64)
_MOST = 65_536  # groups that are listed before the tracker reads the list
_ENTERED = "n_entry"  # counter of the rows of the entry, updated when a call ends
_COLUMN = re.compile(r"\w+\[u\]")  # a column of the entry at its row


class StepEvents:
    """The events of one operator with one port. `tumbling`: a window emits once and the next one starts empty;
    `instant`: at its first row.

    `block`: where rows arrive. If all rows of the entry do, the loop need not count them.
    """

    def __init__(
        self,
        function: Function,
        name: str,
        operator: WindowedOperator,
        block: Block,
        ts: str,
        most: int,
        *,
        tumbling: bool,
        instant: bool,
    ) -> None:
        self._function, self._operator, self._tumbling, self._instant = function, operator, tumbling, instant
        self._block, self._ts = block, ts
        self._all = block is function.row
        self._time_at_end = self._all and _COLUMN.fullmatch(ts) is not None
        self._before = 0  # rows that had arrived at the last query
        self._rows = function.counter(f"{name}_came", self._start_call)  # arrived rows, without those of the entry
        if self._time_at_end:
            function.finish.sub("if done > start:").add("u = np.uint64(done - 1)", f"{name}_last = {ts}")
        self._last = function.counter(f"{name}_last")
        self._emitted_counter = ""  # counter of emitted windows, if not every row emits one
        self._emitted_before = 0  # its value at the last query
        function.after.append(self._after)
        if not tumbling:
            self._first_time = function.counter(f"{name}_began")
        if instant:
            return
        self._count = function.counter(f"{name}_touches")  # of listed groups
        self._stamp = function.counter(f"{name}_stamp")
        self._buffers = function.buffer(most)
        whole = np.dtype(np.int64)
        self._groups = function.array(f"{name}_touched", "int64", self._buffers.fetch(_GROUP, whole))
        self._ends = function.array(f"{name}_were", "int64", self._buffers.fetch(_END, whole))
        self._marks = function.array(f"{name}_marks", "int64", lambda views: self._tracker.touched)
        if tumbling:
            self._start = function.array(f"{name}_start", "int64", lambda views: self._tracker.start[0])
        function.stamps.append(lambda: (self._operator.tracker, self._tracker.moves))

    @property
    def _tracker(self) -> Tracker:
        assert self._operator.tracker is not None, "recorded windows must be tracked before the first row"
        return self._operator.tracker

    def _start_call(self) -> int:
        """Before a call. Counters continue from call to call, until the next query."""
        tracker, function = self._tracker, self._function
        if tracker.pending_report is not None:
            return function.value_of(self._rows)
        tracker.pending_report, self._before = self._report, int(tracker.rows[0])
        if not self._instant:
            function.set(self._count, 0)
            function.set(self._stamp, tracker.stamp())
        if self._emitted_counter:
            self._emitted_before = function.value_of(self._emitted_counter)
        return self._before - (function.value_of(_ENTERED) if self._all else 0)

    def row(self, group: str, head: str, tail: str) -> None:
        """A row is about to enter the window [head, tail) of a group, which is given as an index."""
        block = self._block
        if not self._instant:
            first = block.sub(f"if {self._marks}[{group}] != {self._stamp}:")
            place = self._function.fresh("t")
            first.add(f"{self._marks}[{group}] = {self._stamp}", f"{place} = np.uint64({self._count})",
                      f"{self._groups}[{place}] = np.int64({group})",
                      f"{self._ends}[{place}] = {head if self._tumbling else tail}")  # fmt: skip
            if not self._tumbling:
                first.sub(f"if {self._count} == 0:").add(f"{self._first_time} = {self._ts}")
            first.add(f"{self._count} += 1")
        if not self._all:
            block.add(f"{self._rows} += 1")
        if not self._time_at_end:
            block.add(f"{self._last} = {self._ts}")

    def emitted(self, block: Block, group: str, counter: str) -> None:
        """A window was emitted; `counter` counts those."""
        if block is not self._block:
            self._emitted_counter = counter
        if self._tumbling and not self._instant:
            arrived = f"{self._rows} + {_ENTERED} + (i - start) + 1" if self._all else self._rows
            block.add(f"{self._start}[{group}] = {arrived}")

    def _after(self) -> None:
        if not self._instant:
            self._buffers.held = held = self._function.value_of(self._count)
            if held >= _MOST:
                self._tracker.collect()

    def _report(self) -> None:
        """Report to the tracker, which was queried."""
        value, tracker = self._function.value_of, self._tracker
        rows = value(self._rows) + (value(_ENTERED) if self._all else 0)
        if rows == self._before:
            return
        tracker.step_arrived(rows, value(self._last))
        groups = ends = _NONE
        if not self._instant:
            arrays, count = self._buffers.arrays, value(self._count)
            groups, ends = arrays[_GROUP][:count], arrays[_END][:count]
            self._buffers.held = 0
        if self._tumbling:
            counter = self._emitted_counter
            emitted = value(counter) - self._emitted_before if counter else rows - self._before
            tracker.step_tumbled(groups, ends, self._before, emitted)
        elif len(groups):
            tracker.step_slid(groups, ends, value(self._first_time), self._before)
