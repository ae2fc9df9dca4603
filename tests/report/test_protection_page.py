"""The page of a protection: what was asked for, what was measured, and what is in the way, in the user's words."""

import json
from dataclasses import replace
from pathlib import Path

from tests.planner.test_technique_options import SECOND, effects, measured, shop

from riprap.faults.harm_ranks import HarmMetrics, RankInterval
from riprap.planner.cheapest import cheapest
from riprap.planner.costs import Cost
from riprap.planner.protection_problem import Line, ProtectionProblem
from riprap.planner.sink_effects import SinkEffect, read_effects, write_effects
from riprap.planner.slo import Slo
from riprap.planner.technique_options import technique_problem
from riprap.proof.kill_outcomes import (
    KillOutcome,
    accuracy,
    line_results,
    predicted,
    worse_cases,
)
from riprap.proof.protection_results import Infeasible, Protection, ProtectionRound
from riprap.report.protect import effect_words, protection_report, verdict

SLO = Slo(recovery="10s", wrong="10%")


def problem(slo: Slo) -> ProtectionProblem:
    return technique_problem(shop(), measured(shop()), effects(), slo, intervals=[SECOND])


def protection(*kills: KillOutcome) -> Protection:
    graph, asked = shop(), problem(SLO)
    best = cheapest(asked)
    assert best is not None
    ahead = predicted(graph, measured(graph), effects(), best, 1.0)
    lines = tuple(line_results(graph, asked, best, kills))
    from riprap.api.protection_proof import plan_of

    proven = ProtectionRound(
        plan_of(graph, best), best, ahead, kills, lines, accuracy(ahead, kills), Cost(0.02), Cost(0.03)
    )
    return Protection(
        graph, SLO, measured(graph), effects(), (proven,), asked, 1.0, 40.0, 10**9, {"backups": None}, (), None, None,
        Path("protection"),
    )  # fmt: skip


def test_lines_are_kept_until_a_kill_breaks_one():
    found = protection(KillOutcome("Totals", False, 2.0), KillOutcome("Clean", False, 1.0))
    assert found.kept
    assert verdict(found).startswith("All 2 lines were kept in a proof with 2 kills")
    found = protection(KillOutcome("Totals", False, 2.0, damage={"Out": SinkEffect(300_000, 5_000_000)}))
    assert not found.kept
    assert "Out: rows missing or wrong: 30 %" in verdict(found)
    page = protection_report(found)
    assert "missed" in page
    assert "checkpoint every 1s" in page
    assert "without Totals" in page


def test_a_kill_that_was_not_injected_shows_nothing():
    found = protection(KillOutcome("Totals", False, None, missed="it had ended"))
    assert [line.measured for line in found.last.lines] == [None, None]  # type: ignore[union-attr]


def test_ranks_have_intervals_and_researchers_have_their_table(tmp_path):
    metrics = HarmMetrics("Totals", "Out", -0.93, 0.0417, 1_500_000, 2.25, RankInterval(1, 1, 3))
    ranks = {"Totals": RankInterval(1, 1, 2), "Clean": RankInterval(2, 1, 2)}
    write_effects(replace(effects(), ranks=ranks, metrics=(metrics,)), tmp_path / "effects.json")
    known = read_effects(tmp_path / "effects.json")
    assert (known.ranks, known.metrics) == (ranks, (metrics,))
    found = replace(protection(), effects=known)
    page = protection_report(found)
    assert "1 (1–2)" in page
    for cell in ("-0.93", "0.0417", "2.25", "1 (1–3)"):
        assert f">{cell}</td>" in page
    assert "For researchers" not in protection_report(protection())
    document = json.loads(json.dumps(found.to_json()))
    assert document["ranks"]["Clean"] == {"rank": 2, "low": 1, "high": 2}
    assert (document["metrics"][0]["R"], document["metrics"][0]["rank"]["high"]) == (1_500_000, 3)


def test_what_broke_a_line_is_planned_for_again():
    asked = problem(SLO)
    best = cheapest(asked)
    assert best is not None
    kill = KillOutcome("Totals", False, 2.0, damage={"Out": SinkEffect(300_000, 5_000_000)})
    assert worse_cases(shop(), asked, best, [kill])
    assert not worse_cases(shop(), asked, best, [KillOutcome("Totals", False, 2.0)])


def test_objectives_that_cannot_be_met_name_the_line_and_its_nearest_value():
    asked = problem(Slo(recovery="1s"))
    assert cheapest(asked) is None
    line = Line("Out", "recovery")
    found = Protection(
        shop(), Slo(recovery="1s"), measured(shop()), effects(), (), asked, 1.0, 40.0, 10**9, {}, (), None,
        Infeasible((line,), {line: (2_500_000, 7)}), Path("protection"),
    )  # fmt: skip
    assert not found.kept
    page = protection_report(found)
    assert "2500ms" in page or "2.5" in page
    assert "cannot be met: Out: time until up to date is in the way" in page


def test_damage_is_in_the_words_of_the_user():
    assert effect_words("Campaigns", SinkEffect(380_000, 480_000_000)) == "38 % of Campaigns' rows for 8m"
