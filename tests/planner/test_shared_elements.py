"""Operators that share an element are one task: L of every one of them is that of the element, worked out by hand."""

import pytest

from riprap.api.recovery_plan import plan_recovery
from riprap.base.errors import PlanError
from riprap.base.quantities import Duration
from riprap.graph.builder import App
from riprap.graph.windows import count
from riprap.planner.shared_elements import as_elements, backup_elements
from riprap.planner.topology import topology

DIAMOND = topology(
    "d", {name: Duration(10**at) for at, name in enumerate("abcde")},
    [("a", "b"), ("b", "c"), ("a", "d"), ("c", "e"), ("d", "e")],
)  # fmt: skip


def test_tasks_are_added_up_and_edges_inside_are_gone():
    merged = as_elements(DIAMOND, [("a",), ("b", "c"), ("d",), ("e",)])
    assert merged.tasks == ("a", "b", "d", "e")
    assert merged.latency.tolist() == [1, 110, 1000, 10000]
    named = [(merged.tasks[s], merged.tasks[t]) for s, t in merged.edges.tolist()]
    assert named == [("a", "b"), ("a", "d"), ("b", "e"), ("d", "e")]


def test_an_element_keeps_its_output_when_all_that_leaves_it_is_kept():
    elements = [("a", "b"), ("c",), ("d",), ("e",)]
    assert backup_elements(DIAMOND, elements, ["b"]) == ()  # a leaves to d
    assert backup_elements(DIAMOND, elements, ["a", "b", "d"]) == ("a", "d")


def app():
    app = App("chain")
    stream = app.source("S", "k string, x long").filter("x > 0", name="F")
    stream.aggregate("sum(x) AS x", window=count(5), by="k", name="A").sink("Out")
    return app


def checked(tmp_path, text, bound):
    plan = tmp_path / "plan.toml"
    plan.write_text(f'app = "chain"\n{text}' + "".join(f"[operators.{n}]\nbackup = true\n" for n in ("S", "F", "A")))
    return plan_recovery(app(), bound, latency="1s", check=plan)


def test_a_plan_without_a_bound_counts_what_shares_an_element_once(tmp_path):
    found = checked(tmp_path, "", "5s")
    assert found.to_json()["worst"] == "4s"  # S, F, A and the sink come back as one
    assert any("S, F, A, Out share an element" in text for text in found.summary.sentences)
    with pytest.raises(PlanError, match=r"S \(4s\); the shortest bound that can be met is 4s"):
        checked(tmp_path, "", "3s")


def test_a_plan_with_a_bound_reads_every_backup(tmp_path):
    found = checked(tmp_path, 'recovery = "3s"\n', "3s")
    assert found.to_json()["worst"] == "1s"
    assert found.failure == ""
