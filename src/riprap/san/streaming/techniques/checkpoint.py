"""Checkpoints of operator state: a crashed operator restarts with the state of its last checkpoint.

It then emits tainted tuples until it has processed Z = min(αS + βL, γS) clean ones; L counts the tuples since the
checkpoint: those of the checkpoint's age and of the outage. Upstream operators discard tuples for a dead operator.
"""

from collections.abc import Mapping
from dataclasses import replace

from riprap.san.streaming.deployment import Deployment, Instance, Restart

NAME = "checkpoint"
SETTINGS: Mapping[str, float] = {"age": 1.0}  # seconds between the last checkpoint and the crash


def apply(deployment: Deployment, operators: frozenset[str], settings: Mapping[str, float]) -> Deployment:
    """Makes `operators` restart from a checkpoint that is `age` seconds old."""
    outage = deployment.recovery + settings["age"]

    def restarts(instance: Instance) -> tuple[Restart, ...]:
        operator = instance.operator
        return tuple(
            Restart(tainted=port.stabilisation(deployment.application.rates[operator.name, index] * outage))
            if port.stateful
            else Restart()
            for index, port in enumerate(operator.inputs)
        )

    return replace(
        deployment,
        instances=tuple(
            replace(each, restarts=restarts(each)) if each.operator.name in operators else each
            for each in deployment.instances
        ),
    )
