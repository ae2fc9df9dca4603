"""A small world of message passing in which protocols and their directors run, and elements and directors die.

Elements are the least that a protocol needs: they take items from channels, in any order among channels, and give each
on as the item itself says (a hash of item and channel), so that what everybody must have in the end follows from the
sources alone, whatever happened on the way. That is the oracle: every element has every item of its own exactly once
(or, where loss was chosen, at most once, with the missing ones counted), and so has the output.

Fault model: an element dies between two steps and loses all but its durable checkpoints and logs; a checkpoint becomes
durable some steps after its capture; a connection breaks and loses what is on it, markers too; the director dies and a
new one begins with its log. What is sent to an element by the director may be lost.
"""

from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace

import numpy as np

from riprap.base.randomness import derived_seed
from riprap.protocols import director as d
from riprap.protocols import events as e
from riprap.protocols.channels import ChannelId
from riprap.protocols.cut import CheckpointId, Cut, InletCut
from riprap.protocols.protocol import WHOLE, Neighbour, OperatorFacts, Surroundings

STEP = 1_000  # microseconds of a step
HOPS = 3  # an item goes back into a cycle so often


@dataclass
class Message:
    number: int
    items: list
    header: bytes = b""
    marker: bytes | None = None
    end: bool = False


@dataclass
class Saved:
    """A checkpoint on its way to the disk, or there."""

    id: CheckpointId
    cut: Cut
    state: list
    tag: int
    forced: bool
    line: int
    recording: set
    recorded: dict
    due: int | None = None


@dataclass
class Life:
    pe: str
    epoch: int
    line: int
    machine: object
    state: list = field(default_factory=list)  # items that it has taken, in order
    position: int = 0  # in its source
    next: dict = field(default_factory=dict)  # inlet → number expected
    sent: dict = field(default_factory=dict)  # outlet → number of the next item
    headers: dict = field(default_factory=dict)
    parked: dict = field(default_factory=dict)  # inlet → messages
    pending: list = field(default_factory=list)  # Saved that are not durable
    ended: set = field(default_factory=set)
    finished: bool = False
    halted: bool = False
    numbered: int = 0


