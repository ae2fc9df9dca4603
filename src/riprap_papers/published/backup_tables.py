"""The repeated evaluation of backup plans: the published topologies over the whole range of bounds.

Published are, per case, the times of four algorithms and the average excess of the heuristic and of the share-based
comparison over the optimum. Sizes of the lines and trees, the wiring of SignalGuru and the drawn latencies are not
published: ours are stated in `topologies`. Bounds run from the slowest task to the longest path, in whole seconds.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from riprap.base.clock import SYSTEM_CLOCK, Clock
from riprap.base.quantities import Duration
from riprap.planner.backup_plan import row
from riprap.planner.exact import solve
from riprap.planner.problem import problem
from riprap.planner.published_dag import dag
from riprap.planner.published_share import share
from riprap.planner.topology import Topology
from riprap_papers.published.topologies import SECOND, line, signal_guru, tree, twitter_sentiment


@dataclass(frozen=True)
class PublishedBackups:
    """Seconds, and average backups above the optimum (None: not published)."""

    exhaust: float
    dag: float
    share: float
    dag_excess: float | None = None
    share_excess: str = ""


@dataclass(frozen=True)
class BackupCase:
    name: str
    topology: Topology
    published: PublishedBackups


def cases() -> list[BackupCase]:
    def both(
        name: str, uniform: Topology, other: Topology, u: PublishedBackups, n: PublishedBackups
    ) -> list[BackupCase]:
        return [BackupCase(f"{name}-u", uniform, u), BackupCase(f"{name}-n", other, n)]

    return [
        *both("Line", line(3, 5), line(3, 5, heaviest=10), PublishedBackups(0.054, 0.0012, 0.010, 0.0, "21–43 %"),
              PublishedBackups(0.057, 0.0015, 0.010, 0.0, "21–43 %")),
        *both("Tree", tree(24), tree(24, heaviest=10), PublishedBackups(0.892, 0.0016, 0.010, 0.0, "21–43 %"),
              PublishedBackups(0.904, 0.0018, 0.010, 0.0, "21–43 %")),
        *both("Guru", signal_guru(), signal_guru(heaviest=10), PublishedBackups(1.16, 0.020, 0.008, 0.03),
              PublishedBackups(1.21, 0.023, 0.010, 0.10)),
        *both("Senti-560", twitter_sentiment(50, 20, 20), twitter_sentiment(50, 20, 20, heaviest=10),
              PublishedBackups(12.34, 0.287, 0.028, 0.04), PublishedBackups(12.34, 0.287, 0.028, 0.04)),
        *both("Senti-1050", twitter_sentiment(30, 30, 30), twitter_sentiment(30, 30, 30, heaviest=10),
              PublishedBackups(108.22, 0.501, 0.029, 0.04), PublishedBackups(108.22, 0.501, 0.029, 0.04)),
    ]  # fmt: skip


def bounds(topology: Topology) -> range:
    """Every useful bound, in seconds: from the slowest task to the longest path."""
    longest = problem(topology, Duration(int(topology.latency.sum()) + 1)).latency(np.zeros(topology.size, bool)).max()
    return range(int(topology.latency.max()) // SECOND, int(longest) // SECOND + 1)


def reproduce(case: BackupCase, clock: Clock = SYSTEM_CLOCK) -> Iterator[dict[str, Any]]:
    """One row per bound: the backups of the exact plan, of the heuristic and of the share-based comparison."""
    published = vars(case.published)
    for bound in bounds(case.topology):
        asked = problem(case.topology, Duration(bound * SECOND))
        started = clock.monotonic()
        exact = solve(asked)
        took = clock.monotonic() - started
        found = row(case.name, bound, exact, took, published)
        for name, algorithm in (("dag", dag), ("share", share)):
            started = clock.monotonic()
            other = algorithm(asked)
            found |= {name: int(other.backups.sum()), f"{name}_seconds": round(clock.monotonic() - started, 6)}
        yield found


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Summary of a case: the excess of backups over the optimum, of all bounds together, and the slowest plans."""

    def excess(name: str) -> float:
        return sum(found[name] for found in rows) / max(1, sum(found["backups"] for found in rows)) - 1

    return {
        "case": rows[0]["case"],
        "bounds": len(rows),
        "proven": sum(found["optimal"] for found in rows),
        "slowest": max(found["seconds"] for found in rows),
        "dag_excess": round(excess("dag"), 4),
        "share_excess": round(excess("share"), 4),
        "dag_slowest": max(found["dag_seconds"] for found in rows),
        "published": rows[0]["published"],
    }
