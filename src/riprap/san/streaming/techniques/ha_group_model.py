"""High-availability groups: connected operators run in several replicas; all process tuples, one is active.

Only the active replica sends beyond the group; the others discard their output at the group's edge. When an operator
of the active replica crashes, that replica is deactivated at once and the next complete one is active `failover`
seconds later; the output of the group in between is lost. A replica's operators restart with empty state unless they
are checkpointed too.
"""

from collections.abc import Mapping
from dataclasses import replace

from riprap.base.errors import PlanError
from riprap.san.streaming.deployment import Deployment, ModelGroup, replicated

NAME = "ha-group"
SETTINGS: Mapping[str, float] = {"failover": 1.0, "replicas": 2}


def apply(deployment: Deployment, operators: frozenset[str], settings: Mapping[str, float]) -> Deployment:
    """Replicate `operators` as one group."""
    taken = {deployment.instances[instance].operator.name for instance in deployment.membership}
    for name in sorted(operators & (taken | deployment.redundant)):
        raise PlanError(f"operator {name} is replicated twice; an operator can be in one group")
    copies = int(settings["replicas"])
    if copies < 2:
        raise PlanError(f"a group of {copies} replica cannot fail over; give at least 2")
    before = deployment
    deployment = replicated(replace(deployment, groups=()), operators, copies)
    groups = [_renumbered(group, before, deployment) for group in before.groups]
    replicas = tuple(tuple(deployment.of_operator[name][copy] for name in sorted(operators)) for copy in range(copies))
    name = "_".join(deployment.instances[index].name for index in replicas[0])
    return replace(deployment, groups=(*groups, ModelGroup(name, replicas, settings["failover"])))


def _renumbered(group: ModelGroup, before: Deployment, after: Deployment) -> ModelGroup:
    def now(index: int) -> int:
        instance = before.instances[index]
        return after.of_operator[instance.operator.name][instance.replica]

    return replace(group, replicas=tuple(tuple(now(index) for index in replica) for replica in group.replicas))
