"""No protection: a crashed operator is restarted from scratch, with empty state.

Until its state is full again it emits less than it should; what it emits is right, as at the start of the application.
Stateful operators downstream have lost tuples all the same.
"""

from collections.abc import Mapping
from dataclasses import replace

from riprap.san.streaming.deployment import Deployment, Restart

NAME = "none"
SETTINGS: Mapping[str, float] = {}


def apply(deployment: Deployment, operators: frozenset[str], settings: Mapping[str, float]) -> Deployment:
    """Have `operators` restart from scratch."""
    return replace(
        deployment,
        instances=tuple(
            replace(each, restarts=tuple(Restart(refill=port.state) for port in each.operator.inputs))
            if each.operator.name in operators
            else each
            for each in deployment.instances
        ),
    )
