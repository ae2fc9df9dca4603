"""A scenario: an application, its protection, its faults, and the simulated time."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from riprap.base.errors import PlanError, UsageError, known
from riprap.san.generator import keys
from riprap.san.replicate import NetworkJob, ReplicationJob
from riprap.san.simulate import SimulatedSpan
from riprap.san.streaming import failures as fault_models
from riprap.san.streaming.accelerated import check_load, simulate
from riprap.san.streaming.application import Application
from riprap.san.streaming.deployment import TAKEN, Deployment, GroupInterpretation, bare
from riprap.san.streaming.failures import NO_FAULTS, Faults
from riprap.san.streaming.tables import Tables, tables
from riprap.san.streaming.techniques import technique
from riprap.san.streaming.template import build

Method = Literal["accelerated", "tokens"]

AVAILABILITY = "availability"
WITHOUT_PROPAGATION = "availability_without_propagation"


def delivered(sink: str) -> str:
    """Name of the metric "tuples stored by `sink`"."""
    return f"{sink}: tuples"


def tainted(sink: str) -> str:
    """Name of the metric "tainted tuples stored by `sink`"."""
    return f"{sink}: tainted tuples"


@dataclass(frozen=True)
class ModelProtection:
    """One technique applied to some operators. Missing settings have the technique's defaults."""

    technique: str
    operators: tuple[str, ...]
    settings: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class ModelScenario:
    application: Application
    protections: tuple[ModelProtection, ...] = ()  # applied in order; other operators restart with empty state
    faults: Faults = NO_FAULTS
    horizon: float = 7200.0  # seconds
    reading: GroupInterpretation = TAKEN

    def deployment(self) -> Deployment:
        """Checks and applies the techniques."""
        fault_models.check(self.faults, self.application)
        if not self.horizon > 0:
            raise UsageError(f"a run of {self.horizon:g} s is impossible; give a positive time")
        deployment = replace(bare(self.application, self.faults.recovery), reading=self.reading)
        for protection in self.protections:
            applied = technique(protection.technique)
            operators = self.application.named(protection.operators, f"technique {protection.technique}")
            for key in protection.settings:
                if key not in applied.SETTINGS:
                    raise PlanError(f"{applied.NAME} has no setting {key}: {known(applied.SETTINGS, key)}")
            settings = {**applied.SETTINGS, **protection.settings}
            deployment = applied.apply(deployment, frozenset(operator.name for operator in operators), settings)
        return deployment

    def job(self, method: Method = "accelerated", seed: int = 1) -> ReplicationJob:
        """The job to replicate. Both methods return the same metrics under the same names."""
        deployment = self.deployment()
        if method == "tokens":
            return NetworkJob(build(deployment, self.faults), SimulatedSpan(self.horizon), seed, piece=1)
        if method != "accelerated":
            raise UsageError(f"method {method} is unknown; known: accelerated, tokens")
        check_load(self.application)
        return AcceleratedJob(tables(deployment, self.faults), metric_names(self.application), self.horizon, seed)

    def fault_free(self) -> "ModelScenario":
        return replace(self, faults=Faults(recovery=self.faults.recovery))

    def resources(self) -> dict[str, float]:
        """Cost of the deployment without faults: operator instances, and cores used for processing."""
        deployment = self.deployment()
        cores = sum(
            self.application.rates[instance.operator.name, index] * port.seconds
            for instance in deployment.instances
            for index, port in enumerate(instance.operator.inputs)
        )
        return {"instances": float(len(deployment.instances)), "busy_cores": cores}


@dataclass(frozen=True)
class AcceleratedJob:
    """Replications by the accelerated simulator."""

    tables: Tables
    names: tuple[str, ...]
    horizon: float
    seed: int = 1
    piece: int = 250

    def rows(self, first: int, count: int) -> np.ndarray:
        return simulate(self.tables, keys(self.seed, first, count), self.horizon)


def metric_names(application: Application) -> tuple[str, ...]:
    """In the order of both simulators' results."""
    names = [AVAILABILITY, WITHOUT_PROPAGATION]
    for sink in application.sinks:
        names += [delivered(sink), tainted(sink)]
    return tuple(names)
