"""No protection: a crashed operator restarts with empty state.

Until its state is full again it emits too little, but its output is correct, as at the start of the application.
Stateful downstream operators have lost tuples anyway.
"""

from collections.abc import Mapping
from dataclasses import replace

from riprap.san.streaming.deployment import Deployment, Restart

NAME = "none"
SETTINGS: Mapping[str, float] = {}


def apply(deployment: Deployment, operators: frozenset[str], settings: Mapping[str, float]) -> Deployment:
    """Makes `operators` restart with empty state."""
    return replace(
        deployment,
        instances=tuple(
            replace(instance, restarts=tuple(Restart(refill=port.state) for port in instance.operator.inputs))
            if instance.operator.name in operators
            else instance
            for instance in deployment.instances
        ),
    )
