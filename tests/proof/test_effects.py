"""What a fault did to the output, and what was foreseen of it."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from riprap.apps.bargain_discovery import build
from riprap.base.quantities import Duration
from riprap.faults.scoring import parse_score
from riprap.graph.annotations import Annotations
from riprap.planner.assessment_file import LOST, AssessedApp, OperatorImpact, RecoveryTimes
from riprap.proof.effects import ErrorSettings, FaultEffect, InjectedFault, measured, sections
from riprap.proof.expected_effects import effect_predictor, orders
from riprap.proof.oracle import SinkRows, difference
from riprap.proof.schedule import ScheduledFault

SCHEMA = pa.schema([("gain", pa.float64()), ("_ts", pa.timestamp("us", "UTC")), ("_seq", pa.int64())])
SECOND = 1_000_000


def rows(gains):
    """One a tenth of a second."""
    numbers = np.arange(len(gains))
    ts = pa.array(numbers * 100_000, pa.timestamp("us", "UTC"))
    return pa.table([pa.array(gains, pa.float64()), ts, pa.array(numbers)], schema=SCHEMA)


def effects(found, struck, expected=None, judging=None):
    """At ten tuples a second, in sections of ten: a section is a second of the run, and of event time."""
    expected = rows([1.0] * 100) if expected is None else expected
    cut = sections([np.arange(100) * 100_000], 10, 10.0)
    assert cut.seconds == pytest.approx(1.0)
    judging = replace(judging or ErrorSettings(), section=10)
    score = parse_score("sum(gain)", SCHEMA, "Sink")
    differing = difference(expected, SinkRows(found))[1]
    return measured(struck, cut, judging, {"Sink": score}, {"Sink": expected}, {"Sink": found}, {"Sink": differing})


def test_losses_between_two_faults_are_the_first_ones():
    expected = rows([1.0] * 100)
    found = expected.take(pa.array([at for at in range(100) if not 23 <= at < 38]))  # 7 of section 2, 8 of section 3
    first, second = effects(found, [InjectedFault(2.0, 3.5), InjectedFault(6.0, 6.4)])
    assert first is not None
    assert second is not None
    assert (first.lost, first.tainted, first.recovery) == (15, 0, 2)
    assert first.impact == pytest.approx(0.7**2 + 0.8**2)
    assert first.quality == pytest.approx(5 / 20)
    assert first.availability == pytest.approx(1 - 2 / 4)
    assert second == FaultEffect(1.0, 0.0, 0.0, 0, 1 - 1 / 4, 0)


def test_wrong_values_taint():
    gains = [1.0] * 100
    gains[41] = 2.0
    (effect,) = effects(rows(gains), [InjectedFault(4.0, 4.1)])
    assert effect is not None
    assert (effect.lost, effect.tainted, effect.recovery) == (0, 1, 1)
    assert effect.impact == pytest.approx(0.01)
    assert effect.quality == pytest.approx(1.1)
    (under,) = effects(
        rows([1.0 if at != 41 else 0.0 for at in range(100)]), [InjectedFault(4.0, 4.1)], None, ErrorSettings(over=True)
    )
    assert under is not None
    assert (under.recovery, under.impact, under.tainted) == (0, 0.0, 1)


def test_who_never_comes_back_is_never_available():
    (effect,) = effects(rows([1.0] * 100), [InjectedFault(5.0, None)])
    assert effect is not None
    assert effect.availability == 0.0


def test_faults_within_one_section_cannot_be_told_apart():
    assert effects(rows([1.0] * 100), [InjectedFault(5.1, 5.2), None, InjectedFault(5.5, 5.6)])[:2] == [None, None]


def test_what_is_foreseen_of_a_kill():
    graph = build()
    graph = graph.with_operator(
        replace(graph["Aggregator"], annotations=Annotations(checkpoint_every=Duration(2 * SECOND)))
    )
    members = {name: (name,) for name in ("Aggregator", "VWAP", "TradeFilter", "BargainIndex", "Sink")}
    by_age = {Duration(0): ((Duration(SECOND), 2.0),), Duration(4 * SECOND): ((Duration(SECOND), 6.0),)}
    quality = {Duration(0): ((Duration(SECOND), 0.8),), Duration(4 * SECOND): ((Duration(SECOND), 0.4),)}
    operators = {
        "Aggregator": OperatorImpact(1.0, by_age, quality=quality, recovery=by_age),
        "BargainIndex": OperatorImpact(1.0, {LOST: ((Duration(SECOND), 9.0),)}),
    }
    asked = []

    def modelled(names, outage, seconds):
        asked.append((names, outage, seconds))
        return 42.0, 0.9

    assessment = AssessedApp(graph.name, operators, RecoveryTimes(restart=Duration(500_000)))
    foresee = effect_predictor(
        graph, members, {"VWAP"}, assessment, modelled, restart=1.0, recovery={"VWAP": 3.0, "Aggregator": None}
    )
    assert foresee(ScheduledFault(0, "kill", ("VWAP",)), 8.0) == FaultEffect(1.0, 0.0, 0.0, 0.0, 0.5, 0.0)
    assert asked == []
    killed = foresee(ScheduledFault(0, "kill", ("Aggregator",)), 8.0)
    assert killed == FaultEffect(pytest.approx(0.6), pytest.approx(4.0), pytest.approx(4.0), 42.0, 0.9)
    assert asked == [(("Aggregator",), 1.0, 8.0)]
    assert foresee(ScheduledFault(0, "kill", ("TradeFilter",)), 8.0) == FaultEffect(
        None, None, None, 42.0, 0.9
    )  # not assessed
    worst = foresee(ScheduledFault(0, "several", ("Aggregator", "BargainIndex", "Sink")), 8.0)
    assert worst is not None
    assert (worst.impact, worst.quality) == (9.0, None)
    assert asked[-1][0] == ("Aggregator", "BargainIndex")
    assert foresee(ScheduledFault(0, "slow", ("Aggregator",)), 8.0) is None
    without = effect_predictor(graph, members, {"VWAP"}, assessment, modelled, restart=None, recovery={})
    assert without(ScheduledFault(0, "kill", ("VWAP",)), 5.0).availability == pytest.approx(0.9)


def test_orders_of_elements():
    def effect(impact, tainted, lost=0.0):
        return FaultEffect(1.0, impact, impact, tainted, None, lost)

    found = orders(
        [
            ("A", effect(1, 30), effect(2, 0, 5)),
            ("B", effect(2, 20), effect(4, 0, 3)),
            ("B", effect(2, 20), effect(5, 0, 4)),
            ("C", effect(3, 10), effect(9, 0, 1)),
            ("D", None, effect(9, 9)),
        ]
    )
    assert found["I: assessment, kills"] == pytest.approx(1.0)
    assert found["tainted tuples of the model, rows wrong or lost by kills"] == pytest.approx(1.0)
    assert found["tainted tuples of the model, I of the assessment"] == pytest.approx(-1.0)
    assert found["availability: model, kills"] is None
