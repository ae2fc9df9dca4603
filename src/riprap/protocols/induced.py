"""Communication-induced checkpointing: local timers plus forced checkpoints, so that no checkpoint is useless.

A checkpoint is *useless* if it cannot belong to any recovery line: it lies on a zigzag cycle. Elements piggyback what
they know about others on their messages, and take a checkpoint before delivering a message that might close such a
cycle.

HMNR (Hélary, Mostéfaoui, Netzer, Raynal), in its form with one clock. An element i of n has
    lc          a logical clock: + 1 at every checkpoint
    sent_to[k]  something was sent to k since the last checkpoint
    greater[k]  as far as i knows, lc of i is above that of k
    ckpt[k]     how many checkpoints k has taken, as far as i knows
    taken[k]    a checkpoint lies on some causal path from k's last known checkpoint to here
and a message carries lc, greater, ckpt, taken. Before m is delivered at i a checkpoint is forced if
    m.lc > lc and some k has sent_to[k] and m.greater[k]    (m would close a zigzag path without a checkpoint in it)
    or m.ckpt[i] = ckpt[i] and m.taken[i]                   (a causal path leads back over a checkpoint)
BCS (Briatico, Ciuffoletti, Simoncini) has only lc: m.lc > lc forces, and a forced checkpoint sets lc to m.lc; only
local ones add 1. It forces more and carries less.

Scope: on a graph without cycles there are no zigzag cycles, and every forced checkpoint is pure cost. `scope` "cycles",
the default, applies the rules within strongly connected components only; "all" everywhere, as published.

The timer restarts after local *and* forced checkpoints, or they would come in bursts. The header changes only at
checkpoints and at deliveries with new information, and is stamped only then, so small messages can still be joined.
"""

import struct
from typing import Any

from riprap.base.errors import DataError
from riprap.protocols.channels import ChannelId
from riprap.protocols.commitment import publish_committed
from riprap.protocols.cut import Cut
from riprap.protocols.events import (
    Arrived,
    Command,
    Deleted,
    Deliver,
    Emitted,
    Event,
    FromDirector,
    Stamp,
    TakeCheckpoint,
    Tick,
)
from riprap.protocols.lines import LineDirector
from riprap.protocols.protocol import WHOLE, Protocol, ProtocolSpec, RestorePlan, Surroundings
from riprap.protocols.uncoordinated import Timer, Uncoordinated, released, whole_plan
from riprap.protocols.virtual import Virtual, is_virtual_message


class Hmnr:
    """The vectors of element `me` of `n`. Pure data and the three rules."""

    def __init__(self, me: int, n: int) -> None:
        self.me, self.n = me, n
        self.lc = 0
        self.sent_to = [False] * n
        self.greater = [False] * n
        self.ckpt = [0] * n
        self.taken = [False] * n
        self.checkpointed()  # the initial state is a checkpoint

    def checkpointed(self, lc: int | None = None) -> None:
        self.sent_to = [False] * self.n
        self.taken = [k != self.me for k in range(self.n)]
        self.greater = [k != self.me for k in range(self.n)]
        self.lc += 1
        self.ckpt[self.me] += 1

    def forces(self, message: "Hmnr") -> bool:
        closes = message.lc > self.lc and any(s and g for s, g in zip(self.sent_to, message.greater, strict=True))
        return closes or (message.ckpt[self.me] == self.ckpt[self.me] and message.taken[self.me])

    def delivered(self, message: "Hmnr") -> None:
        if message.lc > self.lc:
            self.lc, self.greater = message.lc, list(message.greater)
            self.greater[self.me] = False
        elif message.lc == self.lc:
            self.greater = [a and b for a, b in zip(self.greater, message.greater, strict=True)]
        for k in range(self.n):
            if k == self.me:
                continue
            if message.ckpt[k] > self.ckpt[k]:
                self.ckpt[k], self.taken[k] = message.ckpt[k], message.taken[k]
            elif message.ckpt[k] == self.ckpt[k]:
                self.taken[k] = self.taken[k] or message.taken[k]

    def header(self) -> bytes:
        bits = [g | t << 1 for g, t in zip(self.greater, self.taken, strict=True)]
        return struct.pack(f"<I{self.n}I{self.n}B", self.lc, *self.ckpt, *bits)

    def read(self, header: bytes) -> "Hmnr":
        values = _unpacked(f"<I{self.n}I{self.n}B", header)
        message = object.__new__(Hmnr)
        message.me, message.n, message.lc = self.me, self.n, values[0]
        message.ckpt = list(values[1 : 1 + self.n])
        message.greater = [bool(bit & 1) for bit in values[1 + self.n :]]
        message.taken = [bool(bit & 2) for bit in values[1 + self.n :]]
        message.sent_to = []
        return message

    def saved(self) -> bytes:
        return self.header() + bytes(self.sent_to)

    def load(self, saved: bytes) -> None:
        message = self.read(saved[: -self.n])
        self.lc, self.ckpt, self.greater, self.taken = message.lc, message.ckpt, message.greater, message.taken
        self.sent_to = [bool(flag) for flag in saved[-self.n :]]


