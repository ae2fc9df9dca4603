"""The topologies of the published evaluation, and random ones. Latencies in whole seconds."""

from itertools import pairwise

import numpy as np

from riprap.base.errors import UsageError
from riprap.base.randomness import generator
from riprap.planner.topology import Topology

SECOND = 1_000_000

# SignalGuru: the published figure shows nine steps of different width, 55 tasks in all; the widths and wiring here
# are ours.
_SIGNAL_GURU = (
    ("Camera", 4), ("Dispatch", 4), ("Colour", 12), ("Shape", 12), ("Motion", 12), ("Voting", 4), ("Group", 4),
    ("Predict", 2), ("Sink", 1),
)  # fmt: skip


def _build(name: str, tasks: list[str], edges: np.ndarray, heaviest: int, seed: int) -> Topology:
    if heaviest < 1:
        raise UsageError(f"latencies run from 1 to a largest one of at least 1, not {heaviest}")
    drawn = generator(seed, name).integers(1, heaviest + 1, len(tasks))
    return Topology(name, tuple(tasks), drawn * SECOND, np.asarray(edges, np.int32).reshape(-1, 2))


def line(lines: int, length: int, *, heaviest: int = 1, seed: int = 0) -> Topology:
    """`lines` lines of `length` tasks each with a common sink. T from 1 to `heaviest` seconds."""
    tasks = [f"{chr(ord('a') + i % 26)}{i // 26 or ''}{k + 1}" for i in range(lines) for k in range(length)] + ["sink"]
    edges = [
        (i * length + k, i * length + k + 1 if k + 1 < length else lines * length)
        for i in range(lines)
        for k in range(length)
    ]
    return _build(f"line({lines},{length})", tasks, np.array(edges), heaviest, seed)


def tree(size: int, *, heaviest: int = 1, seed: int = 0) -> Topology:
    """Every task feeds one other, drawn at random among the earlier ones; all lead to one sink."""
    rng = generator(seed, "tree", size)
    parents = [int(rng.integers(max(0, i - 6), i)) for i in range(1, size)]
    edges = [(i, parent) for i, parent in enumerate(parents, start=1)]
    return _build(f"tree({size})", ["sink", *(f"t{i}" for i in range(1, size))], np.array(edges), heaviest, seed)


def signal_guru(*, heaviest: int = 1, seed: int = 0) -> Topology:
    """55 tasks in 9 steps: four phones, each with its own filters, then votes and groups over all of them."""
    tasks: list[str] = []
    first: dict[str, int] = {}
    for step, width in _SIGNAL_GURU:
        first[step] = len(tasks)
        tasks += [f"{step}{i + 1}" for i in range(width)] if width > 1 else [step]
    edges = []
    for phone in range(4):
        edges.append((first["Camera"] + phone, first["Dispatch"] + phone))
        for i in range(3):
            colour, shape, motion = (first[step] + 3 * phone + i for step in ("Colour", "Shape", "Motion"))
            edges.append((first["Dispatch"] + phone, colour))
            edges += [(colour, first["Shape"] + 3 * phone + k) for k in range(3)]
            edges += [(shape, motion), (shape, first["Motion"] + 3 * phone + (i + 1) % 3)]
            edges += [(motion, first["Voting"] + (phone + k) % 4) for k in range(2)]
        edges += [(first["Voting"] + phone, first["Group"] + k) for k in range(4)]
        edges.append((first["Group"] + phone, first["Predict"] + phone % 2))
    edges += [(first["Predict"] + i, first["Sink"]) for i in range(2)]
    return _build("SignalGuru", tasks, np.array(sorted(edges)), heaviest, seed)


def signal_guru_of_one(*, heaviest: int = 1, seed: int = 0) -> Topology:
    """The nine steps for a single phone with two filters of each kind: 12 tasks, to be run on a small machine."""
    tasks = ["Camera", "Dispatch", "Colour1", "Colour2", "Shape1", "Shape2", "Motion1", "Motion2"]
    tasks += ["Voting", "Group", "Predict", "Sink"]
    edges = [(0, 1), (1, 2), (1, 3), (2, 4), (2, 5), (3, 4), (3, 5), (4, 6), (5, 7), (6, 8), (7, 8)]
    return _build("SignalGuru(1)", tasks, np.array([*edges, (8, 9), (9, 10), (10, 11)]), heaviest, seed)


def twitter_sentiment(topics: int, filters: int, sentiments: int, *, heaviest: int = 1, seed: int = 0) -> Topology:
    """source → hot topics → merger → filters; source → filters; filters × sentiments; sentiments → sink."""
    tasks = ["Source", *(f"HotTopic{i + 1}" for i in range(topics)), "Merger"]
    tasks += [*(f"Filter{i + 1}" for i in range(filters)), *(f"Sentiment{i + 1}" for i in range(sentiments)), "Sink"]
    topic, merger = np.arange(1, topics + 1), topics + 1
    filter_ = np.arange(merger + 1, merger + 1 + filters)
    sentiment = np.arange(filter_[-1] + 1, filter_[-1] + 1 + sentiments)
    parts = [
        (np.zeros(topics), topic), (np.zeros(filters), filter_), (topic, np.full(topics, merger)),
        (np.full(filters, merger), filter_), (np.repeat(filter_, sentiments), np.tile(sentiment, filters)),
        (sentiment, np.full(sentiments, sentiment[-1] + 1)),
    ]  # fmt: skip
    edges = np.concatenate([np.stack(part, axis=1) for part in parts]).astype(np.int32)
    return _build(f"TwitterSentiment({topics},{filters},{sentiments})", tasks, edges, heaviest, seed)


def layered(layers: int, width: int, *, most_inputs: int = 3, heaviest: int = 1, seed: int = 0) -> Topology:
    """`layers` × `width` tasks; each has 1 to `most_inputs` inputs, drawn at random from the layer before."""
    rng = generator(seed, "layered", layers, width, most_inputs)
    chosen = []
    for _, target_layer in pairwise(range(layers)):
        targets = np.repeat(np.arange(width), rng.integers(1, most_inputs + 1, width))
        pairs = np.stack([rng.integers(0, width, len(targets)), targets], axis=1)
        chosen.append(np.unique(pairs, axis=0) + np.array([target_layer - 1, target_layer]) * width)
    tasks = [f"t{layer + 1}.{i + 1}" for layer in range(layers) for i in range(width)]
    return _build(f"layered({layers},{width})", tasks, np.concatenate(chosen), heaviest, seed)
