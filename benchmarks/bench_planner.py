"""Planning: exact and proven on the published topologies over the whole range of bounds, and how far it scales."""

import statistics
import time
from collections.abc import Iterable, Iterator

from benchmarks.harness import Result, at_most, reported, seconds
from riprap.base.clock import SystemClock
from riprap.planner.exact import solve
from riprap.planner.problem import problem
from riprap.planner.published_dag import dag
from riprap.planner.topology import Topology
from riprap_papers.published.backup_tables import bounds
from riprap_papers.published.topologies import SECOND, layered, signal_guru, twitter_sentiment

ROUNDS = 3
PUBLISHED_HEURISTIC = {"TwitterSentiment(50,20,20)": 0.287, "TwitterSentiment(30,30,30)": 0.501, "SignalGuru": 0.020}


def run() -> Iterable[Result]:
    # The first solve imports the solver; imports are not measured.
    solve(problem(signal_guru(), 3 * SECOND))
    yield from _every_bound(twitter_sentiment(50, 20, 20), twitter_sentiment(50, 20, 20, heaviest=10), 100)
    yield from _every_bound(twitter_sentiment(30, 30, 30), twitter_sentiment(30, 30, 30, heaviest=10), 100)
    yield from _every_bound(signal_guru(), signal_guru(heaviest=10), 250)
    yield from _million_edges()
    yield from _layered()
    yield from _large()


def _every_bound(uniform: Topology, other: Topology, bar_ms: float) -> Iterator[Result]:
    slowest, proven, asked_for, ours, theirs = 0.0, 0, 0, 0, 0
    for topology in (uniform, other):
        for bound in bounds(topology):
            asked = problem(topology, bound * SECOND)
            slowest = max(slowest, statistics.median(seconds(lambda: solve(asked)) for _ in range(ROUNDS)))  # noqa: B023
            found = solve(asked)
            proven += found.optimal
            asked_for += 1
            ours += found.cost
            theirs += dag(asked).cost
    name = uniform.name
    how = f"slowest bound of {asked_for} (T = 1, and T in 1..10), median of {ROUNDS}"
    yield at_most(f"plan {name}, exact", slowest * 1000, bar_ms, how, "ms")
    yield Result(
        f"plan {name}, proven optimal", proven / asked_for, "", "≥ 1", proven == asked_for, f"of {asked_for} bounds"
    )
    yield reported(
        f"plan {name}, exact against the published heuristic's time", PUBLISHED_HEURISTIC[name] / slowest, "×",
        "published time of the heuristic over our slowest exact time (another machine)",
    )  # fmt: skip
    how = "backups of our reading of it over those of the optimum, all bounds together"
    yield reported(f"plan {name}, heuristic above optimum", (theirs / ours - 1) * 100, "%", how)


def _million_edges() -> Iterator[Result]:
    slowest, proven = 0.0, True
    for topology in (twitter_sentiment(1000, 1000, 1000), twitter_sentiment(1000, 1000, 1000, heaviest=10)):
        some = bounds(topology)
        for bound in some[:: max(1, len(some) // 6)]:
            # From the topology to the plan: the bounds, the sweep over the edges and the solution.
            taken = [
                seconds(lambda: solve(problem(topology, bound * SECOND)))  # noqa: B023
                for _ in range(ROUNDS)
            ]
            slowest = max(slowest, statistics.median(taken))
            proven &= solve(problem(topology, bound * SECOND)).optimal
    how = f"3,003 tasks, 1,005,000 edges; slowest of a dozen bounds, median of {ROUNDS}; all proven: {proven}"
    yield at_most("plan TwitterSentiment(1000,1000,1000), exact", slowest if proven else float("inf"), 1.0, how, "s")


class CpuClock(SystemClock):
    """Time limits in seconds of this process, so that a busy machine does not shorten them."""

    def monotonic(self) -> float:
        return time.process_time()


def _layered() -> Iterator[Result]:
    for heaviest in (1, 10):
        gaps, walls, cpu = [], [], []
        for inputs in (2, 3):
            topology = layered(20, 50, most_inputs=inputs, heaviest=heaviest)
            some = bounds(topology)
            for eighth in (1, 2, 3, 4, 6):
                asked = problem(topology, some[len(some) * eighth // 8] * SECOND)
                begun = time.process_time()
                walls.append(seconds(lambda: gaps.append(solve(asked, time_limit=10.0, clock=CpuClock()).gap)))  # noqa: B023
                cpu.append(time.process_time() - begun)
        kind = "T = 1" if heaviest == 1 else "T in 1..10"
        how = (
            f"20 layers of 50 tasks, 1–2 and 1–3 inputs each, 5 bounds each, {kind}; slowest {max(cpu):.1f} s of CPU, "
            f"{max(walls):.1f} s of time"
        )
        yield reported(f"plan 1,000 random layered tasks, {kind}, worst gap", max(gaps) * 100, "%", how)
        met = sum(gap <= 0.01 for gap in gaps)
        name = f"plan 1,000 random layered tasks, {kind}, gap ≤ 1 %"
        yield Result(name, met, "cases", "≥ 8", met >= 8, f"of {len(gaps)} cases, in 10 s of CPU each")


def _large() -> Iterator[Result]:
    topology = layered(100, 1000, heaviest=10)
    for bound in (20, 60):
        found = []
        taken = seconds(
            lambda: found.append(solve(problem(topology, bound * SECOND), time_limit=20.0, clock=CpuClock()))  # noqa: B023
        )
        how = f"{len(topology.edges):,} edges, R = {bound} s, T in 1..10; R met exactly; 20 s of CPU, {taken:.0f} s"
        yield at_most(f"plan 100,000 tasks, R = {bound} s, gap", found[0].gap * 100, 10.0, how, "%")
