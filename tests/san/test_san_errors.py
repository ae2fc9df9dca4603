"""Bad networks and bad descriptions: each a clear error that names the culprit."""

import pytest
from tests.san.compose import join, rep
from tests.san.interpreter import interpret
from tests.san.markov import solve
from tests.san.networks import queue

from riprap.base.errors import RiprapError
from riprap.san.compiled import compile_network
from riprap.san.formalism import (
    Activity,
    ActivityCase,
    InputGate,
    Invariant,
    Network,
    OutputGate,
    SanPlace,
    deterministic,
    exponential,
    impulse,
    time_averaged,
)
from riprap.san.generator import key
from riprap.san.resolved import NetworkError, resolve
from riprap.san.simulate import SimulatedSpan

# One process for all tests that use the same networks: each is compiled once.
pytestmark = pytest.mark.xdist_group("san-networks")


def one(activity: Activity, *more: Activity, **rest) -> Network:
    return Network("net", (SanPlace("a", 1), SanPlace("b")), (activity, *more), **rest)


@pytest.mark.parametrize(
    ("network", "message"),
    [
        (
            one(Activity("x", exponential(1), cases=(ActivityCase(0.5), ActivityCase(0.4)))),
            r"cases of activity x are 0.5 \+ 0.4 = 0.9; they must sum to 1",
        ),
        (
            one(Activity("x", exponential(1), cases=(ActivityCase(1.5), ActivityCase(-0.5)))),
            "activity x has a case with probability 1.5",
        ),
        (one(Activity("x", exponential(-1))), "activity x has rate -1; it must be 0 or more"),
        (one(Activity("x", exponential("r")), parameters={"r": -2.0}), "activity x has rate -2"),
        (one(Activity("x", deterministic(-1))), "activity x has delay -1"),
        (one(Activity("x", exponential("speed"))), "activity x reads speed, which is neither a place nor a parameter"),
        (one(Activity("x", exponential(1), {"c": 1})), "arc to c, which is not one of a, b"),
        (one(Activity("x", exponential(1), gates=(InputGate("a > 0", "q = 1"),))), "changes q"),
        (one(Activity("x", exponential(1)), Activity("x", exponential(1))), "activity x occurs 2 times"),
        (Network("net", (SanPlace("a", -1),), ()), "starts with -1 tokens"),
        (Network("net", (SanPlace("a b"),), ()), "cannot be a name"),
        (one(Activity("x", exponential(1)), rewards=(impulse("r", "y"),)), "reward r counts activity y"),
        (
            one(Activity("x", exponential(1)), rewards=(time_averaged("r", "import os"),)),
            "cannot read|is not an expression",
        ),
        (one(Activity("x", exponential(1)), rewards=(time_averaged("r", "open('f')"),)), "only numbers, names"),
        (one(Activity("x", exponential(1), gates=(InputGate("a > 0", "while a: b = 1"),))), "uses While"),
    ],
)
def test_found_before_running(network, message):
    with pytest.raises(RiprapError, match=message):
        resolve(network)


LOOP = one(
    Activity("wait", deterministic(1.0), {"a": 1}, cases=(ActivityCase(outputs={"b": 1}),)),
    Activity("there", None, {"b": 1}, cases=(ActivityCase(outputs={"a": 1}),), priority=1),
    Activity("back", None, {"a": 1}, gates=(InputGate("b >= 0"),), cases=(ActivityCase(outputs={"b": 1}),)),
)
MARKING = one(
    Activity("tick", deterministic(1.0), cases=(ActivityCase(outputs={"a": 1}),)),
    Activity("odd", exponential(50.0), cases=(ActivityCase("a / 4"), ActivityCase("1 - a / 5"))),
)
NEGATIVE = one(Activity("take", deterministic(1.0), cases=(ActivityCase(gates=(OutputGate("a -= 1"),)),)))
RATE = one(
    Activity("tick", deterministic(1.0), cases=(ActivityCase(outputs={"b": 1}),)),
    Activity("slow", exponential("2 - b")),
)
INVARIANT = one(
    Activity("tick", deterministic(1.0), cases=(ActivityCase(outputs={"b": 1}),)),
    invariants=(Invariant("few", "b < 3"),),
)


@pytest.mark.parametrize(
    ("network", "message"),
    [
        (LOOP, "complete without end at 0 s: back, there"),
        (MARKING, "cases of activity odd do not sum to 1"),
        (NEGATIVE, "activity take left a place of net with fewer than 0 tokens at 2 s"),
        (RATE, "activity slow has a negative rate or delay at 3 s"),
        (INVARIANT, r"invariant few \(b < 3\) of net does not hold at 3 s"),
    ],
)
def test_found_while_running(network, message, monkeypatch):
    monkeypatch.setattr("tests.san.interpreter.LOOP_LIMIT", 500)
    with pytest.raises(NetworkError, match=message):
        interpret(network, key(1, 0), SimulatedSpan(10.0))
    with pytest.raises(NetworkError, match=message):
        compile_network(network).run(key(1, 0), SimulatedSpan(10.0))


def test_exact_solution_finds_loops_too():
    loop = one(
        Activity("there", None, {"a": 1}, cases=(ActivityCase(outputs={"b": 1}),)),
        Activity("back", None, {"b": 1}, cases=(ActivityCase(outputs={"a": 1}),)),
    )
    with pytest.raises(NetworkError, match="without end"):
        solve(loop)


def test_composition_names_what_it_cannot_share():
    with pytest.raises(NetworkError, match="names part x"):
        join("whole", {"q": queue(1)}, {"common": [("x", "waiting")]})
    with pytest.raises(NetworkError, match=r"names wating of q.*did you mean waiting"):
        join("whole", {"q": queue(1)}, {"common": [("q", "wating")]})
    with pytest.raises(NetworkError, match="0 copies"):
        rep("whole", queue(1), 0, ())
