"""Random small topologies: lines, trees, layered and arbitrary ones, with uniform and other latencies."""

import numpy as np
from hypothesis import strategies as st

from riprap.planner.topology import Topology
from riprap_papers.published.topologies import SECOND


@st.composite
def edge_lists(draw, size, kind):
    if kind == "line":
        breaks = draw(st.sets(st.integers(1, max(1, size - 1)), max_size=2))
        return [(i, i + 1 if i + 1 not in breaks and i + 1 < size else size - 1) for i in range(size - 1)]
    if kind == "tree":  # every task feeds one later task
        return [(i, draw(st.integers(i + 1, size - 1))) for i in range(size - 1)]
    if kind == "layered":
        width = draw(st.integers(1, 4))
        pairs = [(a, b) for a in range(size) for b in range(size) if b // width == a // width + 1]
    else:
        pairs = [(a, b) for a in range(size) for b in range(a + 1, size)]
    return draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []


@st.composite
def topologies(draw, kinds=("line", "tree", "layered", "arbitrary"), most=9):
    size = draw(st.integers(1, most))
    edges = draw(edge_lists(size, draw(st.sampled_from(kinds))))
    heaviest = draw(st.sampled_from([1, 2, 3, 10]))
    latency = draw(st.lists(st.integers(1, heaviest), min_size=size, max_size=size))
    renumbered = draw(st.permutations(range(size)))
    return Topology(
        "random",
        tuple(f"t{i}" for i in range(size)),
        np.array([latency[renumbered.index(i)] for i in range(size)], np.int64) * SECOND,
        np.array([(renumbered[a], renumbered[b]) for a, b in edges], np.int32).reshape(-1, 2),
    )


@st.composite
def bounded(draw, **options):
    """A topology and a bound from max T to the longest way, in seconds."""
    topology = draw(topologies(**options))
    least = int(topology.latency.max()) // SECOND
    return topology, draw(st.integers(least, max(least, int(topology.latency.sum()) // SECOND)))
