"""How far a cycle of elements rolls back: the published N-hop deployment, with protocols only.

A run hosts a cycle in one element, or in one per operator, and short runs show little of the domino effect. The
published N-hop has 24 elements, six pipelines

    Source → Map0 → Map1 → Sink          Map1 of any pipeline → Map0 of any: the feedback channel

Here the element side and the director of a protocol run on that graph on a virtual clock, with messages instead of
rows; messages of feedback channels trigger no output, as published. Checkpoints become durable some time after their
capture. Then one Map0 is killed, and the director's recovery line determines how far every element rolls back. Pure.
"""

import heapq
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from functools import partial as bound
from itertools import pairwise
from typing import Any, NamedTuple

from riprap.base.quantities import parse_duration
from riprap.base.randomness import generator
from riprap.protocols import director as d
from riprap.protocols import events as e
from riprap.protocols.channels import ChannelId
from riprap.protocols.cut import CheckpointId, Cut, InletCut
from riprap.protocols.protocol import WHOLE, Neighbour, OperatorFacts, Protocol, Surroundings
from riprap.protocols.registry import configured

PIPELINES = 6
_RATE = 10  # messages per second and pipeline
_TICK = 50_000  # microseconds
_IN_FLIGHT = (500, 20_000)  # microseconds that a message travels
_DURABLE = 100_000  # microseconds until a checkpoint is durable
_FORCING = {  # scopes and rules
    "uncoordinated": ((None, None),),
    "induced": (("cycles", "hmnr"), ("all", "hmnr"), ("cycles", "bcs"), ("all", "bcs")),
}
_STAGES = ("Source", "Map0", "Map1", "Sink")


class Fall(NamedTuple):
    """The effect of one failure."""

    checkpoints: int
    forced: int
    rollback: float  # seconds: the longest rollback of an element
    to_the_start: int  # elements that roll back to the start of the run
    elements: int


class Falling(NamedTuple):
    """The protocol and settings of a `Fall`."""

    protocol: str
    interval: str
    scope: str | None = None
    rule: str | None = None

    @property
    def label(self) -> str:
        forced = {"all": ", forced everywhere", "cycles": ", forced in cycles"}.get(self.scope or "", "")
        rule = ", BCS" if self.rule == "bcs" else ""
        return f"{self.protocol} @ {self.interval}{rule}{forced}"


def falls(protocols: Iterable[str], intervals: Iterable[str]) -> dict[Falling, Fall]:
    """Of protocols with uncoordinated checkpoints, each after twelve intervals, about as published."""
    names = dict.fromkeys(protocols)
    found = {}
    for interval in dict.fromkeys(intervals):
        seconds = 12 * parse_duration(interval) / 1e6
        for name in names:
            for scope, rule in _FORCING.get(name, ()):
                falling = Falling(name, interval, scope, rule)
                found[falling] = fall(name, interval=interval, scope=scope, rule=rule, seconds=seconds)
    return found


def said(found: Mapping[Falling, Fall]) -> str:
    """One sentence; "": nothing was compared."""
    rollbacks = [
        f"{falling.label} by {one.rollback:.0f} s"
        + (f", {one.to_the_start} of them to the start" * bool(one.to_the_start))
        for falling, one in found.items()
    ]
    elements = max((one.elements for one in found.values()), default=0)
    return (
        f"In a cycle of {elements} elements one failure causes rollbacks: {'; '.join(rollbacks)}." if rollbacks else ""
    )


def fall(
    protocol: str,
    *,
    interval: str,
    scope: str | None = None,
    rule: str | None = None,
    seconds: float,
    seed: int = 1,
) -> Fall:
    """The rollbacks under uncoordinated or induced when a Map0 is killed after `seconds`. Logs are persistent."""
    spec, settings = configured(protocol, interval=interval, scope=scope, rule=rule)
    return _Cycle(spec, settings, seed).run(int(seconds * 1e6))


class _Element:
    def __init__(self, surroundings: Surroundings, machine: Protocol) -> None:
        self.surroundings, self.machine = surroundings, machine
        self.taken = dict.fromkeys(surroundings.inputs, 0)
        self.sent = dict.fromkeys(surroundings.outputs, 0)
        self.headers = dict.fromkeys(surroundings.outputs, b"")
        self.captured: dict[CheckpointId, tuple[int, bool]] = {}  # time, and whether it was forced


