"""What a translated node of a plan is in the app: a stream, and which of its columns are the node's."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from riprap.graph.builder import Stream
from riprap.graph.types import is_key
from riprap.graph.windows import Session, Sliding
from riprap.spark.jobs.captured_job import PlanColumn, PlanExpression

_PLACEHOLDER = re.compile(r"`§(-?\d+)`(?:\.`?(start|end)`?(?!\w))?")


class Untranslatable(Exception):
    """A node that cannot be an operator of an app; the message says why, and the second route takes its query."""


@dataclass(frozen=True)
class WindowOf:
    """A window column of a plan: a struct of start and end, which an app has as two columns or not at all."""

    window: Sliding | Session
    time: int  # id of the column with the times
    start: str = ""  # columns of the stream, behind the aggregate
    end: str = ""


@dataclass(frozen=True)
class NodeStream:
    """The output of a node."""

    stream: Stream
    columns: Mapping[int, str]  # of the stream, by the ids of the plan's columns
    windows: Mapping[int, WindowOf] = field(default_factory=dict)
    times: frozenset[int] = frozenset()  # plan's columns that are the event time of the stream

    def column(self, identity: int) -> str:
        if identity not in self.columns:
            raise Untranslatable("it reads a column whose type an app cannot have")
        return self.columns[identity]

    def text(self, expression: PlanExpression | str, parts: Mapping[int, str] | None = None) -> str:
        """SQL over the stream's columns. `parts`: what stands for aggregate calls and Python functions."""
        text = expression if isinstance(expression, str) else expression.text
        return _PLACEHOLDER.sub(lambda found: self._reference(int(found[1]), found[2], parts or {}), text)

    def _reference(self, identity: int, bound: str | None, parts: Mapping[int, str]) -> str:
        if identity in parts:
            return parts[identity] + (f".`{bound}`" if bound else "")
        window = self.windows.get(identity)
        if window is None:
            return quoted(self.column(identity)) + (f".`{bound}`" if bound else "")
        if not window.start:
            raise Untranslatable("it reads a window of time that no aggregate is grouped by")
        if bound:
            return quoted(window.start if bound == "start" else window.end)
        return f"named_struct('start', {quoted(window.start)}, 'end', {quoted(window.end)})"

    def keeping(self, kept: Callable[[int], bool]) -> "NodeStream":
        """Only some of the plan's columns; the stream stays as it is."""
        return replace(
            self,
            columns={identity: name for identity, name in self.columns.items() if kept(identity)},
            windows={identity: window for identity, window in self.windows.items() if kept(identity)},
            times=frozenset(identity for identity in self.times if kept(identity)),
        )


def references(text: str) -> set[int]:
    """The ids that an expression reads."""
    return {int(found[1]) for found in _PLACEHOLDER.finditer(text)}


def quoted(column: str) -> str:
    return f"`{column}`"


def distinct_names(columns: tuple[PlanColumn, ...] | list[PlanColumn]) -> dict[int, str]:
    """A name for each column, the plan's own where it is free."""
    names: dict[int, str] = {}
    for column in columns:
        number, name = 1, column_name(column.name)
        while name in names.values():
            number += 1
            name = f"{column_name(column.name)}_{number}"
        names.setdefault(column.id, name)
    return names


def column_name(name: str) -> str:
    """A name that a column of an app can have: `count(1)` is `count_1`."""
    plain = name if re.fullmatch(r"\w+", name) else re.sub(r"\W+", "_", name).strip("_") or "column"
    return f"{plain}_" if is_key(plain) else plain
