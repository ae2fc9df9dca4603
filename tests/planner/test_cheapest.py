"""The planner over techniques, against brute force that computes every outcome from the objectives in its own words."""

import itertools
import random
from dataclasses import replace

import pytest

from riprap.planner.cheapest import cheapest, conflict, curve, nearest, only
from riprap.planner.protection_problem import (
    AVAILABILITY,
    FailureCase,
    Line,
    OperatorChoices,
    ProtectionProblem,
    TechniqueOption,
)
from riprap.planner.sink_effects import SinkEffect
from riprap.planner.slo import SinkSlo

CASES = 1_000


def drawn(seed: int) -> ProtectionProblem:
    """A small random problem: two to four operators, one or two sinks."""
    draw = random.Random(seed)
    count, sinks = draw.randint(2, 4), ["s", "t"][: draw.randint(1, 2)]
    names = "abcd"[:count]
    operators = {}
    for at, name in enumerate(names):
        reached = frozenset(sink for sink in sinks if draw.random() < 0.8)
        upstream = tuple(other for other in names[:at] if draw.random() < 0.6)

        def case() -> FailureCase:
            effects = {
                sink: SinkEffect(
                    draw.choice((0, 5, 20, 50)), draw.choice((0, 3, 9)), draw.choice((100, 80, 40)) * 10_000
                )
                for sink in reached  # noqa: B023
                if draw.random() < 0.7
            }
            return FailureCase(draw.randint(0, 9), draw.randint(0, 9), effects, draw.random() < 0.6)

        options = [TechniqueOption("none", None, 0, cases(draw, case))]
        if draw.random() < 0.5:
            options.append(TechniqueOption("checkpoint", 1, draw.randint(0, 9), cases(draw, case)))  # type: ignore[arg-type]
        if draw.random() < 0.5:
            alone = {(replayed, False): case() for replayed in (False, True)}
            without = TechniqueOption("none", None, 0, {key: case() for key in alone})
            options.append(TechniqueOption("ha_group", None, draw.randint(0, 9), alone, without))
        backup = draw.randint(0, 9) if draw.random() < 0.8 else None
        operators[name] = OperatorChoices(name, upstream, reached, tuple(options), backup)
    slo = {}
    for sink in sinks:
        asked = {
            "recovery": draw.randint(3, 9),
            "wrong": draw.choice((0, 5, 20, 60)),
            "wrong_for": draw.choice((0, 3, 9)),
            "exactly_once": True,
            "score_at_least": draw.choice((100, 80, 40, 0)) * 10_000,
        }
        share = {"exactly_once": 0.1}
        slo[sink] = SinkSlo(**{k: v for k, v in asked.items() if draw.random() < share.get(k, 0.5)})  # type: ignore[arg-type]
    together = tuple(frozenset(draw.sample(names, 2)) for _ in range(draw.randint(0, 1)))
    grouped = {name: frozenset(draw.sample(names, draw.randint(0, 1))) | {name} for name in names}
    must = frozenset(name for name in names if draw.random() < 0.1)
    unavailable = draw.choice((None, draw.randint(0, 20)))
    return ProtectionProblem(
        "app", operators, slo, unavailable, 1_000_000, together, draw.random() < 0.2, grouped, must
    )


def cases(draw: random.Random, case) -> dict[tuple[bool, bool], FailureCase]:  # type: ignore[no-untyped-def]
    every = [(replayed, backup) for replayed in (False, True) for backup in (False, True)]
    return {key: case() for key in every if draw.random() < 0.9}


def brute_force(problem: ProtectionProblem) -> int | None:
    """The lowest price of any choice that meets every line; None: none does."""
    names = list(problem.operators)
    choices = [
        [(option, backup) for option in problem.operators[name].options for backup in (False, True)] for name in names
    ]
    prices = [
        price
        for picks in itertools.product(*choices)
        if (price := _price(problem, dict(zip(names, picks, strict=True)))) is not None
    ]
    return min(prices, default=None)


