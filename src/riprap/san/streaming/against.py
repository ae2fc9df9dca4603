"""Compares model and assessment: do they rank the operators by the effect of a failure in the same order?

In the model each operator crashes once, with the assessed outage, and the tainted tuples at the sinks are counted. The
assessment has the impact I of such an outage. They measure different things (a tainted tuple may be nearly correct, and
silence taints nothing), so only ranks are compared: Spearman's correlation.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy import stats

from riprap.san.streaming.application import Application
from riprap.san.streaming.failures import Faults
from riprap.san.streaming.scenario import ModelProtection, ModelScenario, tainted

BEGIN = 5.0  # seconds before the crash
RUNS = 100
LONGEST = 7200.0  # seconds


@dataclass(frozen=True)
class ModelAgreement:
    """By operator: tainted tuples of the model and I of the assessment; and their rank correlation."""

    tainted: Mapping[str, float]
    impact: Mapping[str, float]
    correlation: float | None  # None: one of the two has equal values for all operators


def agreement(
    application: Application, impact: Mapping[str, float], outage: float, *, state_kept: bool, seed: int = 1
) -> ModelAgreement:
    """`impact`: by operator, I of one outage of this many seconds."""
    tainted_tuples = {name: crash_taint(application, name, outage, state_kept=state_kept, seed=seed) for name in impact}
    model, assessment = np.array(list(tainted_tuples.values())), np.array(list(impact.values()))
    constant = len(model) < 2 or np.ptp(model) == 0 or np.ptp(assessment) == 0
    return ModelAgreement(
        tainted_tuples, dict(impact), None if constant else float(stats.spearmanr(model, assessment).statistic)
    )


def crash_taint(application: Application, operator: str, outage: float, *, state_kept: bool, seed: int = 1) -> float:
    """Mean tainted tuples at all sinks after one crash of `operator`."""
    stateful = tuple(spec.name for spec in application.operators if spec.stateful_ports)
    protections = (ModelProtection("checkpoint", stateful, {"age": 0.0}),) if state_kept and stateful else ()
    refill = max(
        (
            port.state / application.rates[spec.name, index]
            for spec in application.operators
            for index, port in enumerate(spec.inputs)
            if port.stateful and application.rates[spec.name, index] > 0
        ),
        default=0.0,
    )
    horizon = min(LONGEST, BEGIN + outage + 2.0 * refill + 10.0)
    faults = Faults(recovery=outage, forced={operator: BEGIN})
    job = ModelScenario(application, protections, faults, horizon).job(seed=seed)
    means = dict(zip(job.names, job.rows(0, RUNS).mean(axis=0), strict=True))
    return float(sum(means[tainted(sink)] for sink in application.sinks))
