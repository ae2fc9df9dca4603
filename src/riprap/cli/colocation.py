"""Operators that fail together: those of each element of a layout."""

from typing import TYPE_CHECKING, cast

from riprap.base.errors import UsageError, known

if TYPE_CHECKING:
    from riprap.graph.graph import Graph
    from riprap.runtime.fusion import Fuse


def colocated_operators(graph: "Graph", fuse: str, option: str) -> list[tuple[str, ...]]:
    """The operators of each process, without sinks; processes with nothing but sinks are left out."""
    from riprap.runtime.layout import arrange

    if fuse not in ("auto", "none", "all"):
        raise UsageError(f"{option} {fuse}: choose one of {known(('auto', 'none', 'all'), fuse)}, as for run --fuse")
    sinks = {sink.name for sink in graph.sinks}
    fragments = arrange(graph, cast("Fuse", fuse)).fragments
    processes = [tuple(name for name in fragment.members if name not in sinks) for fragment in fragments]
    return [members for members in processes if members]
