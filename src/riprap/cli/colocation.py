"""What one process takes with it: the operators of each element of a layout."""

from typing import TYPE_CHECKING, cast

from riprap.base.errors import UsageError, known

if TYPE_CHECKING:
    from riprap.graph.graph import Graph
    from riprap.runtime.fusion import Fuse


def together(graph: "Graph", fuse: str, option: str) -> list[tuple[str, ...]]:
    """Operators that run in one process, for each process; without sinks, and without those that have nothing else."""
    from riprap.runtime.layout import arrange

    if fuse not in ("auto", "none", "all"):
        raise UsageError(f"{option} {fuse}: choose one of {known(('auto', 'none', 'all'), fuse)}, as for run --fuse")
    sinks = {sink.name for sink in graph.sinks}
    fragments = arrange(graph, cast("Fuse", fuse)).fragments
    found = [tuple(name for name in fragment.members if name not in sinks) for fragment in fragments]
    return [members for members in found if members]