class World:
    def __init__(self, spec, seed, edges, sources, *, settings, items=30, ends=True):
        """`edges`: (from, to, feedback) by name; `sources`: names of elements with a source."""
        self.spec, self.seed, self.generator = spec, seed, np.random.default_rng(seed)
        self.ends = ends and not any(feedback for _, _, feedback in edges)
        names = sorted({name for edge in edges for name in edge[:2]})
        self.channels = {ChannelId(f"{a}→{b}"): (a, b, feedback) for a, b, feedback in edges}
        self.sinks = [pe for pe in names if not any(a == pe for a, _, _ in self.channels.values())]
        self.inputs = {pe: [(pe, k) for k in range(items)] if pe in sources else [] for pe in names}
        reach = {pe: self._reached(pe) for pe in names}
        self.surroundings = {
            pe: Surroundings(
                pe,
                tuple(names),
                {pe: OperatorFacts(True, True, True, None)},
                {c: Neighbour(a, pe, spec.retention[0], f) for c, (a, b, f) in self.channels.items() if b == pe},
                {c: Neighbour(b, pe, spec.retention[0], f) for c, (a, b, f) in self.channels.items() if a == pe},
                (pe,) if pe in sources else (),
                settings,
                seed,
                tuple(other for other in names if other in reach[pe] and pe in reach[other]),
            )
            for pe in names
        }
        self.persistent = spec.retention[0] == "log"
        self.now, self.line, self.epoch = 0, 0, 0
        self.logs = defaultdict(list)  # channel → items by number; of a dead element only if persistent
        self.forgotten = defaultdict(int)  # channel → items below are gone from its log
        self.output = {pe: [] for pe in self.sinks}  # what a sink has given out
        self.disk = {}  # CheckpointId → Saved
        self.wire = {c: [] for c in self.channels}
        self.targets = dict.fromkeys(names)
        self.director_log, self.directing, self.told = [], None, defaultdict(list)
        self.lost = Counter()
        self.commits = 0
        self.taken, self.forced, self.stayed = 0, 0, 0
        self.lives = {}
        self._new_director()
        for pe in names:
            self._begin(pe)

    def _reached(self, pe):
        seen, stack = set(), [pe]
        while stack:
            at = stack.pop()
            for a, b, _ in self.channels.values():
                if a == at and b not in seen:
                    seen.add(b)
                    stack.append(b)
        return seen

    # The oracle -------------------------------------------------------------------------------------------------------

    def goes(self, item, channel):
        """What an item becomes on a channel; None: it does not go there."""
        feedback = self.channels[channel][2]
        origin, trips = item[:2], item[2] if len(item) > 2 else 0
        if derived_seed(self.seed, str(channel), *origin, trips) % 3 == 0 or (feedback and trips >= HOPS):
            return None
        return (*origin, trips + feedback)

    def expected(self):
        """By element, every item that reaches it."""
        reached = {pe: Counter(items) for pe, items in self.inputs.items()}
        stack = [(pe, item) for pe, items in self.inputs.items() for item in items]
        while stack:
            pe, item = stack.pop()
            for channel, (a, b, _) in self.channels.items():
                if a == pe and (given := self.goes(item, channel)) is not None:
                    reached[b][given] += 1
                    stack.append((b, given))
        return reached

    # Lives ------------------------------------------------------------------------------------------------------------

    def _begin(self, pe):
        """A life, from the checkpoint of the line in force, or a newer one where nobody told it to go back."""
        self.epoch += 1
        machine = self.spec.machine(self.surroundings[pe], self.spec.plan(self.surroundings[pe]))
        life = Life(pe, self.epoch, self.line, machine)
        newer = [id for id, s in self.disk.items() if id.pe == pe and s.line == self.line]
        saved = self.disk.get(max(newer) if newer else self.targets[pe])
        cut = saved.cut if saved else None
        if saved:
            life.state, life.position = list(saved.state), cut.sources.get(pe, 0)
            life.next = {c: inlet.taken for c, inlet in cut.inlets.items()}
            life.sent = dict(cut.sent)
        life.next = dict.fromkeys(self.surroundings[pe].inputs, 0) | life.next
        life.sent = dict.fromkeys(self.surroundings[pe].outputs, 0) | life.sent
        for channel, number in life.sent.items():  # what goes on from here will be numbered anew
            self.forgotten[channel] = min(self.forgotten[channel], number)
            del self.logs[channel][number - self.forgotten[channel] :]
        if pe in self.output:
            del self.output[pe][len(life.state) :]
        self.lives[pe] = life
        self._carry_out(life, machine.begin(cut, self.now))
        for channel in cut.parked if cut else ():
            for message in saved.recorded[channel]:
                self._take(life, channel, message)
        for channel in [*self.surroundings[pe].inputs, *self.surroundings[pe].outputs]:
            self._connect(channel)
        known = {id: s.cut for id, s in self.disk.items() if id.pe == pe}
        self._direct(d.Joined(pe, life.epoch, self.line, known))

    def _connect(self, channel):
        """A connection begins: what its consumer expects is sent again, as far as it is there."""
        source, target, _ = self.channels[channel]
        self.wire[channel] = []
        if self.lives.get(source) is None or self.lives.get(target) is None:
            return
        first, base = self.lives[target].next[channel], self.forgotten[channel]
        header = self.lives[source].headers.get(channel, b"")
        # Item by item: what is sent again is not joined over the place of a marker.
        for number, item in enumerate(self.logs[channel][max(0, first - base) :], max(first, base)):
            self.wire[channel].append(Message(number, [item], header))
        if self.ends and self.lives[source].finished:
            self.wire[channel].append(Message(self.lives[source].sent[channel], [], end=True))

    def crash(self, pe):
        life, self.lives[pe] = self.lives[pe], None
        if life is None:
            return
        for channel in [*self.surroundings[pe].inputs, *self.surroundings[pe].outputs]:
            self.wire[channel] = []
        if not self.persistent:
            for channel in self.surroundings[pe].outputs:
                self.forgotten[channel] += len(self.logs[channel])
                self.logs[channel] = []
        self._direct(d.Lost(pe, life.epoch))

    # The director -----------------------------------------------------------------------------------------------------

    def _new_director(self):
        self.directing = self.spec.director(self.surroundings)
        commands = self.directing.begin(list(self.director_log))
        self._obey(commands)
        for pe, life in list(self.lives.items()):
            if life is not None and self.lives[pe] is life:
                known = {id: s.cut for id, s in self.disk.items() if id.pe == pe}
                self._direct(d.Joined(pe, life.epoch, life.line, known))

    def _direct(self, event):
        if self.directing is not None:
            self._obey(self.directing.handle(event))

    def _obey(self, commands):
        for command in commands:
            match command:
                case d.Persist(record):
                    self.director_log.append(record)
                    self.commits += "committed" in record
                case d.SendToElement(pe, message):
                    if self.generator.random() > 0.05:
                        self.told[pe].append((message, self.epoch))
                case d.RollBack(line, targets):
                    self.line = max(self.line, line)
                    self.targets |= targets
                    for pe, life in self.lives.items():
                        if life is not None and life.line < line:
                            if pe in targets:
                                self.lives[pe] = None
                            else:  # it goes on as it is
                                life.line = line
                                self.stayed += 1
                    for pe in targets:
                        if pe in self.lives and self.lives[pe] is None and self.generator.random() < 0.9:
                            self._begin(pe)  # one that is down a while longer is begun by a later step
                case d.Delete(ids, void):
                    for id in ids:
                        self.disk.pop(id, None)
                    for pe in {id.pe for id in ids}:
                        left = sorted(id for id in self.disk if id.pe == pe)
                        if left and not void and self.lives.get(pe) is not None:
                            event = e.Deleted(WHOLE, self.disk[left[0]].cut)
                            self._carry_out(self.lives[pe], self.lives[pe].machine.handle(event))

    # Commands of a machine --------------------------------------------------------------------------------------------

    def _carry_out(self, life, commands, message=None):
        for command in commands:
            if self.lives.get(life.pe) is not life:
                return
            match command:
                case e.Deliver(channel):
                    self._deliver(life, channel, message)
                case e.Park(channel):
                    life.parked.setdefault(channel, [])
                case e.Unpark(channel):
                    for parked in life.parked.pop(channel, []):
                        self._take(life, channel, parked)
                case e.Halt(halted):
                    life.halted = halted
                case e.SendToDirector(told):
                    self._direct(d.FromElement(life.pe, life.epoch, told))
                case e.TakeCheckpoint(_, tag, forced, record):
                    self._capture(life, tag, forced, record)
                case e.Close(channel, tag):
                    for saved in life.pending:
                        if saved.tag == tag:
                            saved.recording.discard(channel)
                case e.Abandon(tag):
                    life.pending = [s for s in life.pending if s.tag != tag or not s.recording]
                case e.SendMarker(channel, marker, ahead):
                    queue = self.wire[channel]
                    at = len(queue)
                    while ahead and at and queue[at - 1].marker is None and self.generator.random() < 0.7:
                        at -= 1
                    if self.lives.get(self.channels[channel][1]) is not None:
                        queue.insert(at, Message(life.sent[channel], [], marker=marker))
                case e.Stamp(channel, header):
                    life.headers[channel] = header
                case e.Acknowledge(channel, below):
                    gone = max(0, below - self.forgotten[channel])
                    del self.logs[channel][:gone]
                    self.forgotten[channel] += gone

    def _capture(self, life, tag, forced, record):
        life.numbered += 1
        cut = Cut(
            sources={life.pe: life.position},
            inlets={c: InletCut(number, number) for c, number in life.next.items()},
            sent=dict(life.sent),
            protocol=life.machine.snapshot(),
        )
        id = CheckpointId(life.pe, WHOLE, life.epoch, life.numbered)
        self.taken += 1
        self.forced += forced
        life.pending.append(
            Saved(id, cut, list(life.state), tag, forced, life.line, set(record), {c: [] for c in record})
        )

    # Items ------------------------------------------------------------------------------------------------------------

    def _take(self, life, channel, message):
        """As docs/internals/protocols.md says, for each message in the order of its channel."""
        if channel in life.parked:
            life.parked[channel].append(message)
        elif message.marker is not None:
            self._tell(life, e.MarkerArrived(channel, message.number, message.marker))
        elif message.end:
            self.lost[channel] += message.number - life.next[channel]
            life.next[channel] = message.number
            life.ended.add(channel)
            self._tell(life, e.Ended(channel))
        else:
            skip = life.next[channel] - message.number
            if skip < 0:
                self.lost[channel] += -skip
                life.next[channel] = message.number
            new = message.items[max(0, skip) :]
            if not new:
                return
            rest = Message(life.next[channel], new, message.header)
            if e.Arrived in life.machine.subscriptions:
                event = e.Arrived(channel, rest.number, len(new), rest.header)
                self._carry_out(life, life.machine.handle(event), rest)
            else:
                self._deliver(life, channel, rest)

    def _tell(self, life, event):
        if type(event) in life.machine.subscriptions:
            self._carry_out(life, life.machine.handle(event))

    def _deliver(self, life, channel, message):
        for saved in life.pending:
            if channel in saved.recording:
                saved.recorded[channel].append(message)
        life.next[channel] = message.number + len(message.items)
        for item in message.items:
            self._work(life, item)

    def _work(self, life, item):
        life.state.append(item)
        if life.pe in self.output:
            self.output[life.pe].append(item)
        for channel in self.surroundings[life.pe].outputs:
            given = self.goes(item, channel)
            if given is None:
                continue
            self._tell(life, e.Emitted(channel, life.sent[channel], 1))
            message = Message(life.sent[channel], [given], life.headers.get(channel, b""))
            life.sent[channel] += 1
            self.logs[channel].append(given)
            if self.lives.get(self.channels[channel][1]) is not None:
                self.wire[channel].append(message)

    # Time -------------------------------------------------------------------------------------------------------------

    def step(self):
        self.now += STEP
        pick = self.generator.random()
        names = list(self.lives)
        pe = names[int(self.generator.integers(len(names)))]
        life = self.lives[pe]
        if life is None:
            if pick < 0.3 and self.directing is not None and self.directing.start_point(pe, self.epoch) is not None:
                self._begin(pe)  # it has to register with one
            return
        for message, _ in self._due(pe):
            self._tell(life, e.FromDirector(message))
            if self.lives[pe] is not life:
                return
        if life.halted and pick < 0.9:
            pass
        elif pick < 0.25 and life.position < len(self.inputs[pe]):
            life.position += 1
            self._work(life, self.inputs[pe][life.position - 1])
        elif pick < 0.9:
            waiting = [c for c in self.surroundings[pe].inputs if self.wire[c]]
            if waiting:
                channel = waiting[int(self.generator.integers(len(waiting)))]
                self._take(life, channel, self.wire[channel].pop(0))
        else:
            self._tell(life, e.Tick(self.now))
            self._direct(d.DirectorTick(self.now))
        if self.lives[pe] is life:
            self._end(life)
            self._write(life)

    def _due(self, pe):
        told, self.told[pe] = self.told[pe], []
        return told

    def _end(self, life):
        if not self.ends or life.finished or life.position < len(self.inputs[life.pe]):
            return
        if set(self.surroundings[life.pe].inputs) <= life.ended:
            life.finished = True
            for channel in self.surroundings[life.pe].outputs:
                if self.lives.get(self.channels[channel][1]) is not None:
                    self.wire[channel].append(Message(life.sent[channel], [], end=True))
            self._direct(d.Finished(life.pe, life.epoch))

    def _write(self, life):
        for saved in list(life.pending):
            if saved.recording:
                continue
            if saved.due is None:
                saved.due = self.now + int(self.generator.integers(0, 40)) * STEP
            if saved.due <= self.now and self.lives.get(life.pe) is life:
                life.pending.remove(saved)
                if saved.line < self.line:
                    continue  # void
                parked = {c: tuple(b"" for _ in messages) for c, messages in saved.recorded.items() if messages}
                saved.cut = replace(saved.cut, parked=parked)
                self.disk[saved.id] = saved
                event = d.CheckpointDurable(saved.id, saved.cut, saved.line, saved.tag, saved.forced, 0, 0)
                self._direct(event)

    def quiet(self):
        """Nothing is left to do but to take checkpoints."""
        lives = self.lives.values()
        return (
            all(life is not None and life.position == len(self.inputs[life.pe]) for life in lives)
            and not any(life.halted for life in lives)
            and not any(m.items for queue in self.wire.values() for m in queue)
            and not any(m.items for life in lives for queue in life.parked.values() for m in queue)
            and (not self.ends or all(life.finished for life in lives))
        )

    def run(self, *, crashes=3, breaks=3, directors=1, limit=60_000):
        """Until everything is done. Faults come at random moments of the first part."""
        moments = Counter()
        for kind, count in (("crash", crashes), ("break", breaks), ("director", directors)):
            for _ in range(count):
                moments[(int(self.generator.integers(20, 1500)), kind)] += 1
        for number in range(limit):
            if moments[(number, "crash")]:
                self.crash(list(self.lives)[int(self.generator.integers(len(self.lives)))])
            if moments[(number, "break")]:
                self._connect(list(self.channels)[int(self.generator.integers(len(self.channels)))])
            if moments[(number, "director")]:
                self.directing = None  # it is away for a while, and what happens meanwhile it does not hear
                self.crash(list(self.lives)[int(self.generator.integers(len(self.lives)))])
            if self.directing is None and self.generator.random() < 0.05:
                self._new_director()
            self.step()
            if number > 1500 and self.quiet():
                return self
        raise AssertionError(f"seed {self.seed}: no end after {limit} steps")
