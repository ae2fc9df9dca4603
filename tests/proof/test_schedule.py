"""Schedules: the same seed gives the same faults, and a file that cannot be is refused with a sentence."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from riprap.base.errors import PlanError, UsageError
from riprap.proof.fault_kinds import KINDS
from riprap.proof.schedule import Choices, draw, parse_schedule, read_schedule

CHOICES = Choices(
    {"Source": ("Source",), "Aggregator": ("Aggregator/0", "Aggregator/1"), "Sink": ("Sink",)},
    {name: kind.demand for name, kind in KINDS.items()},
    (("Aggregator/0", "Aggregator/1"),),
)


@given(seed=st.integers(0, 2**31), seconds=st.floats(8, 600))
def test_drawn_faults_can_be_done(seed, seconds):
    faults = draw(CHOICES, seconds, seed)
    assert faults == draw(CHOICES, seconds, seed)
    assert faults
    times = [fault.at / 1e6 for fault in faults]
    assert times == sorted(times)
    assert times[0] >= 4
    assert times[-1] <= seconds
    for fault in faults:
        demand = KINDS[fault.kind].demand
        assert demand.drawn
        assert set(fault.targets) <= set(CHOICES.ids)
        assert len(set(fault.targets)) == len(fault.targets)
        assert len(fault.targets) >= 2 if demand.targets < 0 else True
        assert len(fault.targets) == 1 if demand.targets == 1 else True


def test_every_kind_comes():
    kinds = {fault.kind for seed in range(40) for fault in draw(CHOICES, 60, seed)}
    assert kinds == {name for name, kind in KINDS.items() if kind.demand.drawn}


def test_what_a_schedule_alone_has_is_drawn_if_it_is_asked_for():
    demands = {name: replace(KINDS[name].demand, drawn=True) for name in ("all", "driver", "corrupt-state")}
    drawn = [fault for seed in range(9) for fault in draw(Choices(CHOICES.elements, demands), 60, seed)]
    assert {fault.kind: len(fault.targets) for fault in drawn} == {"all": 4, "driver": 0, "corrupt-state": 1}


def test_a_listed_fault_draws_from_all_that_there_is():
    text = '[[faults]]\nat = "1s"\nkind = "corrupt-tuple"\ntargets = ["Sink"]\n'
    first, second = parse_schedule(text + text, CHOICES)
    assert first.seed != second.seed
    assert min(first.seed, second.seed) > 2**40  # the row, the attribute and the bit are all of it


def test_too_short_for_a_fault():
    with pytest.raises(UsageError, match="no room for a fault: give `seconds=8`"):
        draw(CHOICES, 5, 1)


@pytest.mark.parametrize("every", [0.0, 0.5, -1.0, float("nan")])
def test_too_close_together(every):
    with pytest.raises(UsageError, match="write 1s or more"):
        draw(CHOICES, 60.0, 1, every=every)


def test_a_file():
    text = """
        [[faults]]
        at = "10s"
        kind = "hang"
        targets = ["Aggregator"]
        lasts = "4s"
        [[faults]]
        at = "500ms"
        kind = "driver"
    """
    first, second = parse_schedule(text, CHOICES)
    assert (first.kind, first.at, first.targets) == ("driver", 500_000, ())
    assert (second.kind, second.targets, second.lasts) == ("hang", ("Aggregator/0", "Aggregator/1"), 4_000_000)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "a schedule is a list of tables"),
        ("faults = 3", "a schedule is a list of tables"),
        ("x = [", "not TOML"),
        ('[[faults]]\nat = "1s"\nkind = "explode"', "kind = 'explode'; there are kill"),
        ('[[faults]]\nat = 5\nkind = "kill"\ntargets = ["Sink"]', "at = 5; write a time"),
        ('[[faults]]\nat = "5"\nkind = "kill"\ntargets = ["Sink"]', "cannot read '5'"),
        ('[[faults]]\nat = "5s"\nkind = "kill"', "needs targets"),
        ('[[faults]]\nat = "5s"\nkind = "kill"\ntargets = "Sink"', "write a list of operators"),
        ('[[faults]]\nat = "5s"\nkind = "kill"\ntargets = ["Snik"]', "no operator or element is called Snik"),
        ('[[faults]]\nat = "5s"\nkind = "driver"\ntargets = ["Sink"]', "takes no targets"),
        ('[[faults]]\nat = "5s"\nkind = "slow"\ntargets = ["Sink"]\nshare = 2', "between 0 and 1"),
        ('[[faults]]\nat = "5s"\nkind = "kill"\ntargets = ["Sink"]\nwhen = 1', "unknown key when"),
        ('[[faults]]\nat = "5s"\nkind = "all"\ntargets = ["Sink"]', "all takes no targets"),
        ('[[faults]]\nat = "5s"\nkind = "several"\ntargets = ["Sink", "Sink"]', "needs two targets or more"),
        ('[[faults]]\nat = "5s"\nkind = "group"\ntargets = ["Sink"]', "Sink is in no HA group"),
        ('[[faults]]\nat = "61s"\nkind = "driver"', "fault 1: at = 61s, and the run lasts 1"),
        ('[[faults]]\nat = "5s"\nkind = "slow"\ntargets = ["Sink"]\nshare = nan', "not a finite number"),
        (f"faults = {'[' * 5_000}", "not TOML"),
        (f"faults = {'9' * 5_000}", "not TOML: Exceeds the limit"),
    ],
)
def test_bad_files_are_refused(text, sentence):
    with pytest.raises(PlanError, match=sentence):
        parse_schedule(text, CHOICES, 60)


def test_all_are_every_element():
    (fault,) = parse_schedule('[[faults]]\nat = "1s"\nkind = "all"', CHOICES)
    assert fault.targets == CHOICES.ids


def test_a_group_is_all_its_replicas():
    text = '[[faults]]\nat = "1s"\nkind = "group"\ntargets = ["Aggregator/1"]'
    (fault,) = parse_schedule(text, CHOICES)
    assert fault.targets == ("Aggregator/0", "Aggregator/1")
    drawn = [fault for seed in range(40) for fault in draw(CHOICES, 60, seed) if fault.kind == "group"]
    assert drawn
    assert {fault.targets for fault in drawn} == {("Aggregator/0", "Aggregator/1")}


def test_a_schedule_that_is_no_text(tmp_path):
    path = tmp_path / "faults.toml"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(PlanError, match="not UTF-8"):
        read_schedule(path, CHOICES)