class _Cycle:
    def __init__(self, spec: Any, settings: dict[str, Any], seed: int) -> None:
        self.now, self._scheduled, self._random = 0, 0, generator(seed, "cycle")
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        around = _surroundings(settings, seed)
        self.elements = {pe: _Element(s, spec.machine(s, spec.plan(s))) for pe, s in around.items()}
        self.director = spec.director(around)
        self._wires: defaultdict[ChannelId, deque[bytes]] = defaultdict(deque)  # headers of messages in flight
        for pe, element in self.elements.items():
            self.director.handle(d.Joined(pe, 1, 0, {}))
            self._do(element, element.machine.begin(None, 0))
            self._later(int(self._random.integers(_TICK)), bound(self._tick, element))
            if element.surroundings.sources:
                self._later(int(self._random.integers(1_000_000 // _RATE)), bound(self._come, element))

    def run(self, until: int) -> Fall:
        while self._events[0][0] < until:
            self.now, _, action = heapq.heappop(self._events)
            action()
        line = next(c for c in self.director.handle(d.Lost("Map0[0]", 1)) if isinstance(c, d.RollBack))
        back = {pe: 0 if id is None else self.elements[pe].captured[id][0] for pe, id in line.targets.items()}
        taken = [one for element in self.elements.values() for one in element.captured.values()]
        return Fall(
            len(taken), sum(forced for _, forced in taken), (until - min(back.values())) / 1e6,
            sum(id is None for id in line.targets.values()), len(self.elements),
        )  # fmt: skip

    def _later(self, delay: int, action: Callable[[], None]) -> None:
        self._scheduled += 1
        heapq.heappush(self._events, (self.now + delay, self._scheduled, action))

    def _tick(self, element: _Element) -> None:
        self._tell(element, e.Tick(self.now))
        self._later(_TICK, bound(self._tick, element))

    def _come(self, element: _Element) -> None:
        """A source receives a message."""
        self._give(element)
        self._later(int(self._random.exponential(1e6 / _RATE)), bound(self._come, element))

    def _give(self, element: _Element) -> None:
        """Forward down the pipeline, and on a feedback channel to a random one of its consumers."""
        outputs = element.surroundings.outputs.items()
        back = [channel for channel, neighbour in outputs if neighbour.feedback]
        down = [channel for channel, neighbour in outputs if not neighbour.feedback]
        for channel in [*down, *([back[int(self._random.integers(len(back)))]] if back else [])]:
            self._tell(element, e.Emitted(channel, element.sent[channel], 1))
            self._wires[channel].append(element.headers[channel])
            element.sent[channel] += 1
            target = self.elements[element.surroundings.outputs[channel].pe]
            self._later(int(self._random.integers(*_IN_FLIGHT)), bound(self._arrive, target, channel))

    def _arrive(self, element: _Element, channel: ChannelId) -> None:
        """Deliver the next message of the channel: channels are FIFO."""
        self._tell(element, e.Arrived(channel, element.taken[channel], 1, self._wires[channel].popleft()))
        element.taken[channel] += 1
        if not element.surroundings.inputs[channel].feedback:
            self._give(element)

    def _tell(self, element: _Element, event: e.Event) -> None:
        if type(event) in element.machine.subscriptions:
            self._do(element, element.machine.handle(event))

    def _do(self, element: _Element, commands: list[e.Command]) -> None:
        for command in commands:
            match command:
                case e.Stamp(channel, header):
                    element.headers[channel] = header
                case e.TakeCheckpoint(_, tag, forced):
                    self._capture(element, tag, forced)

    def _capture(self, element: _Element, tag: int, forced: bool) -> None:
        pe = element.surroundings.pe
        id = CheckpointId(pe, WHOLE, 1, len(element.captured) + 1)
        element.captured[id] = (self.now, forced)
        inlets = {channel: InletCut(number, number) for channel, number in element.taken.items()}
        cut = Cut(inlets=inlets, sent=dict(element.sent), protocol=element.machine.snapshot())
        took = d.CheckpointDurable(id, cut, 0, tag, forced, 0, _DURABLE)
        self._later(_DURABLE, lambda: self.director.handle(took) and None)


def _surroundings(settings: dict[str, Any], seed: int) -> dict[str, Surroundings]:
    names = [f"{stage}[{shard}]" for stage in _STAGES for shard in range(PIPELINES)]
    ways = [(f"{a}[{n}]", f"{b}[{n}]", False) for a, b in pairwise(_STAGES) for n in range(PIPELINES)]
    ways += [(f"Map1[{a}]", f"Map0[{b}]", True) for a in range(PIPELINES) for b in range(PIPELINES)]
    cycle = tuple(name for name in names if name.startswith("Map"))
    facts = OperatorFacts(True, True, True, None)
    return {
        pe: Surroundings(
            pe, tuple(names), {pe: facts},
            {ChannelId(f"{a}→{pe}"): Neighbour(a, pe, "log", back) for a, b, back in ways if b == pe},
            {ChannelId(f"{pe}→{b}"): Neighbour(b, pe, "log", back) for a, b, back in ways if a == pe},
            (pe,) if pe.startswith("Source") else (), settings, seed,
            cycle=cycle if pe in cycle else (),
        )
        for pe in names
    }  # fmt: skip
