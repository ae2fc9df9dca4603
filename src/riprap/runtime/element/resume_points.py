"""Rows taken from sources: from which of them on a life that follows has to read again.

A source goes on behind the last batch of which all outputs were numbered. Where rows wait in a merge of the same
element (a union of two sources, fused with them), it goes on before the first that does: what waits dies with the
process, and no stream would count it. What is read again and had been given out is recognised by its keys, and not
given out again. But an operator with state must not be given a row twice. Where it could be, because it lies beside
such a merge and not behind it, rows that waited are not read again, and the ledger counts them as lost.
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
    """`taken`: rows taken in this life, by source. `whole`: positions come back with checkpoints, and only count."""

    def __init__(
        self, layout: Layout, pe: Pe, engine: Engine, ledger: Ledger, begins: Mapping[str, int], *, whole: bool
    ) -> None:
        self.taken = dict(begins)
        self._graph, self._engine, self._ledger = layout.graph, engine, ledger
        self._merges: dict[str, tuple[str, ...]] = {}
        self._again: dict[str, bool] = {}  # what waits is read again
        self._cursors: dict[str, InputCursor] = {}
        for name, position in begins.items():
            merges, again = ((), True) if whole else _merges(layout.graph, frozenset(pe.fragment.members), name)
            self._merges[name], self._again[name] = merges, again
            self._cursors[name] = MergedCursor(position, -1) if merges else InputCursor(position, -1)
        ledger.begin()
        for record in ledger.sources.values():
            record.lost += record.waiting
            record.waiting = 0
        ledger.commit()

    def took(self, source: str, batch: pa.RecordBatch, position: int) -> None:
        """The engine was given rows up to `position`."""
        self.taken[source] = position
        record, last = self._ledger.sources[source], batch.slice(batch.num_rows - 1)
        record.reached = max(record.reached, int(keys_of(last, self._graph.shape(source)).ts[0]))
        cursor = self._cursors[source]
        keys = keys_of(batch, self._graph.shape(source)) if self._merges[source] else None
        cursor.came(position - batch.num_rows, keys, position, -1)
        self._note(source, cursor)

    def settle(self) -> None:
        """The engine has worked, on rows of a source or on what came in."""
        for source, cursor in self._cursors.items():
            if isinstance(cursor, MergedCursor) and cursor.waits:
                cursor.passed(min((self._engine.reached(name) for name in self._merges[source]), default=END_KEY))
                self._note(source, cursor)

    def _note(self, source: str, cursor: InputCursor) -> None:
        record, taken = self._ledger.sources[source], self.taken[source]
        position = cursor.next if self._again[source] else taken
        if position > record.position:
            record.position = position
        if not self._again[source]:
            record.waiting = taken - cursor.next


def _merges(graph: Graph, members: frozenset[str], source: str) -> tuple[tuple[str, ...], bool]:
    """Operators of the fragment that merge, and that rows of the source come to without having been in a state.

    And whether what waits there may be read again: no operator with state gets rows by a way that is further.
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
    again = not stateful or (len(stateful) == 1 and merging <= _before(graph, *stateful))
    return tuple(sorted(merging)), again


def _before(graph: Graph, name: str) -> set[str]:
    """The operator, and all upstream of it."""
    seen, ahead = {name}, [name]
    while ahead:
        for stream in graph.inputs(ahead.pop()):
            if stream.source not in seen:
                seen.add(stream.source)
                ahead.append(stream.source)
    return seen
