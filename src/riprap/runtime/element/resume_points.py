"""Rows read from sources: from which row the next incarnation has to read again.

A source resumes after the last batch whose outputs were all numbered. If rows wait in a merge of the same element (a
union of two sources, fused with them), it resumes at the first waiting row: what waits dies with the process, and no
stream would count it. Output that was emitted before is recognised by its keys, and not emitted again. But a stateful
operator must not process a row twice. If it could, because it is beside such a merge and not behind it, waiting rows
are not read again, and the ledger counts them as lost.
"""

from collections.abc import Mapping

import pyarrow as pa

from riprap.engine.engine import Engine
from riprap.graph.graph import Graph
from riprap.graph.order_keys import END_KEY
from riprap.operators.columns import keys_of
from riprap.runtime.element.cursor import InputCursor, MergedCursor
from riprap.runtime.element.ledger import Ledger
from riprap.runtime.layout import Layout, Pe


class ResumePoints:
    """`taken`: rows read, by source. `whole`: positions are restored from checkpoints, and the ledger only counts."""

    def __init__(
        self, layout: Layout, pe: Pe, engine: Engine, ledger: Ledger, starts: Mapping[str, int], *, whole: bool
    ) -> None:
        self.taken = dict(starts)
        self._graph, self._engine, self._ledger = layout.graph, engine, ledger
        self._merges: dict[str, tuple[str, ...]] = {}
        self._rereads: dict[str, bool] = {}  # waiting rows are read again
        self._cursors: dict[str, InputCursor] = {}
        for name, position in starts.items():
            merges, rereads = ((), True) if whole else _merges(layout.graph, frozenset(pe.fragment.members), name)
            self._merges[name], self._rereads[name] = merges, rereads
            self._cursors[name] = MergedCursor(position, -1) if merges else InputCursor(position, -1)
        ledger.begin()
        for record in ledger.sources.values():
            record.lost += record.waiting
            record.waiting = 0
        ledger.commit()

    def read(self, source: str, batch: pa.RecordBatch, position: int) -> None:
        """The engine has processed rows up to `position`."""
        self.taken[source] = position
        record, last = self._ledger.sources[source], batch.slice(batch.num_rows - 1)
        record.reached = max(record.reached, int(keys_of(last, self._graph.shape(source)).ts[0]))
        cursor = self._cursors[source]
        keys = keys_of(batch, self._graph.shape(source)) if self._merges[source] else None
        cursor.arrived(position - batch.num_rows, keys, position, -1)
        self._note(source, cursor)

    def settle(self) -> None:
        """The engine has processed rows of a source or of an input channel."""
        for source, cursor in self._cursors.items():
            if isinstance(cursor, MergedCursor) and cursor.waits:
                cursor.pass_up_to(min((self._engine.reached(name) for name in self._merges[source]), default=END_KEY))
                self._note(source, cursor)

    def _note(self, source: str, cursor: InputCursor) -> None:
        record, taken = self._ledger.sources[source], self.taken[source]
        position = cursor.next if self._rereads[source] else taken
        if position > record.position:
            record.position = position
        if not self._rereads[source]:
            record.waiting = taken - cursor.next


def _merges(graph: Graph, members: frozenset[str], source: str) -> tuple[tuple[str, ...], bool]:
    """Merging operators of the fragment that rows of the source reach without passing a stateful operator.

    And whether rows that wait there may be read again: no stateful operator gets rows on a path around them.
    """
    merging: set[str] = set()
    stateful: set[str] = set()
    seen, ahead = {source}, [source]
    while ahead:
        for stream in graph.outputs(ahead.pop()):
            target = stream.target
            if target not in members or target in seen:
                continue
            seen.add(target)
            if len(graph.inputs(target)) > 1:
                merging.add(target)
            if any(graph[target].stateful):
                stateful.add(target)
            else:
                ahead.append(target)
    rereads = not stateful or (len(stateful) == 1 and merging <= _upstream(graph, *stateful))
    return tuple(sorted(merging)), rereads


def _upstream(graph: Graph, name: str) -> set[str]:
    """The operator, and all upstream of it."""
    seen, ahead = {name}, [name]
    while ahead:
        for stream in graph.inputs(ahead.pop()):
            if stream.source not in seen:
                seen.add(stream.source)
                ahead.append(stream.source)
    return seen
