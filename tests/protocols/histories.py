"""Random histories of message passing, and what the literature says of them, by brute force.

A history is a list of events of n processes: ("send", m), ("receive", m), ("checkpoint",); a message has a sender and a
receiver. The initial state of each process is its checkpoint 0; interval x lies behind checkpoint x.
"""

from collections import defaultdict
from dataclasses import dataclass, field

from riprap.protocols.channels import ChannelId
from riprap.protocols.recovery_line import CheckpointPoint, Ends


@dataclass
class History:
    """What happened: per message the interval it was sent and received in; per process its checkpoints as points."""

    n: int
    sent: dict = field(default_factory=dict)  # message → (process, interval)
    received: dict = field(default_factory=dict)
    points: dict = field(default_factory=dict)  # process name → list of Point
    forced: int = 0

    def __post_init__(self):
        self.interval = [0] * self.n
        self.numbers = defaultdict(int)  # channel → sent
        self.taken = defaultdict(int)
        self.channels = {}
        self.points = {str(p): [CheckpointPoint()] for p in range(self.n)}

    def send(self, message, source, target):
        channel = ChannelId(f"{source}→{target}")
        self.channels[channel] = Ends(str(source), str(target))
        self.numbers[channel] += 1
        self.sent[message] = (source, self.interval[source])

    def receive(self, message, source, target):
        self.taken[ChannelId(f"{source}→{target}")] += 1
        self.received[message] = (target, self.interval[target])

    def checkpoint(self, process):
        self.interval[process] += 1
        self.points[str(process)].append(self.point(process))

    def point(self, process):
        sent = {c: k for c, k in self.numbers.items() if self.channels[c].source == str(process)}
        return CheckpointPoint(sent, {c: k for c, k in self.taken.items() if self.channels[c].target == str(process)})


def useless(history):
    """Checkpoints on a zigzag cycle: from behind (p, x), over messages each of which was sent in the interval in which
    the one before it was received, or a later one, to one that p received before x."""
    leaving = defaultdict(list)
    for message, (process, interval) in history.sent.items():
        if message in history.received:
            leaving[process].append((interval, message))
    found = []
    for process in range(history.n):
        for x in range(1, history.interval[process] + 1):
            seen, stack = set(), [m for interval, m in leaving[process] if interval >= x]
            while stack:
                message = stack.pop()
                if message in seen:
                    continue
                seen.add(message)
                where, interval = history.received[message]
                if where == process and interval < x:
                    found.append((process, x))
                    break
                stack += [m for at, m in leaving[where] if at >= interval]
    return found


def rollback_propagation(history, failed):
    """The checkpoint graph and rollback propagation (Elnozahy et al.): the line, as an index per process.

    Processes that did not fail stand at their virtual checkpoint, the last index + 1.
    An edge from c(i, x) to c(j, y): a message was sent after c(i, x) and received before c(j, y); or i = j, y = x + 1.
    """
    last = {p: history.interval[p] + (0 if p in failed else 1) for p in range(history.n)}
    edges = defaultdict(set)
    for p in range(history.n):
        for x in range(last[p]):
            edges[(p, x)].add((p, x + 1))
    for message, (source, x) in history.sent.items():
        if message in history.received:
            target, y = history.received[message]
            for before in range(x + 1):
                edges[(source, before)].add((target, y + 1))
    root = dict(last)
    while True:
        marked, stack = set(), [node for p, x in root.items() for node in edges[(p, x)]]
        while stack:
            node = stack.pop()
            if node not in marked:
                marked.add(node)
                stack += edges[node]
        if not any((p, x) in marked for p, x in root.items()):
            return root
        for p in root:
            while (p, root[p]) in marked:
                root[p] -= 1
