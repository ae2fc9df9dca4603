"""Measured costs that follow from an operator's size, for tests of budgets."""

from riprap.planner.costs import Cost, OperatorCosts

SECOND = 1_000_000


def measured_costs(operators, write_per_core=1e6):
    """By operator: a checkpoint writes its state, a backup its output, a replica needs what the operator needs."""
    return {
        name: OperatorCosts(
            Cost(),
            {
                "checkpoint": Cost(impact.state / write_per_core, 0.0, impact.state, 0.0),
                "backup": Cost(impact.output / write_per_core, 0.0, impact.output, 0.0),
                "ha_group": Cost(impact.cpu, impact.memory, 0.0, impact.output),
            },
            SECOND,
        )
        for name, impact in operators.items()
    }
