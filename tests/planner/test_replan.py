"""Planning again: as cheap as from scratch, and no other plan of that cost changes less."""

from itertools import combinations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.planner.strategies import bounded

from riprap.planner.exact import solve
from riprap.planner.problem import problem
from riprap.planner.replan import replan
from riprap_papers.published.topologies import SECOND, twitter_sentiment


@settings(max_examples=100)
@given(bounded(most=8), st.sets(st.integers(0, 7)))
def test_fewest_changes_among_the_cheapest(case, existing):
    graph, bound = case
    had = {task for task in existing if task < graph.size}
    asked = problem(graph, bound * SECOND)
    change = replan(asked, [f"t{task}" for task in existing])
    cost = solve(asked).cost
    assert change.solution.cost == cost
    assert change.solution.optimal
    plans = []
    for chosen in combinations(range(graph.size), cost):
        backups = np.zeros(graph.size, bool)
        backups[list(chosen)] = True
        if asked.is_met(backups):
            plans.append(set(chosen))
    assert len(change.added) + len(change.removed) == min(len(plan ^ had) for plan in plans)


def test_after_rescaling_the_old_backups_stay():
    before = twitter_sentiment(20, 6, 10)
    old = solve(problem(before, 2 * SECOND))
    names = [before.tasks[task] for task in np.flatnonzero(old.backups)]
    after = twitter_sentiment(20, 8, 10)
    change = replan(problem(after, 2 * SECOND), names)
    assert change.removed == ()
    assert change.added == ("Filter7", "Filter8")
