"""Divides the operators of a fragment into pieces that run as one loop each.

A piece has one entry, a source or a stream, and all of its input comes from that entry: an operator with one port joins
its producer's piece; one with several ports joins a piece if all of its producers are in it. Then rows reach its ports
in the order of the entry, lower ports first among rows of one tuple. A merger would produce the same order, so none is
needed. Otherwise, a join with a step is the entry of a new piece behind a merger: the loop runs over the merged rows of
all ports. Every reason for a cut is a line of `_reason`.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from riprap.graph.graph import Graph
from riprap.graph.specs import Delay, Join, Sink, Source
from riprap.operators.step_gather import gathers
from riprap.operators.steps import cannot_step

LONGEST = 40  # operators in a piece: the size of its source text, and so its compile time, is linear in them


@dataclass(frozen=True)
class Piece:
    """Operators in topological order, the entry first; `reason`: why the piece starts there."""

    operators: tuple[str, ...]
    reason: str
    compiled: bool

    def __str__(self) -> str:
        how = "one loop" if self.compiled else "not compiled"
        return f"{', '.join(self.operators)}: {how}; starts here because {self.reason}"


def cut(
    graph: Graph,
    members: frozenset[str],
    *,
    merged_apart: bool = False,
    alone: Mapping[str, str] | None = None,
) -> list[Piece]:
    """The pieces of a fragment, in execution order.

    `merged_apart`: a jitter decides the order at operators with several ports. `alone`: operators that must be a piece
    by themselves, with the reason.
    """
    alone = alone or {}
    pieces: list[tuple[list[str], str, bool]] = []
    piece_of: dict[str, int] = {}
    rows: dict[str, int] = {}  # the most rows that an operator emits for a row of its piece's entry
    later: dict[str, int] = {}  # the delay between that row and its output, in microseconds of event time
    for name in graph.order:
        if name not in members:
            continue
        why_alone = alone.get(name) or cannot_step(graph[name])
        if any(stream.feedback is not None for stream in graph.outputs(name)):
            why_alone = "it feeds a feedback stream"
        reason = why_alone or _reason(graph, name, members, merged_apart, pieces, piece_of, rows, later)
        if reason is None:
            index = piece_of[graph.inputs(name)[0].source]
            pieces[index][0].append(name)
        else:
            index = len(pieces)
            # Behind a merger only a join runs row by row; other operators with several ports are not compiled. A sink
            # alone computes nothing.
            merged = graph[name].inputs > 1 and not isinstance(graph[name], Join)
            alone_here = why_alone is not None or merged or isinstance(graph[name], Sink)
            pieces.append(([name], reason, not alone_here))
        piece_of[name] = index
        input_rows = [rows[s.source] for s in graph.inputs(name) if s.source in rows and reason is None]
        input_delay = later[graph.inputs(name)[0].source] if reason is None else 0
        later[name] = input_delay + delay_of(graph, name)
        rows[name] = (sum(input_rows) if graph[name].kind == "union" else max(input_rows)) if input_rows else 1
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
    """Why an operator that has a step starts a piece; None: it joins its producers' piece."""
    inputs = graph.inputs(name)
    if not inputs:
        return "it is a source"
    if any(stream.source not in members for stream in inputs):
        return "its input comes from outside the fragment"
    if any(stream.feedback is not None for stream in inputs):
        return "its input is fed back"
    upstream = {piece_of[stream.source] for stream in inputs}
    if len(upstream) > 1:
        return "its inputs come from several pieces, and are merged"
    producers, _, compiled = pieces[upstream.pop()]
    if not compiled:
        return f"its input comes from {producers[-1]}, which is not compiled"
    ended = [stream.source for stream in inputs if gathers(graph[stream.source])]
    if ended:
        return f"its input comes from {ended[0]}, which emits on watermarks or punctuations"
    if len(producers) >= LONGEST:
        return f"the piece before it has {LONGEST} operators"
    if len(inputs) == 1:
        return None
    if merged_apart:
        return "a jitter decides in which order its inputs are merged"
    if not isinstance(graph[producers[0]], Source):
        return "a punctuation on the entry would arrive between its ports"
    if any(rows[stream.source] > 1 for stream in inputs):
        return "a tuple of the entry can cause several rows on one of its ports, and they are merged"
    if len({later[stream.source] for stream in inputs}) > 1:
        return "some of its inputs are delayed, and they are merged"
    return None


def delay_of(graph: Graph, name: str) -> int:
    """The event time that an operator adds to its tuples, in microseconds."""
    spec = graph[name]
    return spec.delay if isinstance(spec, Delay) else 0
