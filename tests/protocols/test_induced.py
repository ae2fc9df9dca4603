"""Communication-induced checkpointing: no checkpoint is useless, and each half of the rule is needed."""

import numpy as np
import pytest
from tests.protocols.histories import History, useless

from riprap.base.errors import DataError
from riprap.protocols.induced import Bcs, Hmnr


class WithoutFirst(Hmnr):
    def forces(self, message):
        return message.ckpt[self.me] == self.ckpt[self.me] and message.taken[self.me]


class WithoutSecond(Hmnr):
    def forces(self, message):
        return message.lc > self.lc and any(s and g for s, g in zip(self.sent_to, message.greater, strict=True))


def run(rule, seed, n=4, steps=70):
    """Random traffic under a rule; messages of a pair may overtake one another or not."""
    generator = np.random.default_rng(seed)
    history, flying = History(n), []
    vectors = [rule(p, n) for p in range(n)]
    for number in range(steps):
        process = int(generator.integers(n))
        if generator.random() < 0.12:
            vectors[process].checkpointed()
            history.checkpoint(process)
        elif flying and generator.random() < 0.55:
            message, source, target, header = flying.pop(int(generator.integers(len(flying))))
            heard = vectors[target].read(header)
            if vectors[target].forces(heard):
                vectors[target].checkpointed(heard.lc)
                history.checkpoint(target)
                history.forced += 1
            vectors[target].delivered(heard)
            history.receive(message, source, target)
        else:
            other = int(generator.choice([p for p in range(n) if p != process]))
            vectors[process].sent_to[other] = True
            history.send(number, process, other)
            flying.append((number, process, other, vectors[process].header()))
    return history


@pytest.mark.parametrize("rule", [Hmnr, Bcs])
def test_no_checkpoint_is_useless(rule):
    forced = 0
    for seed in range(250):
        history = run(rule, seed, n=3 + seed % 3)
        assert useless(history) == [], seed
        forced += history.forced
    assert forced > 100


@pytest.mark.parametrize("rule", [WithoutFirst, WithoutSecond])
def test_each_half_of_the_rule_is_needed(rule):
    assert sum(len(useless(run(rule, seed, n=3 + seed % 3))) for seed in range(250)) > 20


def test_hmnr_forces_fewer_than_bcs():
    counts = [sum(run(rule, seed).forced for seed in range(100)) for rule in (Hmnr, Bcs)]
    assert counts[0] < counts[1]


@pytest.mark.parametrize("rule", [Hmnr, Bcs])
def test_what_came_before_forces_nothing_and_teaches_nothing(rule):
    class Again(rule):
        past = ()

        def delivered(self, message):
            super().delivered(message)
            self.past = (*self.past, message)
            for one in self.past:
                before = self.saved()
                assert not self.forces(one)
                super().delivered(one)
                assert self.saved() == before

    assert sum(run(Again, seed, n=3 + seed % 3).forced for seed in range(30)) > 10


@pytest.mark.parametrize("rule", [Hmnr, Bcs])
def test_vectors_survive_a_checkpoint(rule):
    one, other = rule(1, 3), rule(1, 3)
    sender = rule(0, 3)
    sender.checkpointed()
    one.delivered(one.read(sender.header()))
    one.sent_to[2] = True
    other.load(one.saved())
    assert other.saved() == one.saved()
    assert other.header() == one.header()
    with pytest.raises(DataError, match="another protocol or run"):
        one.read(b"xyz")


@pytest.mark.soak
@pytest.mark.parametrize("rule", [Hmnr, Bcs])
@pytest.mark.parametrize("block", range(10))
def test_no_checkpoint_is_useless_in_thousands_of_histories(block, rule):
    for seed in range(block * 1000, block * 1000 + 1000):
        assert useless(run(rule, 10_000 + seed, n=3 + seed % 4, steps=120)) == [], seed
