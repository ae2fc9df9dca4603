"""The definitions of docs/reference/plan.md, tried on every set of backups. Nothing here comes from the planner.

A case is plain data: what a topology file holds, and what `riprap plan` is asked. Recovery is read off the recursion

    L(v) = T(v) + max over upstream u of (1 − M(u)) · L(u)

on the graph as it is, cycles included: a task that comes to need itself never recovers. With k failures at once every
choice of k − 1 backups is lost in turn (the task itself being the first failure), and the worst of them counts.
"""

from dataclasses import dataclass, field
from itertools import combinations, pairwise
from math import inf
from random import Random


@dataclass(frozen=True)
class Case:
    latency: dict  # T in seconds by task
    edges: tuple  # (source, target)
    feedback: frozenset  # of edges
    cost: dict | None  # by task
    recovery: int  # R in seconds
    sinks: dict = field(default_factory=dict)  # stricter bounds
    failures: int = 1
    must: frozenset = frozenset()
    must_not: frozenset = frozenset()
    previous: frozenset | None = None

    def file(self):
        """As a topology file."""
        tasks = [{"name": name, "T": seconds} for name, seconds in self.latency.items()]
        if self.cost is not None:
            tasks = [task | {"cost": self.cost[task["name"]]} for task in tasks]
        edges = [{"from": a, "to": b, "feedback": (a, b) in self.feedback} for a, b in self.edges]
        return {"name": "random", "tasks": tasks, "edges": edges}

    def cost_of(self, backups):
        return len(backups) if self.cost is None else sum(self.cost[task] for task in backups)


def feeders(case):
    before = {task: [] for task in case.latency}
    for source, target in case.edges:
        before[target].append(source)
    return before


def latencies(case, backups):
    """L of every task; inf where it never recovers."""
    before = feeders(case)
    worst = dict.fromkeys(case.latency, 0)
    for lost in combinations(sorted(backups), min(case.failures - 1, len(backups))):
        kept = backups - set(lost)
        known = {}

        def late(task, kept=kept, known=known):
            if task not in known:
                known[task] = inf  # until it is known: whoever needs itself waits for ever
                known[task] = case.latency[task] + max((late(u) for u in before[task] if u not in kept), default=0)
            return known[task]

        for task in case.latency:
            worst[task] = max(worst[task], late(task))
    return worst


def bounds(case):
    """R, or the strictest bound of the sinks that a task feeds, directly or not."""
    limit = dict.fromkeys(case.latency, case.recovery)
    before = feeders(case)
    for sink, bound in case.sinks.items():
        reached, pending = set(), [sink]
        while pending:
            task = pending.pop()
            if task not in reached:
                reached.add(task)
                limit[task] = min(limit[task], bound)
                pending += before[task]
    return limit


def is_met(case, backups, cuts):
    limit = bounds(case)
    return (
        case.must <= backups
        and {source for source, _ in cuts} <= backups
        and not case.must_not & backups
        and all(late <= limit[task] for task, late in latencies(case, backups).items())
    )


def cheapest(case, cuts):
    """(cost, changes against the previous plan) of the best set of backups; None if no set will do."""
    had = case.previous or frozenset()
    sets = [frozenset(chosen) for count in range(len(case.latency) + 1) for chosen in combinations(case.latency, count)]
    keyed = sorted(((case.cost_of(backups), len(backups ^ had), sorted(backups)), backups) for backups in sets)
    for (cost, changes, _), backups in keyed:
        if is_met(case, backups, cuts):
            return cost, changes
    return None


def is_acyclic(tasks, edges):
    left, edges = set(tasks), set(edges)
    while left:
        free = left - {target for _, target in edges}
        if not free:
            return False
        left -= free
        edges = {(a, b) for a, b in edges if a not in free}
    return True


def is_sound_cut(case, cuts):
    """Every marked stream is cut, and others only where the marked ones leave a cycle."""
    rest = set(case.edges) - case.feedback
    others = set(cuts) - case.feedback
    needless = is_acyclic(case.latency, rest) and others
    return case.feedback <= set(cuts) and is_acyclic(case.latency, set(case.edges) - set(cuts)) and not needless


SHAPES = ("line", "tree", "layered", "arbitrary", "cyclic", "feedback", "feedback")
COSTS = (None, None, (0, 3), (0, 1, 1, 2), (0, 10**9), (1, 10**9), "wide")


def random_case(seed, largest=7):
    random = Random(seed)
    size = random.randint(1, largest)
    names = [f"t{i}" for i in range(size)]
    random.shuffle(names)
    shape = random.choice(SHAPES)
    forward = [(a, b) for i, a in enumerate(names) for b in names[i + 1 :]]
    if shape == "line":
        edges = list(pairwise(names))
    elif shape == "tree":
        edges = [(a, random.choice(names[i + 1 :])) for i, a in enumerate(names[:-1])]
    elif shape == "layered":
        width = random.randint(1, 3)
        edges = [(a, b) for a, b in forward if names.index(b) // width == names.index(a) // width + 1]
    else:
        edges = random.sample(forward, random.randint(0, min(len(forward), 2 * size)))
    feedback = set()
    if shape in ("cyclic", "feedback") or random.random() < 0.2:
        back = [(b, a) for a, b in forward] + [(a, a) for a in names]
        chosen = random.sample(back, random.randint(0, min(3, len(back))))
        feedback = set(chosen) if shape != "cyclic" else {edge for edge in chosen if random.random() < 0.3}
        edges += chosen
    random.shuffle(edges)
    heaviest = random.choice((1, 2, 5, 10))
    latency = {name: random.randint(0 if random.random() < 0.1 else 1, heaviest) for name in sorted(names)}
    spread = random.choice(COSTS)
    cost = None
    if spread is not None:
        draw = (lambda: int(10 ** random.uniform(0, 9))) if spread == "wide" else (lambda: random.choice(spread))
        cost = {name: draw() if random.random() < 0.8 else random.randint(0, 10**9) for name in names}
    least = max(1, *latency.values())
    recovery = random.randint(least, max(least, sum(latency.values())))
    ends = [name for name in names if name not in {a for a, _ in edges}]
    few = random.random()
    return Case(
        latency,
        tuple(edges),
        frozenset(feedback),
        cost,
        recovery,
        {end: random.randint(least, recovery) for end in ends if random.random() < 0.7}
        if random.random() < 0.4
        else {},
        random.choice((1, 1, 1, 2, 2, 3)),
        frozenset(random.sample(names, min(size, 1))) if few < 0.1 else frozenset(),
        frozenset(random.sample(names, min(size, 2))) if few > 0.8 else frozenset(),
        frozenset(name for name in names if random.random() < 0.5) if random.random() < 0.4 else None,
    )
