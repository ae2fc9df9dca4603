"""The list of techniques, one file each. A technique is a function from a deployment to a deployment.

To add one: write its file with `NAME`, `SETTINGS` (settings with defaults) and `apply`, and list it here.
"""

from types import ModuleType

from riprap.base.errors import PlanError, known
from riprap.san.streaming.techniques import checkpoint, full_replication, ha_group_model, none

TECHNIQUES: tuple[ModuleType, ...] = (none, checkpoint, ha_group_model, full_replication)


def technique(name: str) -> ModuleType:
    """The technique called `name`."""
    for module in TECHNIQUES:
        if name == module.NAME:
            return module
    names = [module.NAME for module in TECHNIQUES]
    raise PlanError(f"technique {name} is unknown; known: {known(names, name)}")
