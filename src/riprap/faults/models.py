"""The fault models.

A fault affects one operator, or a set of operators that fail together, during an *outage*: the tuples whose order
keys are in [start, end), on every input port of every operator of the set. Its effect on these tuples:

    loss       they never reach the operator: it was down (crash and restart, fail-over, a full buffer, a silent feed)
    duplicate  each is delivered twice in a row: two unsynchronised upstream replicas both sent it
    reorder    the ports are out of step: each port's tuples of the outage arrive together, one port after another.
               The order within a stream does not change, so an operator with one input stream is not affected
    diverge    numeric attributes differ by up to DIVERGENCE of their value: replicas that computed differently
    corrupt    one bit of one numeric attribute of each tuple is flipped silently (one of the lower 32 bits of an
               integer, of the 52 mantissa bits of a double)

    corrupt-tuple  one bit of one attribute of the first of these tuples is flipped silently: of any attribute,
                   including text (of an ASCII character in it) and grouping keys
    corrupt-state  one bit of one attribute is flipped in the operator's state, right before the first of these tuples:
                   in a tuple of the same group. Without such a tuple: as corrupt-tuple
    sdc            silent data corruption: corrupt-tuple or corrupt-state, each for half of the seeds

Only the last three alter grouping keys. The seed and the order key determine the bit, the attribute and the amount.
The fault also determines the operator's state: it is rolled back to the state after all tuples before the order key
`restored`.

    planned          what a plan leaves: `lost` without protection, and `checkpoint(age)` with it, both assessed
    kept             restored = start: a checkpoint right before the failure, as the published method assumes
    checkpoint(age)  restored = start − age
    lost             restored = START_KEY: the operator starts without state

Output from before the outage remains. Only a loss changes state.
"""

import re
from dataclasses import dataclass
from typing import Literal, get_args

from riprap.base.errors import UsageError, known
from riprap.base.quantities import Duration, format_duration, parse_duration
from riprap.graph.order_keys import END_KEY, START_KEY, OrderKey

FaultKind = Literal["loss", "duplicate", "reorder", "diverge", "corrupt", "corrupt-tuple", "corrupt-state", "sdc"]
KINDS: tuple[FaultKind, ...] = get_args(FaultKind)
STRIKES_ONCE = ("corrupt-tuple", "corrupt-state", "sdc")  # affect one tuple, whatever the length of the outage
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
    columns: tuple[str, ...] = ()  # attributes that it may alter
    keys: tuple[str, ...] = ()  # those of them that partition the app by key
    ports: frozenset[int] | None = None  # input ports that it affects; None: all

    @property
    def keeps_state(self) -> bool:
        return self.restored == self.start

    @property
    def loses_state(self) -> bool:
        return self.restored == START_KEY


NOTHING = Fault("loss", END_KEY, END_KEY, END_KEY)  # affects no tuple


@dataclass(frozen=True)
class StateOutcome:
    """The state after a fault, independent of the position of the outage. `age` in microseconds of event time."""

    kind: Literal["kept", "checkpoint", "lost", "planned"] = "kept"
    age: Duration = NO_TIME

    def __str__(self) -> str:
        return f"checkpoint({format_duration(self.age)})" if self.kind == "checkpoint" else self.kind


KEPT = StateOutcome()
LOST_STATE = StateOutcome("lost")
PLANNED = StateOutcome("planned")  # no outcome of one trial: `campaign_settings.planned_targets` makes two of it


def parse_kind(text: str) -> FaultKind:
    for kind in KINDS:
        if kind == text:
            return kind
    raise UsageError(f"fault model {text} is unknown; known: {known(KINDS, text)}")


def state_after(kind: FaultKind, text: str) -> StateOutcome:
    """The state that is asked for; faults other than a loss change none."""
    state = parse_state(text)
    return KEPT if state == PLANNED and kind != "loss" else state


def parse_state(text: str) -> StateOutcome:
    """`planned`, `kept`, `lost` or `checkpoint(2s)`."""
    for known_state in (PLANNED, KEPT, LOST_STATE):
        if text == known_state.kind:
            return known_state
    match = re.fullmatch(r"checkpoint\((.+)\)", text)
    if match is None:
        raise UsageError(
            f"state {text!r} is unknown: write planned, kept, lost or checkpoint(AGE), as in checkpoint(2s)"
        )
    return StateOutcome("checkpoint", parse_duration(match.group(1)))
