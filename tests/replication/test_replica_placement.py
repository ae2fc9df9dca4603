"""Tasks become elements so that replicas keep to executors of their own, where there are enough."""

from random import Random

from riprap.replication.placement import COPIES, ElementPlace, Placement

PLACES = [
    *(ElementPlace(f"{name}#{at + 1}", "ticks", at) for name in ("Source", "TradeQuote") for at in range(2)),
    *(ElementPlace(f"{name}#{at + 1}", "trades", at) for name in ("TradeFilter", "Aggregator", "VWAP") for at in
    range(2)),
    ElementPlace("QuoteFilter"), ElementPlace("BargainIndex"), ElementPlace("Sink"),
]  # fmt: skip


def test_replicas_keep_to_an_executor_each_in_whatever_order_tasks_come():
    for seed in range(200):
        random = Random(seed)
        where = ["one", "other"] * 6 + ["one"]
        random.shuffle(where)
        placement = Placement(PLACES)
        claimed = {placement.claim(task, executor): executor for task, executor in enumerate(where)}
        assert set(claimed) == {place.pe for place in PLACES}
        assert placement.shared() == [], f"seed {seed}: {claimed}"


def test_one_executor_is_shared_and_that_is_said_once_per_group():
    placement = Placement(PLACES)
    for task in range(len(PLACES)):
        placement.claim(task, "driver")
    assert [sentence.split(" share")[0] for sentence in placement.shared()] == [
        "replicas of HA group ticks", "replicas of HA group trades",
    ]  # fmt: skip


def test_copies_keep_to_executors_and_one_that_they_share_is_said_once():
    places = [ElementPlace(f"{name}#{at + 1}", COPIES, at) for name in "ABC" for at in range(2)] + [
        ElementPlace("S"),
        ElementPlace("Out"),
    ]
    apart, together = Placement(places), Placement(places)
    where = {apart.claim(task, "one" if task % 2 else "other"): task % 2 for task in range(len(places))}
    assert len({where[f"{name}#1"] for name in "ABC"}) == len({where[f"{name}#2"] for name in "ABC"}) == 1
    assert apart.shared() == []
    for task in range(len(places)):
        together.claim(task, "driver")
    [sentence] = together.shared()
    assert sentence.startswith("copies of operators share an executor")


def test_a_task_that_begins_anew_gets_what_is_free():
    placement = Placement(PLACES)
    claimed = {task: placement.claim(task, "one" if task % 2 else "other") for task in range(len(PLACES))}
    assert placement.claim(3, "one") == claimed[3]
    assert placement.tasks(claimed[3]) == {3}
    lost = [task for task in claimed if task % 2 == 0]
    again = {placement.claim(task, "third") for task in lost}
    assert again == {claimed[task] for task in lost}
    assert placement.shared() == []


def test_while_nobody_is_an_element_every_task_that_is_none_may_become_it():
    placement = Placement(PLACES)
    every = set(range(len(PLACES)))
    assert placement.tasks(PLACES[0].pe) == every
    claimed = placement.claim(5, "one")
    other = next(place.pe for place in PLACES if place.pe != claimed)
    assert placement.tasks(claimed) == {5}
    assert placement.tasks(other) == every - {5}
