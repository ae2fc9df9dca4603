"""Obvious, slow definitions that the planner is held to. They share no code with it."""

from functools import cache
from itertools import combinations


def all_ways(size, edges):
    """Every way (path) of an acyclic graph as a tuple of tasks."""
    after = [[] for _ in range(size)]
    for source, target in edges:
        after[source].append(target)

    @cache
    def ways_from(task):
        return ((task,), *((task, *way) for follower in after[task] for way in ways_from(follower)))

    return [way for task in range(size) for way in ways_from(task)]


def recovery(size, edges, latency, backups, failures=1):
    """L(v): the longest ΣT over ways to v with fewer than `failures` backups before v."""
    longest = [0] * size
    for way in all_ways(size, edges):
        if sum(task in backups for task in way[:-1]) < failures:
            longest[way[-1]] = max(longest[way[-1]], sum(latency[task] for task in way))
    return longest


def cheapest(size, edges, latency, bound, cost, must=(), must_not=(), failures=1):
    """The least cost of backups that put `failures` of them on every way that is too long; None if there are none."""
    long = {frozenset(way[:-1]) for way in all_ways(size, edges) if sum(latency[task] for task in way) > bound[way[-1]]}
    best = None
    for count in range(size + 1):
        for chosen in combinations(range(size), count):
            backups = set(chosen)
            if not set(must) <= backups or backups & set(must_not):
                continue
            if all(len(way & backups) >= failures for way in long):
                total = sum(cost[task] for task in backups)
                best = total if best is None else min(best, total)
        if best is not None and len(set(cost)) == 1:
            return best
    return best
