"""The fault models.

A fault strikes one operator, or a set of operators that fail together, during an *outage*: the tuples whose order
keys lie in [start, end), on every input port of every operator of the set. What happens to these tuples:

    loss       they never reach the operator: it was down (crash and restart, fail-over, a full buffer, a silent feed)
    duplicate  each reaches it twice in a row: two free-running replicas upstream both sent it
    reorder    the ports no longer keep step: each port's tuples of the outage arrive together, one port after another.
               Order within a stream is kept, so an operator with one input stream does not notice
    diverge    numeric attributes are off by up to DIVERGENCE of their value: replicas that computed differently
    corrupt    one bit of one numeric attribute of each tuple is flipped, silently (of the lower 32 bits of a whole
               number, of the 52 bits of a fraction)

    corrupt-tuple  one bit of one attribute of the first of these tuples is flipped, silently: of any attribute, text
                   (of an ASCII character in it) and the keys that operators group by included
    corrupt-state  one bit of one attribute is flipped in the operator's state, right before the first of these tuples:
                   in a tuple that the state has for the same group. Where it has none, as corrupt-tuple
    sdc            silent data corruption: corrupt-tuple or corrupt-state, each for half of the faults, as the seed says

Attributes that operators group by are altered by the last three alone. Which bit, which attribute and how much follow
from the seed and the order key. What becomes of the operator's state is part of the fault: it is put back to what the
tuples before the order key `restored` had made of it.

    kept             restored = start: a checkpoint right before the failure, as the published method assumes
    checkpoint(age)  restored = start − age
    lost             restored = START_KEY: the operator starts from nothing

Outputs given out before the outage stay given out. Only a loss touches state.
"""

import re
from dataclasses import dataclass
from typing import Literal, get_args

from riprap.base.errors import UsageError, known
from riprap.base.quantities import Duration, format_duration, parse_duration
from riprap.graph.order_keys import END_KEY, START_KEY, OrderKey

FaultKind = Literal["loss", "duplicate", "reorder", "diverge", "corrupt", "corrupt-tuple", "corrupt-state", "sdc"]
KINDS: tuple[FaultKind, ...] = get_args(FaultKind)
STRIKES_ONCE = ("corrupt-tuple", "corrupt-state", "sdc")  # one tuple, however long the outage is
ALTERS = ("diverge", "corrupt", *STRIKES_ONCE)
DIVERGENCE = 0.01  # of the value
NO_TIME = Duration(0)


@dataclass(frozen=True)
class Fault:
    """One fault at one operator. Keys are those of the operator's inputs."""

    kind: FaultKind
    start: OrderKey
    end: OrderKey  # > start
    restored: OrderKey  # <= start
    seed: int = 0
    columns: tuple[str, ...] = ()  # attributes that may be altered
    keys: tuple[str, ...] = ()  # those of them that divide the app by key

    @property
    def keeps_state(self) -> bool:
        return self.restored == self.start

    @property
    def loses_state(self) -> bool:
        return self.restored == START_KEY


NOTHING = Fault("loss", END_KEY, END_KEY, END_KEY)  # strikes no tuple


@dataclass(frozen=True)
class StateOutcome:
    """What becomes of the state, before it is known where the outage is. `age` in microseconds of event time."""

    kind: Literal["kept", "checkpoint", "lost"] = "kept"
    age: Duration = NO_TIME

    def __str__(self) -> str:
        return f"checkpoint({format_duration(self.age)})" if self.kind == "checkpoint" else self.kind


KEPT = StateOutcome()


def parse_kind(text: str) -> FaultKind:
    for kind in KINDS:
        if kind == text:
            return kind
    raise UsageError(f"fault model {text} is unknown; known: {known(KINDS, text)}")


def parse_state(text: str) -> StateOutcome:
    """`kept`, `lost` or `checkpoint(2s)`."""
    if text == "kept":
        return KEPT
    if text == "lost":
        return StateOutcome("lost")
    match = re.fullmatch(r"checkpoint\((.+)\)", text)
    if match is None:
        raise UsageError(f"state {text!r} is unknown: write kept, lost or checkpoint(AGE), as in checkpoint(2s)")
    return StateOutcome("checkpoint", parse_duration(match.group(1)))