def _price(problem: ProtectionProblem, picks) -> int | None:  # type: ignore[no-untyped-def]
    total, alone, hosted = 0, {}, {}
    for name, (option, backup) in picks.items():
        own = problem.operators[name]
        replayed = all(picks[before][1] for before in own.upstream)
        if backup and own.backup is None:
            return None
        if (replayed, backup) not in option.cases:
            return None
        alone[name] = option.cases[replayed, backup]
        hosted[name] = (option.unreplicated or option).cases[replayed, backup]
        total += option.price
        if backup:
            total += own.backup
        if name in problem.must and not backup and option.technique != "ha_group":
            return None
        if option.technique == "ha_group":
            for other in problem.grouped[name]:
                if picks[other][0].technique != "ha_group":
                    return None
    if problem.unavailable is not None:
        down = sum(case.down for case in alone.values())
        if down * 1_000_000 > problem.unavailable * problem.mtbf:
            return None
    failures = [[(name, case)] for name, case in alone.items()]
    failures += [[(name, alone[name]) for name in names] for names in problem.sets]
    if problem.host:
        failures.append(list(hosted.items()))
    for failed in failures:
        for sink, slo in problem.slo.items():
            hit = [case for name, case in failed if sink in problem.operators[name].sinks]
            effects = [case.effects[sink] for case in hit if sink in case.effects]
            if slo.recovery is not None and any(case.recovery > slo.recovery for case in hit):
                return None
            if slo.wrong is not None and min(sum(effect.wrong for effect in effects), 1_000_000) > slo.wrong:
                return None
            if slo.wrong_for is not None and any(effect.wrong_for > slo.wrong_for for effect in effects):
                return None
            lost = sum(1_000_000 - effect.score for effect in effects)
            if slo.score_at_least is not None and max(1_000_000 - lost, 0) < slo.score_at_least:
                return None
            if slo.exactly_once and not all(case.exact for case in hit):
                return None
    return total


@pytest.mark.parametrize("block", range(10))
def test_the_solver_finds_the_cheapest_choice(block: int) -> None:
    feasible = 0
    for seed in range(block * CASES // 10, (block + 1) * CASES // 10):
        problem = drawn(seed)
        found, expected = cheapest(problem), brute_force(problem)
        assert (None if found is None else found.price) == expected, f"seed {seed}"
        feasible += expected is not None
    assert feasible > CASES // 50  # else the cases would test nothing


def test_lines_in_conflict_cannot_be_met_and_become_so_without_any_one() -> None:
    tried = 0
    for seed in range(60):
        problem = drawn(seed)
        if brute_force(problem) is not None or brute_force(only(problem, [])) is None:
            continue
        tried += 1
        lines = conflict(problem)
        assert lines
        assert brute_force(only(problem, lines)) is None
        for line in lines:
            assert brute_force(only(problem, [other for other in lines if other != line])) is not None
    assert tried > 5


def test_the_nearest_value_can_be_met_and_no_closer_one_can() -> None:
    tried = 0
    for seed in range(60):
        problem = drawn(seed)
        if brute_force(problem) is not None:
            continue
        for line in problem.lines:
            found = nearest(problem, line)
            if found is None:
                assert brute_force(problem.with_line(line, None)) is None
                continue
            tried += 1
            value, outcome = found
            assert brute_force(problem.with_line(line, value)) == outcome.price
            if line.name != "exactly_once":
                closer = value + 1 if line.name == "score_at_least" else value - 1
                assert brute_force(problem.with_line(line, closer)) is None
    assert tried > 5


def test_the_curve_has_the_lowest_price_of_every_value() -> None:
    for seed in range(60):
        problem = drawn(seed)
        for line in problem.lines:
            if line.name in ("exactly_once", AVAILABILITY):
                continue
            steps = curve(problem, line)
            for value, price in steps:
                assert brute_force(problem.with_line(line, value)) == price
            prices = [price for _, price in steps]
            assert prices == sorted(set(prices))
            if steps and line.name != "score_at_least" and steps[-1][0] > 0:
                assert brute_force(problem.with_line(line, steps[-1][0] - 1)) is None


def test_measures_that_no_line_needs_are_left_out() -> None:
    free = TechniqueOption("checkpoint", 1, 0, {(True, backup): FailureCase(1, 1) for backup in (False, True)})  # type: ignore[arg-type]
    none = replace(free, technique="none", interval=None)
    problem = ProtectionProblem(
        "app",
        {"a": OperatorChoices("a", (), frozenset("s"), (none, free), 0)},
        {"s": SinkSlo(recovery=5)},  # type: ignore[arg-type]
    )
    found = cheapest(problem)
    assert found is not None
    assert found.chosen["a"] == (none, False)
    assert found.values[Line("s", "recovery")] == (1, ("a",))
