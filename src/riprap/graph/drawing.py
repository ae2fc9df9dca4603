"""Draws a layered directed graph: SVG text for reports, plain text for the terminal. A pure function of its input.

Left to right: every vertex is one layer after its latest predecessor. The layout is Sugiyama's: cycles are cut at back
edges, long edges get a bend per layer that they cross, layers are ordered by barycentres, and within this order every
vertex is placed as near to its neighbours as the space allows. Edge labels have layers of their own, so text never
overlaps text. Back edges run below everything else. Colours follow the reader's light or dark scheme; a `fill` gets
black or white text, whichever is readable.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import pairwise
from typing import Literal
from unicodedata import east_asian_width

from riprap.graph.layering import Layering, layering, nearest_in_order

Shape = Literal["box", "source", "sink", "round"]
Style = Literal["solid", "dashed", "dotted"]


@dataclass(frozen=True)
class Node:
    id: str
    label: str
    sublabel: str = ""
    shape: Shape = "box"
    fill: str | None = None  # "#rrggbb"; None is the neutral colour of the scheme
    badge: str = ""  # a word or a number on the upper edge
    tooltip: str = ""


@dataclass(frozen=True)
class Edge:
    source: str
    target: str
    label: str = ""
    style: Style = "solid"
    emphasis: bool = False
    tooltip: str = ""


# Pixels.
_FONT, _SMALL = 13.0, 11.0
_PAD, _MARGIN = 12.0, 16.0
_COLUMN_GAP, _ROW_GAP, _BEND_GAP = 44.0, 18.0, 9.0
_LANE = 20.0  # between back edges

_STYLE = """\
.rg{--rg-ink:#1f2328;--rg-soft:#59636e;--rg-line:#8c959f;--rg-node:#f6f8fa;--rg-rim:#8c959f;--rg-mark:#bc4c00;\
--rg-back:var(--surface,#fff);background:var(--rg-back);\
font-family:system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
@media (prefers-color-scheme:dark){.rg{--rg-ink:#e6edf3;--rg-soft:#9198a1;--rg-line:#656c76;--rg-node:#21262d;\
--rg-rim:#656c76;--rg-mark:#f0883e;--rg-back:var(--surface,#0d1117)}}
@media print{.rg{--rg-ink:#000;--rg-soft:#444;--rg-line:#777;--rg-node:#fff;--rg-rim:#777;--rg-mark:#a33b00;\
--rg-back:#fff}}
.rg text{text-anchor:middle;fill:var(--rg-ink);font-size:13px}
.rg .s{font-size:11px;fill:var(--rg-soft)}
.rg .n path{fill:var(--rg-node);stroke:var(--rg-rim);stroke-width:1.2}
.rg .n .b{fill:var(--rg-back);stroke:var(--rg-mark)}
.rg .n .bt{font-size:10px;font-weight:600;fill:var(--rg-mark)}
.rg .dk text{fill:#000}.rg .lt text{fill:#fff}.rg .dk .s,.rg .lt .s{opacity:.85}
.rg .dk .bt,.rg .lt .bt{fill:var(--rg-mark);opacity:1}
.rg .e{fill:none;stroke:var(--rg-line);stroke-width:1.2}
.rg .e.hot{stroke:var(--rg-mark);stroke-width:2.6}
.rg .e.dashed{stroke-dasharray:6 4}.rg .e.dotted{stroke-dasharray:1.5 3.5;stroke-linecap:round}
.rg .hit{fill:none;stroke:transparent;stroke-width:9}
.rg .el{font-size:11px;fill:var(--rg-soft);paint-order:stroke;stroke:var(--rg-back);stroke-width:3px}
.rg .tip{fill:var(--rg-line)}.rg .tip.hot{fill:var(--rg-mark)}
"""


@dataclass
class _Canvas:
    """The layout. Coordinates of nodes and bends are centres."""

    layers: Layering
    x: list[float]
    y: list[float]
    width: list[float]
    height: list[float]
    layer_of: list[list[int]]  # the items in the same layer
    column: list[float]  # width of that layer
    bottom: float
    right: float
    parts: list[str] = field(default_factory=list)


def draw(nodes: Sequence[Node], edges: Sequence[Edge], *, title: str = "") -> str:
    """An `<svg>` element of its natural size. Node ids must be unique and cover both ends of every edge."""
    if not nodes:
        return '<svg xmlns="http://www.w3.org/2000/svg" class="rg" width="1" height="1"></svg>'
    canvas = _place(nodes, edges)
    loops = [i for i in range(len(edges)) if canvas.layers.is_back[i]]
    for rank, i in enumerate(sorted(loops, key=lambda i: _span(canvas, edges[i], nodes))):
        _draw_back(canvas, nodes, edges[i], rank)
    _draw_forward(canvas, nodes, edges)
    for i, node in enumerate(nodes):
        _draw_node(canvas, i, node)
    height = canvas.bottom + (_LANE * len(loops) + _SMALL if loops else 0) + _MARGIN
    width = canvas.right + _MARGIN + (_COLUMN_GAP if loops else 0)
    name = f"<title>{escape(title)}</title>" if title else ""
    label = f' aria-label="{escape(title)}"' if title else ""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="rg" role="img"{label} width="{width:.0f}" '
        f'height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}">{name}<style>{_STYLE}</style>\n'
        + "\n".join(canvas.parts)
        + "\n</svg>"
    )


def draw_text(nodes: Sequence[Node], edges: Sequence[Edge], columns: int = 0) -> str:
    """One line per node, layer by layer, with the nodes it feeds: `→` forward, `⇒` emphasised, `↺` back.

    If that is wider than `columns` (0: no limit), the description of a node is on a separate line below it.
    """
    if not nodes:
        return ""
    position = {node.id: i for i, node in enumerate(nodes)}
    layers = layering(len(nodes), [(position[e.source], position[e.target]) for e in edges], 1)
    width = max(_columns(_heading(node)) for node in nodes)
    lines: list[tuple[int, Node, str, str]] = []  # rank, node, the complete line, its targets
    for rank, layer in enumerate(layers.order):
        for i in (item for item in layer if item < len(nodes)):
            feeds: dict[str, list[str]] = {"⇒": [], "→": [], "↺": []}
            for k, edge in enumerate(edges):
                if position[edge.source] == i:
                    arrow = "↺" if layers.is_back[k] else "⇒" if edge.emphasis else "→"
                    feeds[arrow].append(nodes[position[edge.target]].label)
            text = "  ".join(f"{arrow} {_few(names)}" for arrow, names in feeds.items() if names)
            head = _heading(nodes[i])
            lines.append((rank, nodes[i], f"{head}{' ' * (width - _columns(head))}  {text}".rstrip(), text))
    if not columns or all(_columns(line) + 5 <= columns for _, _, line, _ in lines):
        return "\n".join(f"{rank:>3}  {line}" for rank, _, line, _ in lines)
    return "\n".join(line for rank, node, _, feeds in lines for line in _two_lines(rank, node, feeds))


def _two_lines(rank: int, node: Node, feeds: str) -> list[str]:
    details = " ".join(part for part in (node.sublabel, f"[{node.badge}]" if node.badge else "") if part)
    return [f"{rank:>3}  {_mark(node)} {node.label}  {feeds}".rstrip(), *([f"       {details}"] if details else [])]


def _mark(node: Node) -> str:
    return {"source": "▷", "sink": "◁"}.get(node.shape, "■" if node.badge else "□")


def _heading(node: Node) -> str:
    return " ".join(
        part for part in (_mark(node), node.label, node.sublabel, f"[{node.badge}]" if node.badge else "") if part
    )


def _few(names: list[str]) -> str:
    return ", ".join(names) if len(names) <= 4 else f"{names[0]}, {names[1]}, … {names[-1]} ({len(names)})"


def _columns(text: str) -> int:
    return sum(2 if east_asian_width(char) in "WF" else 1 for char in text)


def _text_width(text: str, size: float) -> float:
    """An upper estimate, because fonts differ between readers."""
    total = 0.0
    for char in text:
        if east_asian_width(char) in "WF":
            total += 1.05
        elif char in "ijlItf.,:;'|!()[] ":
            total += 0.40
        elif char in "mwMW@%—→":
            total += 0.98
        else:
            total += 0.72 if char.isupper() else 0.63
    return total * size


def _place(nodes: Sequence[Node], edges: Sequence[Edge]) -> _Canvas:
    position = {node.id: i for i, node in enumerate(nodes)}
    step = 2 if any(edge.label for edge in edges) else 1  # every second layer is for labels
    layers = layering(len(nodes), [(position[e.source], position[e.target]) for e in edges], step)
    width, height = [], []
    for node in nodes:
        lines = [(node.label, _FONT), (node.sublabel, _SMALL), (node.badge, _SMALL)]
        width.append(max(48.0, *(_text_width(text, size) for text, size in lines)) + 2 * _PAD)
        height.append(46.0 if node.sublabel else 32.0)
    for edge_index, bends in enumerate(layers.bends):
        for number, _ in enumerate(bends):
            labelled = number == len(bends) // 2 and edges[edge_index].label
            width.append(_text_width(edges[edge_index].label, _SMALL) + 8 if labelled else 0.0)
            height.append(_SMALL + 6 if labelled else 0.0)
    x = _columns_of_layers(layers, width, height)
    y = _rows(layers, height)
    top = min(y[i] - height[i] / 2 for i in range(len(y)))
    y = [value - top + _MARGIN for value in y]
    bottom = max(y[i] + height[i] / 2 for i in range(len(y)))
    right = max(x[i] + width[i] / 2 for i in range(len(x)))
    layer_of: list[list[int]] = [[] for _ in width]
    for layer in layers.order:
        for i in layer:
            layer_of[i] = layer
    column = [max(width[k] for k in layer) for layer in layer_of]
    return _Canvas(layers, x, y, width, height, layer_of, column, bottom, right)


def _columns_of_layers(layers: Layering, width: list[float], height: list[float]) -> list[float]:
    loops = sum(layers.is_back)
    x = [0.0] * len(width)
    left = _MARGIN + (_COLUMN_GAP if loops else 0)
    for number, layer in enumerate(layers.order):
        wide = max((width[i] for i in layer), default=0.0)
        for i in layer:
            x[i] = left + wide / 2
        # Many edges need a wider gap; a layer with only bends needs little space.
        meeting = len(layers.links[number]) if number < len(layers.links) else 0
        solid = any(height[i] > 0 for i in layer)
        left += wide + (_COLUMN_GAP if solid else _COLUMN_GAP / 2) + min(120.0, 3.0 * meeting**0.75)
    return x


def _rows(layers: Layering, height: list[float]) -> list[float]:
    """Place every item as near to its neighbours' mean as order and spacing allow: a few sweeps in each direction."""
    y = [0.0] * len(height)
    gaps = []
    for layer in layers.order:
        pairs = pairwise(layer)
        gaps.append(
            [(height[a] + height[b]) / 2 + (_ROW_GAP if height[a] and height[b] else _BEND_GAP) for a, b in pairs]
        )
        total = -sum(gaps[-1]) / 2
        for i, gap in zip(layer, [0.0, *gaps[-1]], strict=True):
            total += gap
            y[i] = total
    before: list[list[int]] = [[] for _ in height]
    after: list[list[int]] = [[] for _ in height]
    for links in layers.links:
        for a, b in links:
            after[a].append(b)
            before[b].append(a)
    down, up = range(len(layers.order)), range(len(layers.order) - 1, -1, -1)
    for sweep in range(12):
        for number in up if sweep % 2 else down:
            layer = layers.order[number]
            wanted = []
            for i in layer:
                near = (after[i] if sweep % 2 else before[i]) if sweep < 8 else before[i] + after[i]
                wanted.append(sum(y[k] for k in near) / len(near) if near else y[i])
            for i, value in zip(layer, nearest_in_order(wanted, gaps[number]), strict=True):
                y[i] = value
    return y


def _draw_forward(canvas: _Canvas, nodes: Sequence[Node], edges: Sequence[Edge]) -> None:
    layers = canvas.layers
    position = {node.id: i for i, node in enumerate(nodes)}
    routes = {}
    for i, edge in enumerate(edges):
        if not layers.is_back[i]:
            routes[i] = [position[edge.source], *layers.bends[i], position[edge.target]]
    leave = _spread(canvas, {i: (r[0], r[1]) for i, r in routes.items()})
    enter = _spread(canvas, {i: (r[-1], r[-2]) for i, r in routes.items()})
    # Emphasised edges last, so that they are on top.
    for i in sorted(routes, key=lambda i: (edges[i].emphasis, i)):
        route, edge = routes[i], edges[i]
        start = (canvas.x[route[0]] + canvas.width[route[0]] / 2, leave[i])
        end = (canvas.x[route[-1]] - canvas.width[route[-1]] / 2 - 6, enter[i])
        path, at, label = f"M{start[0]:.1f} {start[1]:.1f}", start, ""
        for item in _needed_bends(canvas, route[1:-1], start[1], end[1]):
            half = (canvas.width[item] or canvas.column[item]) / 2
            into, out = (canvas.x[item] - half, canvas.y[item]), (canvas.x[item] + half, canvas.y[item])
            # An edge is interrupted at its label.
            path += _curve(at, into) + (f"M{out[0]:.1f} {out[1]:.1f}" if canvas.width[item] else f"H{out[0]:.1f}")
            if canvas.width[item]:
                label = _edge_label(edge, canvas.x[item], canvas.y[item])
            at = out
        path += _curve(at, end)
        _draw_edge(canvas, edge, path, end, label)


def _curve(start: tuple[float, float], end: tuple[float, float]) -> str:
    middle = (start[0] + end[0]) / 2
    return f"C{middle:.1f} {start[1]:.1f} {middle:.1f} {end[1]:.1f} {end[0]:.1f} {end[1]:.1f}"


def _needed_bends(canvas: _Canvas, bends: Sequence[int], start: float, end: float) -> list[int]:
    """The bends that carry the label or avoid an obstacle; others would only make the edge wavy."""
    ys = [start, *(canvas.y[item] for item in bends), end]
    needed, at = [], 0
    while at < len(bends):
        reach = at + 1  # the furthest stop (1-based; the last is the end) that can be reached in one curve
        for stop in range(at + 2, len(bends) + 2):
            low, high = min(ys[at], ys[stop]) - 5, max(ys[at], ys[stop]) + 5
            passed = bends[at : stop - 1]
            if any(canvas.width[item] or _blocked(canvas, item, low, high) for item in passed):
                break
            reach = stop
        if reach > len(bends):
            break
        needed.append(bends[reach - 1])
        at = reach
    return needed


def _blocked(canvas: _Canvas, bend: int, low: float, high: float) -> bool:
    return any(
        canvas.y[i] - canvas.height[i] / 2 < high and canvas.y[i] + canvas.height[i] / 2 > low
        for i in canvas.layer_of[bend]
        if canvas.height[i]
    )


def _spread(canvas: _Canvas, ends: dict[int, tuple[int, int]]) -> dict[int, float]:
    """The y at which each edge touches its node: edges spread over a side, in the order of their other ends."""
    sides: dict[int, list[int]] = {}
    for edge, (node, _) in ends.items():
        sides.setdefault(node, []).append(edge)
    touch = {}
    for node, meeting in sides.items():
        meeting.sort(key=lambda edge: (canvas.y[ends[edge][1]], edge))
        room = min(canvas.height[node] - 16, 8.0 * (len(meeting) - 1))
        for number, edge in enumerate(meeting):
            share = number / (len(meeting) - 1) - 0.5 if len(meeting) > 1 else 0.0
            touch[edge] = canvas.y[node] + room * share
    return touch


def _span(canvas: _Canvas, edge: Edge, nodes: Sequence[Node]) -> float:
    position = {node.id: i for i, node in enumerate(nodes)}
    return abs(canvas.x[position[edge.source]] - canvas.x[position[edge.target]])


def _draw_back(canvas: _Canvas, nodes: Sequence[Node], edge: Edge, rank: int) -> None:
    position = {node.id: i for i, node in enumerate(nodes)}
    source, target = position[edge.source], position[edge.target]
    lane = canvas.bottom + _LANE * (rank + 1)
    shift = 5.0 * (rank % 4)
    right, left = _edge_of_column(canvas, source, +1) + 12 + shift, _edge_of_column(canvas, target, -1) - 18 - shift
    start = (canvas.x[source] + canvas.width[source] / 2, canvas.y[source] + canvas.height[source] / 4)
    end = (canvas.x[target] - canvas.width[target] / 2 - 6, canvas.y[target] + canvas.height[target] / 4)
    middle, half = (left + right) / 2, _text_width(edge.label, _SMALL) / 2 + 4
    pause = f"H{middle + half:.1f}M{middle - half:.1f} {lane:.1f}" if edge.label else ""
    path = (
        f"M{start[0]:.1f} {start[1]:.1f}H{right - 8:.1f}q8 0 8 8V{lane - 8:.1f}q0 8 -8 8{pause}H{left + 8:.1f}"
        f"q-8 0 -8 -8V{end[1] + 8:.1f}q0 -8 8 -8H{end[0]:.1f}"
    )
    _draw_edge(canvas, edge, path, end, _edge_label(edge, middle, lane) if edge.label else "")


def _edge_of_column(canvas: _Canvas, item: int, side: int) -> float:
    return canvas.x[item] + side * canvas.column[item] / 2


def _edge_label(edge: Edge, x: float, y: float) -> str:
    return f'<text class="el" x="{x:.1f}" y="{y + 4:.1f}">{escape(edge.label)}</text>'


def _draw_edge(canvas: _Canvas, edge: Edge, path: str, tip: tuple[float, float], label: str) -> None:
    hot = " hot" if edge.emphasis else ""
    style = "" if edge.style == "solid" else f" {edge.style}"
    about = edge.tooltip or f"{edge.source} → {edge.target}"
    size = 5.0 if edge.emphasis else 4.0
    canvas.parts.append(
        f'<g><title>{escape(about)}</title><path class="hit" d="{path}"/><path class="e{style}{hot}" d="{path}"/>'
        f'<path class="tip{hot}" d="M{tip[0] - 1:.1f} {tip[1] - size:.1f}l7 {size:.1f}l-7 {size:.1f}z"/>{label}</g>'
    )


def _draw_node(canvas: _Canvas, i: int, node: Node) -> None:
    x, y = canvas.x[i] - canvas.width[i] / 2, canvas.y[i] - canvas.height[i] / 2
    w, h, middle = canvas.width[i], canvas.height[i], canvas.x[i]
    round_left = h / 2 if node.shape in ("source", "round") else 5
    round_right = h / 2 if node.shape in ("sink", "round") else 5
    outline = (
        f"M{x + round_left:.1f} {y:.1f}H{x + w - round_right:.1f}a{round_right} {round_right} 0 0 1 {round_right} "
        f"{round_right}V{y + h - round_right:.1f}a{round_right} {round_right} 0 0 1 -{round_right} {round_right}"
        f"H{x + round_left:.1f}a{round_left} {round_left} 0 0 1 -{round_left} -{round_left}V{y + round_left:.1f}"
        f"a{round_left} {round_left} 0 0 1 {round_left} -{round_left}z"
    )
    ink = "" if node.fill is None else " dk" if _is_light(node.fill) else " lt"
    fill = "" if node.fill is None else f' style="fill:{escape(node.fill)}"'
    about = node.tooltip or " ".join(part for part in (node.label, node.sublabel, node.badge) if part)
    base = y + h / 2 + (4.5 if not node.sublabel else -2.5)
    text = f'<text x="{middle:.1f}" y="{base:.1f}">{escape(node.label)}</text>'
    if node.sublabel:
        text += f'<text class="s" x="{middle:.1f}" y="{base + 15:.1f}">{escape(node.sublabel)}</text>'
    if node.badge:
        half = _text_width(node.badge, 10) / 2 + 6
        at = x + w - half - 4
        text += (
            f'<path class="b" d="M{at - half:.1f} {y - 11:.1f}h{2 * half:.1f}v14h-{2 * half:.1f}z"/>'
            f'<text class="bt" x="{at:.1f}" y="{y - 0.5:.1f}">{escape(node.badge)}</text>'
        )
    canvas.parts.append(f'<g class="n{ink}"><title>{escape(about)}</title><path d="{outline}"{fill}/>{text}</g>')


def _is_light(colour: str) -> bool:
    """Whether black text is more readable than white on `#rrggbb`: luminance above the point of equal contrast."""
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2] > 0.179
