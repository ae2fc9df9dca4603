"""A lower bound for graphs too large for a linear program: ways that are too long and have no task in common."""

from riprap.planner.reductions import Core


def packed_bound(core: Core) -> int:
    """Ways that are too long and share no task (but the last): each needs k backups of its own.

    One pass from the sources: every task knows the longest way to it over tasks not yet in a chosen way; where that is
    too long, the way is taken and its tasks are used up.
    """
    latency, bound, cost = core.latency.tolist(), core.bound.tolist(), core.cost.tolist()
    before: list[list[int]] = [[] for _ in range(core.size)]
    for source, target in core.edges.tolist():
        before[target].append(source)
    used = [False] * core.size
    back = [-1] * core.size  # the task before on the longest way
    total = 0
    for v in range(core.size):
        best, length = -1, 0
        for u in before[v]:
            if not used[u]:
                through = _unused_length(u, back, used, latency)
                if through > length:
                    best, length = u, through
        back[v] = best
        if length + latency[v] > bound[v]:
            way, so_far, u = [], latency[v], best
            while so_far <= bound[v]:
                way.append(u)
                so_far += latency[u]
                u = back[u]
            for u in way:
                used[u] = True
            total += sum(sorted(cost[u] for u in way)[: core.failures])
            back[v] = -1
    return total


def _unused_length(u: int, back: list[int], used: list[bool], latency: list[int]) -> int:
    length = 0
    while u >= 0 and not used[u]:
        length += latency[u]
        u = back[u]
    return length
