"""Warns of an element without checkpoints that replays all its input: its recovery time grows with its history."""

from riprap.base.quantities import format_count, show_duration
from riprap.protocols.protocol import RestorePlan
from riprap.runtime.spending import ResourceUse

MEASURED = 10.0  # seconds after which the pace of an incarnation is known
_HOUR, _DAY = 3_600, 86_400


def unsaved(plan: RestorePlan) -> bool:
    """Whether a restarted element starts from scratch, and processes all input again."""
    return plan.whole and not plan.units and not plan.continuous


def warning(pe: str, received: int, spent: ResourceUse) -> str:
    """`received`: rows that it has processed. Processing them again takes as much CPU time as the first time."""
    seconds = max(spent.seconds, 1e-3)
    rate, share = received / seconds, spent.cpu / seconds
    hour, day = (show_duration(round(share * seconds) * 1_000_000) for seconds in (_HOUR, _DAY))
    return (
        f'{pe} takes no checkpoints (checkpoint "off"): a crash replays all of its input, and its log is never '
        f"trimmed; at {format_count(round(rate))} rows/s with {share:.2g} cores a recovery takes about {hour} after an "
        f"hour, {day} after a day"
    )
