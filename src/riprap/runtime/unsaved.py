"""What becomes of an element that replays all of its input and is never saved: its recovery grows with its history."""

from riprap.base.quantities import format_count, show_duration
from riprap.protocols.protocol import RestorePlan
from riprap.runtime.spending import Spent

MEASURED = 10.0  # seconds of a life after which its pace is known
_HOUR, _DAY = 3_600, 86_400


def unsaved(plan: RestorePlan) -> bool:
    """Whether a restarted element begins afresh, and takes everything again."""
    return plan.whole and not plan.units and not plan.continuous


def warning(pe: str, received: int, spent: Spent) -> str:
    """`received`: rows that it has taken in. To take them again takes as much of a core as it took the first time."""
    seconds = max(spent.seconds, 1e-3)
    rate, share = received / seconds, spent.cpu / seconds
    hour, day = (show_duration(round(share * seconds) * 1_000_000) for seconds in (_HOUR, _DAY))
    return (
        f'{pe} is never saved (checkpoint "off"): a crash replays all of its input, and its log is never trimmed; at '
        f"{format_count(round(rate))} rows/s with {share:.2g} cores a recovery takes about {hour} after an hour, {day} "
        "after a day"
    )