class Bcs:
    """One clock."""

    def __init__(self, me: int, n: int) -> None:
        self.me, self.n, self.lc = me, n, 0
        self.sent_to = [False] * n  # part of the interface; the rule does not use it

    def checkpointed(self, lc: int | None = None) -> None:
        self.lc = self.lc + 1 if lc is None else lc

    def forces(self, message: "Bcs") -> bool:
        return message.lc > self.lc

    def delivered(self, message: "Bcs") -> None:
        self.lc = max(self.lc, message.lc)

    def header(self) -> bytes:
        return struct.pack("<I", self.lc)

    def read(self, header: bytes) -> "Bcs":
        message = Bcs(self.me, self.n)
        (message.lc,) = _unpacked("<I", header)
        return message

    def saved(self) -> bytes:
        return self.header()

    def load(self, saved: bytes) -> None:
        (self.lc,) = _unpacked("<I", saved)


RULES: dict[str, Any] = {"hmnr": Hmnr, "bcs": Bcs}


class Induced(Protocol):
    subscriptions = frozenset((Tick, Arrived, Emitted, Deleted, FromDirector))

    def __init__(self, surroundings: Surroundings, plan: RestorePlan) -> None:
        super().__init__(surroundings, plan)
        self.timer = Timer(surroundings)
        everywhere = surroundings.settings.get("scope", "cycles") == "all"
        peers = surroundings.pes if everywhere else surroundings.cycle
        self.peers = {pe: index for index, pe in enumerate(peers)}
        rule = RULES[surroundings.settings.get("rule", "hmnr")]
        self.vectors = rule(self.peers[surroundings.pe], len(peers)) if surroundings.pe in self.peers else None
        if self.vectors is None:  # outside the scope: no headers to read or write
            self.subscriptions = Uncoordinated.subscriptions
        self.applied: dict[ChannelId, bytes] = {}  # by channel: the last header that was merged into the vectors
        self.stamped: dict[ChannelId, bytes] = {}
        self.header = self.vectors.header() if self.vectors is not None else b""
        self.captured: bytes | None = None
        self.now = self.tag = 0
        self.virtual = Virtual()

    def begin(self, cut: Cut | None, now: int) -> list[Command]:
        self.now = now
        self.timer.begin(now)
        if cut is not None and self.vectors is not None and cut.protocol:
            self.vectors.load(cut.protocol)
            self.header = self.vectors.header()
        return []

    def handle(self, event: Event) -> list[Command]:
        match event:
            case Arrived(channel, _, _, header):
                return self._arrived(channel, header)
            case Emitted(channel, _, _):
                return self._emitted(channel)
            case Tick(now):
                self.now = now
                return [self._capture(forced=False)] if now >= self.timer.due else []
            case FromDirector(message) if "last" in message:
                return [self._capture(forced=False)]
            case FromDirector(message) if is_virtual_message(message):
                return self.virtual.handle(message, lambda: self._capture(forced=False))
            case FromDirector(message) if "committed" in message:
                return publish_committed(self.surroundings.pe, message)
            case Deleted(_, oldest):
                return released(oldest)
        return []

    def _arrived(self, channel: ChannelId, header: bytes) -> list[Command]:
        # A repeated header forces nothing and has no new information: clocks and counts only grow.
        if not header or header == self.applied.get(channel) or self.surroundings.inputs[channel].pe not in self.peers:
            return [Deliver(channel)]
        assert self.vectors is not None
        message = self.vectors.read(header)
        commands: list[Command] = []
        if self.vectors.forces(message):
            commands.append(self._capture(forced=True, lc=message.lc))
        self.vectors.delivered(message)
        self.applied[channel] = header
        self.header = self.vectors.header()
        return [*commands, Deliver(channel)]

    def _emitted(self, channel: ChannelId) -> list[Command]:
        consumer = self.surroundings.outputs[channel].pe
        if self.vectors is None or consumer not in self.peers:
            return []
        self.vectors.sent_to[self.peers[consumer]] = True
        if self.stamped.get(channel) == self.header:
            return []
        self.stamped[channel] = self.header
        return [Stamp(channel, self.header)]

    def _capture(self, *, forced: bool, lc: int | None = None) -> TakeCheckpoint:
        self.timer.restart(self.now)
        self.tag += 1
        if self.vectors is not None:
            self.vectors.checkpointed(lc if forced else None)
            self.header = self.vectors.header()
            # The checkpoint saves the vectors as of now: the message that forced it is merged afterwards.
            self.captured = self.vectors.saved()
        return TakeCheckpoint(WHOLE, self.tag, forced)

    def snapshot(self) -> bytes:
        if self.vectors is None:
            return b""
        saved, self.captured = self.captured, None
        return self.vectors.saved() if saved is None else saved


def _unpacked(form: str, header: bytes) -> tuple[Any, ...]:
    try:
        return struct.unpack(form, header)
    except struct.error as error:
        raise DataError(f"a header of {len(header)} bytes was written by another protocol or run") from error


SPEC = ProtocolSpec("induced", whole_plan, Induced, LineDirector, retention=("log", "log"), guarded=True)
