"""Who cuts where: the operators of a fragment, divided into pieces that run as one loop each.

A piece has one entry, a source or a stream, and everything in it hangs on that entry: an operator with one port joins
its producer's piece; one with several joins a piece if all of them come from it. Then rows reach its ports in the order
of the entry, the lower port first among rows of one tuple, which is the order that a merger would give; so none is
needed. Where they do not, a join with a step is the entry of a piece itself, behind its merger: the loop runs over the
rows of all ports as the merger gave them. Every reason for a cut is a line of `_reason`.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from riprap.graph.graph import Graph
from riprap.graph.specs import Delay, Join, Sink, Source
from riprap.operators.step_gather import gathers
from riprap.operators.steps import cannot_step

LONGEST = 40  # operators in a piece: text is linear in them, and so is what compiling takes


@dataclass(frozen=True)
class Piece:
    """Operators in topological order, the entry first; `reason` says why the piece begins there."""

    operators: tuple[str, ...]
    reason: str
    compiled: bool

    def __str__(self) -> str:
        how = "one loop" if self.compiled else "on its own"
        return f"{', '.join(self.operators)}: {how}; begins here because {self.reason}"


def cut(
    graph: Graph,
    members: frozenset[str],
    *,
    merged_apart: bool = False,
    alone: Mapping[str, str] | None = None,
) -> list[Piece]:
    """The pieces of a fragment, in the order that they run in.

    `merged_apart`: a jitter decides the order at operators with several ports. `alone`: operators that have to run on
    their own, and why.
    """
    alone = alone or {}
    pieces: list[tuple[list[str], str, bool]] = []
    piece_of: dict[str, int] = {}
    rows: dict[str, int] = {}  # how many rows an operator gives at most for a row of its piece's entry
    later: dict[str, int] = {}  # by how much what it gives is later than that row
    for name in graph.order:
        if name not in members:
            continue
        why_alone = alone.get(name) or cannot_step(graph[name])
        if any(stream.feedback is not None for stream in graph.outputs(name)):
            why_alone = "what it gives goes back"
        reason = why_alone or _reason(graph, name, members, merged_apart, pieces, piece_of, rows, later)
        if reason is None:
            index = piece_of[graph.inputs(name)[0].source]
            pieces[index][0].append(name)
        else:
            index = len(pieces)
            # What follows a merger is one row at a time for a join; other operators with several ports run on their
            # own. A sink alone has nothing to compute.
            merged = graph[name].inputs > 1 and not isinstance(graph[name], Join)
            alone_here = why_alone is not None or merged or isinstance(graph[name], Sink)
            pieces.append(([name], reason, not alone_here))
        piece_of[name] = index
        given = [rows[s.source] for s in graph.inputs(name) if s.source in rows and reason is None]
        behind = later[graph.inputs(name)[0].source] if reason is None else 0
        later[name] = behind + delay_of(graph, name)
        rows[name] = (sum(given) if graph[name].kind == "union" else max(given)) if given else 1
    return [Piece(tuple(names), reason, compiled) for names, reason, compiled in pieces]


def _reason(
    graph: Graph,
    name: str,
    members: frozenset[str],
    merged_apart: bool,
    pieces: list[tuple[list[str], str, bool]],
    piece_of: Mapping[str, int],
    rows: Mapping[str, int],
    later: Mapping[str, int],
) -> str | None:
    """Why an operator that has a step begins a piece; None: it goes on with its producers'."""
    inputs = graph.inputs(name)
    if not inputs:
        return "it is a source"
    if any(stream.source not in members for stream in inputs):
        return "its input comes from outside the fragment"
    if any(stream.feedback is not None for stream in inputs):
        return "its input is fed back"
    found = {piece_of[stream.source] for stream in inputs}
    if len(found) > 1:
        return "its inputs come from several pieces, and are merged"
    producers, _, compiled = pieces[found.pop()]
    if not compiled:
        return f"its input comes from {producers[-1]}, which runs on its own"
    ended = [stream.source for stream in inputs if gathers(graph[stream.source])]
    if ended:
        return f"its input comes from {ended[0]}, which speaks when time or a punctuation says so"
    if len(producers) >= LONGEST:
        return f"the piece before it has {LONGEST} operators"
    if len(inputs) == 1:
        return None
    if merged_apart:
        return "a jitter decides in which order its inputs are merged"
    if not isinstance(graph[producers[0]], Source):
        return "a punctuation on the entry would come between its ports"
    if any(rows[stream.source] > 1 for stream in inputs):
        return "a tuple of the entry can give several rows on one of its ports, and they are merged"
    if len({later[stream.source] for stream in inputs}) > 1:
        return "some of its inputs are delayed, and they are merged"
    return None


def delay_of(graph: Graph, name: str) -> int:
    """By how much what an operator gives is later than what it was given."""
    spec = graph[name]
    return spec.delay if isinstance(spec, Delay) else 0
