"""Full replication: what was seen is dropped by key, nothing is left out, and who has lost its state is mute."""

from random import Random

import numpy as np
import pytest

from riprap.graph.keys import START_KEY, OrderKey
from riprap.operators.columns import Keys
from riprap.replication.full import HOLE, Copies, Seen


def keys(*ts: int) -> Keys:
    zero = np.zeros(1, np.int64)
    return Keys(np.array(ts, np.int64), zero, np.zeros(len(ts), np.int64), zero)


class Producer:
    """A copy that gives out the items of a stream, and holds them all."""

    def __init__(self, copy: int, stream: list[int]) -> None:
        self.copy, self.stream, self.at, self.connected = copy, stream, 0, False

    def step(self, random: Random, seen: Seen, taken: list[int]) -> None:
        if not self.connected:  # it begins somewhere: from there on it has everything
            self.at = random.randint(0, len(self.stream))
            before = OrderKey(self.stream[self.at - 1], 0, 0, 0) if self.at else START_KEY
            self.connected = seen.admit(self.copy, self.at, before)
            return
        size = random.randint(1, 5)
        if random.random() < 0.1:  # what was on its way is lost, and nobody says so
            self.at += size
            return
        part = self.stream[self.at : self.at + size]
        if not part:  # it has nothing more to say: what the last messages became of is found out by asking
            self.connected = False
            return
        skip = seen.fresh(self.copy, self.at, keys(*part))
        if skip == HOLE:
            self.connected = False
            return
        taken += part[skip:]
        self.at += len(part)


def check(seed: int) -> None:
    """Copies at different speeds, with connections that break and lose items: each item is taken once, in order."""
    random = Random(seed)
    stream = sorted(random.sample(range(1000), random.randint(1, 60)))
    seen, taken = Seen(), []
    copies = [Producer(copy, stream) for copy in range(random.choice([2, 3]))]
    for _ in range(5_000):
        if taken == stream:
            return
        random.choice(copies).step(random, seen, taken)
        assert taken == stream[: len(taken)], f"check({seed}) repeats it"
    raise AssertionError(f"check({seed}): not everything was taken")


@pytest.mark.parametrize("seeds", [range(at, at + 50) for at in range(0, 200, 50)], ids=str)
def test_each_item_is_taken_once_and_none_is_left_out(seeds):
    for seed in seeds:
        check(seed)


@pytest.mark.soak
def test_thousands_of_schedules():
    for seed in range(1000, 7000):
        check(seed)


def test_a_copy_that_begins_beyond_what_was_seen_has_to_wait():
    seen = Seen()
    assert seen.admit(0, 0, START_KEY)
    assert not seen.admit(1, 3, OrderKey(30, 0, 0, 0))
    assert seen.fresh(1, 3, keys(40)) == HOLE
    assert seen.fresh(0, 0, keys(10, 20, 30)) == 0
    assert seen.admit(1, 3, OrderKey(30, 0, 0, 0))
    assert seen.fresh(1, 3, keys(40, 50)) == 0
    assert seen.fresh(0, 3, keys(40, 50, 60)) == 2


def test_a_value_under_a_new_key_is_taken_whatever_it_is():
    """Silent corruption: a key that no healthy copy has brings one more tuple; a wrong value replaces a right one."""
    seen = Seen()
    assert all(seen.admit(copy, 0, START_KEY) for copy in (0, 1))
    taken = [10, 15, 20][seen.fresh(0, 0, keys(10, 15, 20)) :]
    taken += [10, 20, 30][seen.fresh(1, 0, keys(10, 20, 30)) :]
    assert taken == [10, 15, 20, 30]


def test_a_restarted_copy_is_mute_until_it_has_the_state_of_one_that_speaks():
    copies = Copies(("A#1", "A#2", "A#3"))
    for pe in copies.elements:
        assert copies.joined(pe, afresh=True) is None
    assert copies.lost("A#1") == []
    assert copies.joined("A#1", afresh=False) == ("A#1", "A#2")
    assert copies.lost("A#2") == [("A#1", "A#3")], "another one is asked when the donor dies"
    copies.restored("A#1")
    assert copies.states["A#1"] == "catching_up"
    assert copies.caught_up("A#1") == []
    assert copies.states == {"A#3": "speaking", "A#1": "speaking"}


def test_nobody_gives_what_nobody_has():
    copies = Copies(("A#1", "A#2"))
    for pe in copies.elements:
        copies.joined(pe, afresh=True)
    copies.lost("A#1")
    copies.lost("A#2")
    assert copies.joined("A#1", afresh=False) is None
    assert copies.states == {"A#1": "mute"}
