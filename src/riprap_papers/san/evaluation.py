"""The repeated evaluation: every published table and figure as rows, with our numbers beside the published ones.

The figures' curves are lost, so where only a statement survives ("availability rises with the input rate") the row
is that statement: 1 if it holds for ours, 0 if not. `bound`: how a published number is meant. Configuration 2 is
evaluated in every reading of `configurations`; the numbers of the figures are those of the chosen reading.
"""

import itertools

from riprap.san.replicate import ReplicationJob, Replications, Runner, replicate
from riprap.san.statistics import Precision
from riprap.san.streaming.failures import Faults
from riprap.san.streaming.scenario import AVAILABILITY, ModelScenario, delivered, tainted
from riprap_papers.san import crash_statements as crashes
from riprap_papers.san.configurations import (
    CHECKPOINT,
    CONFIGURATIONS,
    HOUR,
    TAKEN,
    checkpointing,
    full_replication,
    ha_groups,
)
from riprap_papers.san.crash_statements import RATES, SINK
from riprap_papers.san.table_rows import SanRow, mean, measured, statement

SDC_RATES = (1.52e-4, 1.39e-4)
READINGS = "readings of configuration 2"

# Table 5.4: availability and tainted tuples after one forced crash of each operator.
VALIDATION = {
    "Source": (0.84533, 15506.32),
    "Filter 1": (0.84536, 15500.01),
    "Filter 2": (0.84533, 21752.34),
    "Aggregate": (0.83987, 22520.63),
    "Filter 3": (0.93676, 8898.29),
    "Filter 4": (0.95555, 0.0),
    "Join": (0.93599, 2753.54),
}


def forced_crash(operator: str) -> ModelScenario:
    """The validation run: 2,200 tuples/s, one crash, 16 s recovery, 360 s in all."""
    return checkpointing(2200.0, Faults(recovery=16.0, forced={operator: 100.0}), 360.0)


def evaluate(runner: Runner, replications: int = 1000, seed: int = 1) -> list[SanRow]:
    """Run everything, `replications` times each, and compare."""
    scenarios: dict[tuple, ModelScenario] = {("validation", name): forced_crash(name) for name in VALIDATION}
    for rate, recovery, crash_rate in crashes.wanted():
        faults = Faults(crash_rate, recovery=recovery)
        scenarios[CHECKPOINT, rate, recovery, crash_rate] = checkpointing(rate, faults)
        for how in CONFIGURATIONS:
            scenarios[how.name, rate, recovery, crash_rate] = ha_groups(rate, faults, how=how)
    for rate in RATES:
        for sdc_rate in SDC_RATES:
            scenarios["full replication", rate, sdc_rate] = full_replication(rate, Faults(sdc_rate=sdc_rate))
        scenarios["full replication", rate, 0.0] = full_replication(rate, Faults())
        scenarios["fault-free", rate] = checkpointing(rate, Faults())
    jobs: list[ReplicationJob] = [scenario.job(seed=seed) for scenario in scenarios.values()]
    results = dict(
        zip(scenarios, replicate(jobs, Precision(0.95, 1.0, replications, replications), runner), strict=True)
    )
    return [*_validation(results), *_crashes(results), *_corruption(results), *_output_rate(results)]


def _validation(results: dict[tuple, Replications]) -> list[SanRow]:
    rows = []
    for name, (availability, count) in VALIDATION.items():
        result = results["validation", name]
        rows.append(measured("validation", name, "availability", availability, result.column(AVAILABILITY), "equal"))
        rows.append(measured("validation", name, "tainted tuples", count, result.column(tainted(SINK)), "equal"))
    return rows


def _crashes(results: dict[tuple, Replications]) -> list[SanRow]:
    """Section 5.6.4: the figures, the statements for each reading, and which reading meets how many."""
    free = {rate: mean(results["fault-free", rate], delivered(SINK)) for rate in RATES}
    points = {
        name: {point: results[name, *point] for point in crashes.wanted()}
        for name in (CHECKPOINT, *(how.name for how in CONFIGURATIONS))
    }
    rows = [*crashes.figures(CHECKPOINT, points[CHECKPOINT], free), *crashes.alone(CHECKPOINT, points[CHECKPOINT])]
    rows += crashes.figures("HA groups", points[TAKEN.name], free)
    statements = {
        how: [
            *crashes.alone("HA groups", points[how.name], how.name),
            *crashes.against(points[how.name], points[CHECKPOINT], how.name),
        ]
        for how in CONFIGURATIONS
    }
    for how, found in statements.items():
        holding = [row.ours for row in found if row.bound == "holds"]
        words = f"{how.name}{' (taken)' if how is TAKEN else ''}"
        rows.append(SanRow(READINGS, words, "statements that hold", float(len(holding)), sum(holding)))
    return [*rows, *(row for found in statements.values() for row in found)]


def _corruption(results: dict[tuple, Replications]) -> list[SanRow]:
    """Section 5.6.5 and figure 5.14."""
    table, rows = "figure 5.14: silent corruption", []
    shares: dict[float, list[float]] = {rate: [] for rate in SDC_RATES}
    for sdc_rate in SDC_RATES:
        for rate in RATES:
            result, free = results["full replication", rate, sdc_rate], results["full replication", rate, 0.0]
            case = f"{sdc_rate:.2E}/s, {rate:g} tuples/s"
            # Replication r of both runs is independent of the other, so the difference is computed row by row.
            more = result.column(delivered(SINK)) - free.column(delivered(SINK))
            share = 100.0 * result.column(tainted(SINK)) / mean(free, delivered(SINK))
            shares[sdc_rate].append(float(share.mean()))
            rows += [
                measured(table, case, "availability", None, result.column(AVAILABILITY)),
                measured(table, case, "tainted tuples", 300.0, result.column(tainted(SINK)), "at most"),
                measured(table, case, "percent of fault-free output", None, share),
                measured(table, case, "tuples beyond the fault-free run", 0.0, more, "at least"),
            ]
    available = {
        sdc_rate: [mean(results["full replication", rate, sdc_rate], AVAILABILITY) for rate in RATES]
        for sdc_rate in SDC_RATES
    }
    crashed = [mean(results[CHECKPOINT, rate, 3.5, 1.85e-4], AVAILABILITY) for rate in RATES]
    statements = {
        "availability rises with the input rate": all(_rises(values) for values in available.values()),
        "availability falls as the corruption rate rises": all(map(float.__lt__, *available.values())),
        "corruption costs less availability than crashes": all(
            all(map(float.__gt__, values, crashed)) for values in available.values()
        ),
        "the share of tainted tuples falls as the input rate rises": all(
            _rises([-share for share in values]) for values in shares.values()
        ),
    }
    return [*rows, *(statement(table, words, true) for words, true in statements.items())]


def _rises(values: list[float]) -> bool:
    return all(first < second for first, second in itertools.pairwise(values))


def _output_rate(results: dict[tuple, Replications]) -> list[SanRow]:
    """Section 5.7: the steady rate at the sink, 65.78 tuples/s in the published model."""
    rate = results["fault-free", 450.0].column(delivered(SINK)) / (2 * HOUR)
    return [measured("figure 5.15: output rate", "450 tuples/s", "tuples/s at the sink", 65.78, rate, "equal")]
