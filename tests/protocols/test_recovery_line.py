"""The recovery line is what the checkpoint graph with rollback propagation gives, and the greatest that has no loss."""

import itertools

import numpy as np
import pytest
from tests.protocols.histories import History, rollback_propagation, useless

from riprap.protocols.channels import ChannelId
from riprap.protocols.recovery_line import CheckpointPoint, Ends, lost_items, missing, recovery_line


def random_history(seed, n=4, steps=60, checkpoint=0.15):
    generator = np.random.default_rng(seed)
    history, flying, count = History(n), {}, 0
    for _ in range(steps):
        process = int(generator.integers(n))
        if generator.random() < checkpoint:
            history.checkpoint(process)
        elif flying and generator.random() < 0.5:
            pair = list(flying)[int(generator.integers(len(flying)))]
            history.receive(flying[pair].pop(0), *pair)
            if not flying[pair]:
                del flying[pair]
        else:
            other = int(generator.choice([p for p in range(n) if p != process]))
            history.send(count, process, other)
            flying.setdefault((process, other), []).append(count)
            count += 1
    return history


@pytest.mark.parametrize("virtual", [False, True])
def test_the_line_is_that_of_the_checkpoint_graph(virtual):
    moved = 0
    for seed in range(150):
        history = random_history(seed)
        failed = {0, seed % 4} if virtual else set(range(4))
        points = {pe: list(ps) for pe, ps in history.points.items()}
        for process in range(4):
            if process not in failed:
                points[str(process)].append(history.point(process))  # its live state
        line = recovery_line(points, history.channels)
        assert {int(pe): index for pe, index in line.items()} == rollback_propagation(history, failed), seed
        moved += sum(line.values()) < sum(len(p) - 1 for p in points.values())
    assert moved > 50


def brute_force(points, channels, logs):
    """The greatest line of all that has no orphan and loses nothing."""
    good = []
    names = list(points)
    for indices in itertools.product(*(range(len(points[pe])) for pe in names)):
        at = dict(zip(names, indices, strict=True))
        ok = True
        for channel, (source, target) in channels.items():
            sent = points[source][at[source]].sent.get(channel, 0)
            taken = points[target][at[target]]
            delivered = taken.delivered.get(channel, 0)
            spans = (taken.saved.get(channel, (0, 0)), logs.get(channel, (0, 0)))
            kept = {number for low, high in spans for number in range(low, high)}
            ok &= delivered <= sent and all(number in kept for number in range(delivered, sent))
        if ok:
            good.append(at)
    best = {pe: max(at[pe] for at in good) for pe in names}
    assert best in good  # the consistent lines are closed under the maximum
    return best


def test_nothing_is_lost_at_the_line():
    generator = np.random.default_rng(7)
    for seed in range(120):
        history = random_history(1000 + seed, n=3, steps=36, checkpoint=0.2)
        logs = {}
        for channel in history.channels:
            first = int(generator.integers(0, 4))
            logs[channel] = (first, first + int(generator.integers(0, 12)))
        points = {pe: _with_state(ps, generator) for pe, ps in history.points.items()}
        line = recovery_line(points, history.channels, logs)
        assert line == brute_force(points, history.channels, logs), seed
        assert lost_items(points, line, history.channels, logs) == {}


def _with_state(points, generator):
    """Some checkpoints have channel state, which is taken before the next one."""
    found = []
    for index, point in enumerate(points):
        saved = {}
        for channel, delivered in point.delivered.items():
            if generator.random() < 0.5:
                most = points[index + 1].delivered[channel] if index + 1 < len(points) else delivered + 4
                saved[channel] = (delivered, min(most, delivered + int(generator.integers(1, 5))))
        found.append(CheckpointPoint(point.sent, point.delivered, saved))
    return found


def test_loss_is_counted_exactly():
    channel = ChannelId("a→b")
    ends = {channel: Ends("a", "b")}
    points = {
        "a": [CheckpointPoint(), CheckpointPoint({channel: 10})],
        "b": [CheckpointPoint(), CheckpointPoint({}, {channel: 4}, {channel: (4, 6)})],
    }
    assert recovery_line(points, ends) == {"a": 1, "b": 1}
    assert lost_items(points, {"a": 1, "b": 1}, ends, {channel: (8, 99)}) == {channel: 2}
    assert missing(points["a"][1], points["b"][1], channel, {}) == 4
    assert missing(points["a"][1], points["b"][1], channel, {channel: (0, 5)}) == 4
    assert recovery_line(points, ends, {channel: (8, 99)}) == {"a": 0, "b": 0}
    assert recovery_line(points, ends, {channel: (6, 99)}) == {"a": 1, "b": 1}


def test_the_domino_effect():
    """Two processes that talk in turn and checkpoint between: without forced checkpoints they fall to the beginning."""
    history = History(2)
    for number in range(0, 40, 2):
        history.send(number, 0, 1)
        history.receive(number, 0, 1)
        history.checkpoint(1)
        history.send(number + 1, 1, 0)
        history.receive(number + 1, 1, 0)
        history.checkpoint(0)
    line = recovery_line(history.points, history.channels)
    assert line == {str(p): i for p, i in rollback_propagation(history, {0, 1}).items()}
    assert sum(line.values()) <= 1
    assert len(useless(history)) >= 38
