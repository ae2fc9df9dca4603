"""Cover sets of backups, as published."""

from dataclasses import dataclass

import numpy as np

from riprap.planner.topology import Topology


@dataclass(frozen=True)
class Covers:
    """Which backups a recovering task reads its input from, and which tasks read from a backup.

    `forward[u]`: the tasks that backup u f-covers, those that u reaches over tasks without a backup (the last one
    may be a backup). `backward[u]`: the tasks that u b-covers, those without a backup that reach u over such tasks, and
    the backups where such paths start. `upstream[v]`: the upstream cover set C(v), the backups that f-cover v.
    """

    forward: dict[int, frozenset[int]]
    backward: dict[int, frozenset[int]]
    upstream: dict[int, frozenset[int]]


def covers(topology: Topology, backups: np.ndarray) -> Covers:
    after: list[list[int]] = [[] for _ in range(topology.size)]
    before: list[list[int]] = [[] for _ in range(topology.size)]
    for source, target in topology.forward.tolist():
        after[source].append(target)
        before[target].append(source)
    backup_tasks = [int(task) for task in np.flatnonzero(backups)]
    forward = {task: _reach(task, after, backups) for task in backup_tasks}
    backward = {task: _reach(task, before, backups) for task in backup_tasks}
    upstream: dict[int, set[int]] = {task: set() for task in range(topology.size)}
    for backup, reached in forward.items():
        for task in reached:
            upstream[task].add(backup)
    return Covers(forward, backward, {task: frozenset(covering) for task, covering in upstream.items()})


def _reach(start: int, neighbours: list[list[int]], backups: np.ndarray) -> frozenset[int]:
    reached: set[int] = set()
    pending = list(neighbours[start])
    while pending:
        task = pending.pop()
        if task not in reached:
            reached.add(task)
            if not backups[task]:
                pending.extend(neighbours[task])
    return frozenset(reached)
