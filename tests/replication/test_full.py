"""Full replication: what was seen is dropped by key, nothing is left out, and who has lost its state waits for it."""

from random import Random

import numpy as np
import pytest

from riprap.graph.annotations import full_replication
from riprap.graph.builder import App
from riprap.graph.order_keys import OrderKey
from riprap.operators.columns import Keys
from riprap.protocols.channel import ALL, Delivered, Skip
from riprap.protocols.channels import ChannelId
from riprap.protocols.cut import CheckpointId
from riprap.protocols.director import NO_CHECKPOINT, OWN_CHECKPOINT, FromElement, Joined, Lost, SendToElement
from riprap.replication.full import OURS, Copies
from riprap.replication.news import as_json, from_json
from riprap.replication.seen import HOLE, Seen
from riprap.runtime.layout import arrange

STRANDS = [ChannelId("s", copy, 0) for copy in range(3)]


def keys(*ts: int) -> Keys:
    zero = np.zeros(1, np.int64)
    return Keys(np.array(ts, np.int64), zero, np.zeros(len(ts), np.int64), zero)


class Producer:
    """A copy that gives out the items of a stream, of which some share a key, and holds them all."""

    def __init__(self, strand: ChannelId, stream: list[int]) -> None:
        self.strand, self.stream, self.at, self.offset, self.connected = strand, stream, 0, 0, False

    def step(self, random: Random, seen: Seen, taken: list[int]) -> None:
        if not self.connected:
            number, had = seen.expected(self.strand), seen.connected(self.strand)
            first = Skip(had).of(keys(*self.stream))
            self.offset, self.connected = number - first, True
            self.at = max(0, first - random.randint(0, 2))  # messages are sent again whole
            return
        size = random.randint(1, 5)
        part = self.stream[self.at : self.at + size]
        if random.random() < 0.1:  # what was on its way is lost, and the connection with it
            self.connected = False
            return
        if random.random() < 0.05 and part and seen.expected(self.strand) == self.at + self.offset:
            assert seen.fresh(self.strand, self.at + self.offset + 1, keys(*part)) == HOLE
            return
        if not part:
            self.connected = False
            return
        whole = self.at + size >= len(self.stream) or self.stream[self.at + size] > part[-1]
        watermark = OrderKey(part[-1], 0, 0, 0) if whole and random.random() < 0.3 else None
        taken += part[seen.fresh(self.strand, self.at + self.offset, keys(*part), watermark) :]
        self.at += len(part)


def check(seed: int) -> None:
    """Copies at different speeds, with connections that break and lose items: each item is taken once, in order."""
    random = Random(seed)
    stream = sorted(random.choices(range(40), k=random.randint(1, 60)))
    seen, taken = Seen(), []
    copies = [Producer(strand, stream) for strand in STRANDS[: random.choice([2, 3])]]
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


def test_a_hole_carries_nobody_past_what_is_missing():
    seen, (one, other) = Seen(), STRANDS[:2]
    assert seen.fresh(one, 3, keys(40)) == HOLE
    assert seen.fresh(other, 0, keys(10, 20, 30)) == 0
    assert seen.fresh(one, 0, keys(10, 20, 30, 40, 50)) == 3
    assert seen.fresh(other, 3, keys(40, 50, 60)) == 2
    assert (seen.delivered.key.ts, seen.dropped) == (60, 5)


def test_a_value_under_a_new_key_is_taken_whatever_it_is():
    """Silent corruption: a key that no healthy copy has brings one more tuple; a wrong value replaces a right one."""
    seen = Seen()
    taken = [10, 15, 20][seen.fresh(STRANDS[0], 0, keys(10, 15, 20)) :]
    taken += [10, 20, 30][seen.fresh(STRANDS[1], 0, keys(10, 20, 30)) :]
    assert taken == [10, 15, 20, 30]


def snapshot(pe: str, number: int = 1) -> CheckpointId:
    return CheckpointId(pe, "fragment", 1, number)


def test_a_restarted_copy_waits_for_the_state_of_one_that_lives():
    copies = Copies(("A#1", "A#2", "A#3"))
    for pe in copies.elements:
        assert copies.start_point(pe, 1, waited=False) == OWN_CHECKPOINT
        copies.joined(pe, 1)
    copies.lost("A#1", 1)
    [asked] = copies.ask(0)
    assert asked.pe == "A#2"
    assert copies.start_point("A#1", 2, waited=True) is None
    copies.lost("A#2", 1)
    [asked] = copies.ask(1)
    assert asked.pe == "A#3", "another one is asked when the first dies"
    copies.took(snapshot("A#2"))
    assert copies.start_point("A#1", 2, waited=True) is None, "that was of a life that is over"
    copies.took(snapshot("A#3"))
    assert copies.start_point("A#1", 2, waited=True) == copies.start_point("A#2", 2, waited=True) == snapshot("A#3")
    copies.joined("A#1", 2)
    assert copies.ask(10_000_000) == []
    assert [copies.state(pe, {"A#1"}) for pe in copies.elements] == ["catching up", "waiting", "speaking"]


def test_if_nobody_is_left_one_begins_empty_and_the_others_get_their_state_from_it():
    copies = Copies(("A#1", "A#2"))
    for pe in copies.elements:
        copies.joined(pe, 1)
    copies.lost("A#1", 1)
    copies.lost("A#2", 1)
    assert copies.start_point("A#2", 2, waited=False) is None, "a director that has just begun does not know who lives"
    assert copies.start_point("A#2", 2, waited=True) == NO_CHECKPOINT
    assert copies.start_point("A#1", 2, waited=True) is None
    copies.joined("A#2", 2)
    assert [asked.pe for asked in copies.ask(0)] == ["A#2"]
    assert copies.tainted == 1


def test_nothing_is_released_that_a_copy_which_comes_back_may_lack():
    """The one that died was ahead of the other, whose snapshot the next life begins with."""
    app = App("released", protect=full_replication(2))
    app.source("S", "x long").filter("x > 0", name="F").sink("Out")
    layout = arrange(app.build(), "none")
    director = layout.director()
    into = {pe.id: channel for pe in layout.pes for channel in layout.inputs(pe)}
    for pe in layout.pes:
        director.handle(Joined(pe.id, 1, 0, {}))

    def released(pe: str, ts: int, epoch: int = 1) -> list[int]:
        """Up to which times all copies have had what the source holds, when this one says that it has come so far."""
        had = [as_json(into[pe], Delivered(OrderKey(ts, 0, 0, 0), ALL))]
        said = director.handle(FromElement(pe, epoch, {OURS: {"had": had}}))
        entries = [
            entry
            for say in said
            if isinstance(say, SendToElement) and say.pe == "S"
            for entry in say.message[OURS]["had"]
        ]
        return [max(from_json(by_all)[1].key.ts, 0) for _, by_all in entries]

    assert released("F#1", 100) == [0]
    assert released("F#2", 50) == [50]
    director.handle(Lost("F#1", 1))
    assert released("F#2", 80) == [0]
    assert released("F#1", 200) == [], "it was declared dead, and has yet to die"
    director.handle(Joined("F#1", 2, 0, {}))
    assert released("F#1", 60, epoch=2) == [60]
