"""Drawings parse, show everything, and put nothing on top of anything else."""

import re
import xml.etree.ElementTree as ElementTree
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from riprap.graph.drawing import Edge, Node, draw, draw_text
from riprap.graph.layering import layering, nearest_in_order

SVG = "{http://www.w3.org/2000/svg}"
text = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=8)


@st.composite
def graphs(draw_):
    count = draw_(st.integers(1, 12))
    nodes = [
        Node(str(i), draw_(text), draw_(st.sampled_from(["", "below"])), badge=draw_(st.sampled_from(["", "backup"])))
        for i in range(count)
    ]
    ends = st.tuples(st.integers(0, count - 1), st.integers(0, count - 1))
    edges = [
        Edge(str(a), str(b), draw_(st.sampled_from(["", "some label"]))) for a, b in draw_(st.lists(ends, max_size=20))
    ]
    return nodes, edges


def boxes(svg: str) -> list[tuple[float, float, float, float]]:
    found = []
    for group in ElementTree.fromstring(svg).iter(f"{SVG}g"):
        if group.get("class", "").startswith("n"):
            outline = group.find(f"{SVG}path").get("d")
            start = re.match(r"M([\d.]+) ([\d.]+)H([\d.]+)a[\d.]+ [\d.]+ 0 0 1 ([\d.]+) [\d.]+V([\d.]+)", outline)
            left, top, right, radius, low = map(float, start.groups())
            found.append((left - radius, top, right + radius, low + radius))
    return found


@given(graphs())
def test_everything_is_shown_and_nothing_overlaps(graph):
    nodes, edges = graph
    svg = draw(nodes, edges, title="a <title> & more")
    root = ElementTree.fromstring(svg)
    shown = [element.text for element in root.iter(f"{SVG}text")]
    assert all(node.label in shown for node in nodes)
    assert sum(label == "some label" for label in shown) == sum(bool(edge.label) for edge in edges)
    outlines = boxes(svg)
    assert len(outlines) == len(nodes)
    for i, (left, top, right, bottom) in enumerate(outlines):
        assert left >= 0
        assert bottom <= float(root.get("height"))
        for other in outlines[:i]:
            apart = left > other[2] or right < other[0] or top > other[3] or bottom < other[1]
            assert apart, (outlines[i], other)
    assert svg == draw(nodes, edges, title="a <title> & more")


@given(graphs())
def test_text_has_one_line_per_node(graph):
    nodes, edges = graph
    lines = draw_text(nodes, edges).split("\n")
    assert len(lines) == len(nodes)
    assert all(any(node.label in line for line in lines) for node in nodes)


@given(st.integers(1, 10), st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=25), st.integers(1, 2))
def test_forward_edges_lead_right(count, pairs, step):
    edges = [(a % count, b % count) for a, b in pairs]
    layers = layering(count, edges, step)
    rank = {item: number for number, layer in enumerate(layers.order) for item in layer}
    for (source, target), back, bends in zip(edges, layers.is_back, layers.bends, strict=True):
        if not back:
            route = [source, *bends, target]
            assert all(rank[b] == rank[a] + 1 for a, b in pairwise(route))
    # Sorted by number, no edge of an acyclic graph may be taken for one that leads back.
    forward = [(min(a, b), max(a, b)) for a, b in edges if a != b]
    assert not any(layering(count, forward, step).is_back)


@given(st.lists(st.integers(-50, 50), min_size=1, max_size=6), st.data())
def test_nearest_in_order_is_the_least_squares_solution(wanted, data):
    gaps = data.draw(st.lists(st.integers(0, 9), min_size=len(wanted) - 1, max_size=len(wanted) - 1))
    placed = nearest_in_order(wanted, gaps)
    assert all(b - a >= gap - 1e-9 for a, b, gap in zip(placed, placed[1:], gaps, strict=False))

    def distance(positions):
        return sum((a - b) ** 2 for a, b in zip(positions, wanted, strict=True))

    # No feasible neighbour is nearer: move any run of items together by a little.
    for first in range(len(wanted)):
        for last in range(first, len(wanted)):
            for move in (-0.01, 0.01):
                moved = [p + move if first <= i <= last else p for i, p in enumerate(placed)]
                feasible = all(b - a >= gap for a, b, gap in zip(moved, moved[1:], gaps, strict=False))
                assert not feasible or distance(moved) >= distance(placed) - 1e-9


def test_text_of_a_small_graph():
    nodes = [Node("s", "Source", shape="source"), Node("a", "A", badge="backup"), Node("t", "Sink", shape="sink")]
    edges = [Edge("s", "a", emphasis=True), Edge("a", "t"), Edge("a", "s")]
    assert draw_text(nodes, edges).split("\n") == [
        "  0  ▷ Source      ⇒ A",
        "  1  ■ A [backup]  → Sink  ↺ Source",
        "  2  ◁ Sink",
    ]
