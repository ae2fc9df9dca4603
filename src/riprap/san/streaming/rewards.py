"""Rewards of a network of activities: availability, and tuples stored by sinks. `template` names the places."""

from collections.abc import Callable

from riprap.san.formalism import Reward, impulse
from riprap.san.streaming.deployment import Deployment, Instance
from riprap.san.streaming.failures import Faults


def active_place(group: int) -> str:
    """The place that holds 1 + the active replica of a group, or 0."""
    return f"group{group}.active"


def availability(deployment: Deployment, faults: Faults) -> str:
    """Every operator, or one of its replicas, is alive with full and correct state; nothing is tainted.

    Of a group's replicas only the active one counts, unless `GroupInterpretation.standby_counts`.
    """
    parts = []
    for indices in deployment.of_operator.values():
        if _judged_by_active(deployment, indices[0]):
            parts.append(
                _some_active(
                    deployment,
                    indices,
                    lambda index: [*_fit(deployment, faults, index), *_untainted(deployment, faults, index)],
                )
            )
            continue
        fit = [" and ".join(_fit(deployment, faults, index)) for index in indices]
        if all(fit):
            parts.append(_any(fit))
        for index in indices:
            parts += _untainted(deployment, faults, index)
    return " and ".join(parts)


def all_alive(deployment: Deployment, faults: Faults) -> str:
    """Every operator is alive in some copy; in a group, in the active one."""
    if not faults.any_crash:
        return "1"

    def alive(index: int) -> list[str]:
        return [f"{deployment.instances[index].name}.alive == 1"]

    return " and ".join(
        _some_active(deployment, indices, alive)
        if _judged_by_active(deployment, indices[0])
        else _any([*map(" and ".join, map(alive, indices))])
        for indices in deployment.of_operator.values()
    )


def deliveries(instance: Instance, faults: Faults) -> list[Reward]:
    """Tuples stored by a sink, and the tainted ones among them."""
    name, ports = instance.name, range(len(instance.operator.inputs))
    activities = [f"{name}.process{suffix}{port}" for port in ports for suffix in ("", "_tainted")]
    tainted = " + ".join(f"{name}.processing_tainted{port}" for port in ports)
    if faults.any_sdc:
        tainted = f"min(1, {tainted} + {name}.corrupt)"
    return [
        impulse(f"{instance.operator.name}: tuples", *activities),
        impulse(f"{instance.operator.name}: tainted tuples", *activities, value=tainted),
    ]


def _judged_by_active(deployment: Deployment, index: int) -> bool:
    return index in deployment.membership and not deployment.reading.standby_counts


def _some_active(deployment: Deployment, indices: tuple[int, ...], conditions: Callable[[int], list[str]]) -> str:
    """One of these instances is in the active replica of its group and meets the conditions."""
    choices = []
    for index in indices:
        group, replica = deployment.membership[index]
        choices.append(" and ".join([f"{active_place(group)} == {replica + 1}", *conditions(index)]))
    return _any(choices)


def _fit(deployment: Deployment, faults: Faults, index: int) -> list[str]:
    """Alive, with full state."""
    if not faults.any_crash:
        return []
    operator, name = deployment.instances[index].operator, deployment.instances[index].name
    return [f"{name}.alive == 1", *(f"{name}.refill{port} == 0" for port in operator.stateful_ports)]


def _untainted(deployment: Deployment, faults: Faults, index: int) -> list[str]:
    operator, name = deployment.instances[index].operator, deployment.instances[index].name
    parts = [f"{name}.unstable{port} == 0" for port in operator.stateful_ports]
    if faults.any_crash:
        parts += [f"{name}.pending{port} == 0" for port in operator.stateful_ports]
    return [*parts, *(f"{name}.processing_tainted{port} == 0" for port in range(len(operator.inputs)))]


def _any(conditions: list[str]) -> str:
    return f"({' or '.join(f'({each})' for each in conditions)})"
