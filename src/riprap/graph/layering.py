"""Assigns the vertices of a directed graph to layers, and orders each layer.

Vertices are numbers. An edge that crosses a layer gets a *bend* there, an item like a vertex, so that edges never
run through vertices: items `0 … count - 1` are the vertices, later ones the bends.
"""

from bisect import bisect_right, insort
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True)
class Layering:
    order: list[list[int]]  # items of every layer, top to bottom
    links: list[list[tuple[int, int]]]  # between layer k and layer k + 1
    bends: list[list[int]]  # of every edge, one per layer it crosses; empty for back edges
    is_back: list[bool]  # whether an edge is a back edge (to an earlier layer or to its own source)


def layering(count: int, edges: Sequence[tuple[int, int]], step: int) -> Layering:
    """Layers of `count` vertices, `step` layers apart where an edge joins them (2 leaves a layer for labels)."""
    is_back = _back_edges(count, edges)
    forward = [edge for edge, back in zip(edges, is_back, strict=True) if not back]
    rank = [step * value for value in _ranks(count, forward)]
    layers: list[list[int]] = [[] for _ in range(max(rank) + 1)]
    links: list[list[tuple[int, int]]] = [[] for _ in range(max(rank))]
    for vertex in range(count):
        layers[rank[vertex]].append(vertex)
    bends: list[list[int]] = []
    items = count
    for (source, target), back in zip(edges, is_back, strict=True):
        route = [] if back else list(range(items, items + rank[target] - rank[source] - 1))
        items += len(route)
        bends.append(route)
        for offset, item in enumerate(route):
            layers[rank[source] + 1 + offset].append(item)
        if not back:
            chain = [source, *route, target]
            for offset, link in enumerate(pairwise(chain)):
                links[rank[source] + offset].append(link)
    return Layering(_least_crossings(layers, links, items), links, bends, is_back)


def nearest_in_order(wanted: Sequence[float], gaps: Sequence[float]) -> list[float]:
    """Positions nearest `wanted` (least squares) that ascend by at least `gaps`: isotonic regression, pooling."""
    offset, total = [0.0], 0.0
    for gap in gaps:
        total += gap
        offset.append(total)
    pools: list[tuple[float, int]] = []  # mean, size
    for want, shift in zip(wanted, offset, strict=False):
        mean, size = want - shift, 1
        while pools and pools[-1][0] > mean:
            other, others = pools.pop()
            mean, size = (mean * size + other * others) / (size + others), size + others
        pools.append((mean, size))
    flat = [mean for mean, size in pools for _ in range(size)]
    return [mean + shift for mean, shift in zip(flat, offset, strict=False)]


def _back_edges(count: int, edges: Sequence[tuple[int, int]]) -> list[bool]:
    """Edges whose removal leaves no cycle: the back edges of a depth-first search from the first vertices."""
    leaving: list[list[int]] = [[] for _ in range(count)]
    entered = [False] * count
    for i, (source, target) in enumerate(edges):
        leaving[source].append(i)
        entered[target] = True
    back = [False] * len(edges)
    state = [0] * count  # 0 unseen, 1 on the current path, 2 done
    for root in sorted(range(count), key=lambda v: (entered[v], v)):
        if state[root]:
            continue
        state[root] = 1
        path = [(root, iter(leaving[root]))]
        while path:
            vertex, rest = path[-1]
            edge = next(rest, None)
            if edge is None:
                state[vertex] = 2
                path.pop()
                continue
            target = edges[edge][1]
            if state[target] == 1:
                back[edge] = True
            elif state[target] == 0:
                state[target] = 1
                path.append((target, iter(leaving[target])))
    return back


def _ranks(count: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """The longest path from a source; sources then move right, next to their consumers."""
    before: list[list[int]] = [[] for _ in range(count)]
    after: list[list[int]] = [[] for _ in range(count)]
    for source, target in edges:
        after[source].append(target)
        before[target].append(source)
    rank, waiting = [0] * count, [len(b) for b in before]
    ready = [vertex for vertex in range(count) if not waiting[vertex]]
    for vertex in ready:
        for target in after[vertex]:
            rank[target] = max(rank[target], rank[vertex] + 1)
            waiting[target] -= 1
            if not waiting[target]:
                ready.append(target)
    for vertex in range(count):
        if not before[vertex] and after[vertex]:
            rank[vertex] = min(rank[target] for target in after[vertex]) - 1
    return rank


def _least_crossings(layers: list[list[int]], links: list[list[tuple[int, int]]], items: int) -> list[list[int]]:
    """The best order found by the barycentre heuristic, sweeping in both directions until it stops improving."""
    before: list[list[int]] = [[] for _ in range(items)]
    after: list[list[int]] = [[] for _ in range(items)]
    for between in links:
        for a, b in between:
            after[a].append(b)
            before[b].append(a)
    place = [0.0] * items

    def settle(layer: list[int]) -> None:
        for i, item in enumerate(layer):
            place[item] = float(i)

    for layer in layers:
        settle(layer)
    best, fewest, fruitless = [list(layer) for layer in layers], _crossings(links, place), 0
    for sweep in range(24):
        if not fewest or fruitless == 4:
            break
        numbers = range(1, len(layers)) if sweep % 2 == 0 else range(len(layers) - 2, -1, -1)
        near = before if sweep % 2 == 0 else after
        for number in numbers:
            layer = layers[number]
            pull = {v: sum(place[k] for k in near[v]) / len(near[v]) if near[v] else place[v] for v in layer}
            layer.sort(key=lambda v: (pull[v], place[v]))
            settle(layer)
        crossings = _crossings(links, place)
        fruitless += 1
        if crossings < fewest:
            best, fewest, fruitless = [list(layer) for layer in layers], crossings, 0
    return best


def _crossings(links: list[list[tuple[int, int]]], place: list[float]) -> int:
    total = 0
    for between in links:
        seen: list[float] = []
        for _, b in sorted((place[a], place[b]) for a, b in between):
            total += len(seen) - bisect_right(seen, b)
            insort(seen, b)
    return total
