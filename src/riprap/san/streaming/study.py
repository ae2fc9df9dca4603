"""A study: scenarios, replicated until the results are precise enough and compared with their fault-free runs."""

from collections.abc import Mapping
from dataclasses import dataclass

from riprap.san.replicate import Runner, replicate
from riprap.san.statistics import Estimate, Precision, estimate
from riprap.san.streaming.scenario import AVAILABILITY, WITHOUT_PROPAGATION, Method, ModelScenario, delivered, tainted


@dataclass(frozen=True)
class SinkAnswer:
    """Tuples that one sink stores. `share`: tainted tuples relative to the tuples stored without faults."""

    delivered: Estimate
    tainted: Estimate
    share: Estimate
    fault_free: Estimate  # tuples stored without faults


@dataclass(frozen=True)
class Answer:
    """Results of one scenario."""

    availability: Estimate
    without_propagation: Estimate  # availability without error propagation
    sinks: Mapping[str, SinkAnswer]
    resources: Mapping[str, float]


def study(
    scenarios: Mapping[str, ModelScenario],
    precision: Precision,
    runner: Runner,
    *,
    method: Method = "accelerated",
    seed: int = 1,
) -> dict[str, Answer]:
    """Scenario label → results."""
    jobs = [scenario.job(method, seed) for scenario in scenarios.values()]
    free = [scenario.fault_free().job(method, seed) for scenario in scenarios.values()]
    results = replicate([*jobs, *free], precision, runner)
    answers = {}
    for (label, scenario), result, quiet in zip(scenarios.items(), results, results[len(jobs) :], strict=False):
        sinks = {}
        for sink in scenario.application.sinks:
            normal = quiet.estimates[delivered(sink)]
            share = result.column(tainted(sink)) / normal.mean if normal.mean else result.column(tainted(sink)) * 0.0
            sinks[sink] = SinkAnswer(
                result.estimates[delivered(sink)],
                result.estimates[tainted(sink)],
                estimate(share, precision.confidence),
                normal,
            )
        answers[label] = Answer(
            result.estimates[AVAILABILITY], result.estimates[WITHOUT_PROPAGATION], sinks, scenario.resources()
        )
    return answers
