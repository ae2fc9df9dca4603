"""Uncoordinated checkpointing: every element checkpoints on its own timer; a failure triggers a recovery line.

The phase of the timer is random per element: if all fired at once they would be coordinated by accident, and the domino
effect would not show. The timer is checked on ticks, not only on messages: an element behind an aggregate gets few of
those. Messages carry only their numbers, which all channels have.

Exactly once for state with persistent logs; at most once with volatile ones. In a cycle the line may stay at the
initial states (the domino effect): `induced.py` prevents this.
"""

from riprap.base.randomness import derived_seed
from riprap.protocols.commitment import publish_committed
from riprap.protocols.cut import Cut
from riprap.protocols.events import Acknowledge, Command, Deleted, Event, Forget, FromDirector, TakeCheckpoint, Tick
from riprap.protocols.lines import LineDirector
from riprap.protocols.protocol import WHOLE, Protocol, ProtocolSpec, RestorePlan, Surroundings, Unit
from riprap.protocols.virtual import Virtual, is_virtual_message

INTERVAL = 10_000_000  # microseconds, unless the settings say otherwise


def interval_of(surroundings: Surroundings) -> int:
    return int(surroundings.settings.get("interval", INTERVAL))


def whole_plan(surroundings: Surroundings) -> RestorePlan:
    """One checkpoint of all operators and of what waits in merges; repeated output is recognised by number."""
    unit = Unit(tuple(surroundings.operators), interval_of(surroundings))
    return RestorePlan({WHOLE: unit}, whole=True, exact=True, delivered="taken")


class Timer:
    """When the next local checkpoint is due."""

    def __init__(self, surroundings: Surroundings) -> None:
        self.interval = interval_of(surroundings)
        self.phase = derived_seed(surroundings.seed, "phase", surroundings.pe) % self.interval
        self.due = 0

    def begin(self, now: int) -> None:
        self.due = now + self.interval // 2 + self.phase

    def restart(self, now: int) -> None:
        self.due = now + self.interval


class Uncoordinated(Protocol):
    subscriptions = frozenset((Tick, Deleted, FromDirector))

    def __init__(self, surroundings: Surroundings, plan: RestorePlan) -> None:
        super().__init__(surroundings, plan)
        self.timer = Timer(surroundings)
        self.taken = 0
        self.virtual = Virtual()

    def begin(self, cut: Cut | None, now: int) -> list[Command]:
        self.timer.begin(now)
        return []

    def handle(self, event: Event) -> list[Command]:
        match event:
            case Tick(now) if now >= self.timer.due:
                self.timer.restart(now)
                return [self._capture()]
            case FromDirector(message) if "last" in message:
                return [self._capture()]
            case FromDirector(message) if is_virtual_message(message):
                return self.virtual.handle(message, self._capture)
            case FromDirector(message) if "committed" in message:
                return publish_committed(self.surroundings.pe, message)
            case Deleted(_, oldest):
                return released(oldest)
        return []

    def _capture(self) -> TakeCheckpoint:
        self.taken += 1
        return TakeCheckpoint(WHOLE, self.taken)


def released(oldest: Cut) -> list[Command]:
    """Release the input before the oldest remaining checkpoint."""
    return [
        Forget(channel, inlet.taken_position) if inlet.taken_position >= 0 else Acknowledge(channel, inlet.taken)
        for channel, inlet in oldest.inlets.items()
    ]


SPEC = ProtocolSpec("uncoordinated", whole_plan, Uncoordinated, LineDirector, retention=("log", "log"), guarded=True)
