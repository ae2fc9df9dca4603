"""Topologies and profiles from files, and from apps."""

import json
from dataclasses import replace

import numpy as np
import pytest
from tests.planner.measured_costs import measured_costs

from riprap.apps.catalogue import load_app
from riprap.base.errors import DataError, GraphError, PlanError, UsageError
from riprap.graph.annotations import Annotations, HaGroup
from riprap.planner.assessment_file import AssessedApp, OperatorImpact, RecoveryTimes
from riprap.planner.budget import budget_problem, evaluate
from riprap.planner.from_graph import plan_with_backups, plan_with_protection, topology_of
from riprap.planner.topology_files import TaskProfile, read_profile, read_topology
from riprap_papers.published.topologies import SECOND

TASKS = [{"name": "a", "T": "1.5s", "cost": 10}, {"name": "b", "checkpoint": "4s", "cost": 20.4}]

UNDIRECTED = '<graphml xmlns="http://graphml.graphdrawing.org/xmlns"><graph edgedefault="undirected"/></graphml>'


def write(path, content):
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def test_json(tmp_path):
    content = {"name": "x", "tasks": TASKS, "edges": [["a", "b"], {"from": "b", "to": "a", "feedback": True}]}
    path = write(tmp_path / "x.json", content)
    found = read_topology(path)
    assert (found.name, found.tasks) == ("x", ("a", "b"))
    assert found.latency.tolist() == [1_500_000, 2 * SECOND]
    assert found.costs.tolist() == [10, 20]
    assert found.forward.tolist() == [[0, 1]]
    assert read_topology(path, "worst").latency.tolist() == [1_500_000, 4 * SECOND]


def test_graphml(tmp_path):
    content = """<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
      <key id="t" for="node" attr.name="T" attr.type="double"/>
      <key id="f" for="edge" attr.name="feedback" attr.type="boolean"/>
      <graph edgedefault="directed">
        <node id="a"><data key="t">1.5</data></node><node id="b"><data key="t">2</data></node>
        <edge source="a" target="b"/><edge source="b" target="a"><data key="f">true</data></edge>
      </graph></graphml>"""
    found = read_topology(write(tmp_path / "x.graphml", content))
    assert found.tasks == ("a", "b")
    assert found.latency.tolist() == [1_500_000, 2 * SECOND]
    assert found.cuts.tolist() == [False, True]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.json", "{", "is not JSON"),
        ("x.json", [], "expected an object"),
        ("x.json", {"tasks": 3}, "is not a topology"),
        ("x.json", {"tasks": [{"T": 1}]}, "task 1 has no name"),
        ("x.json", {"tasks": [{"name": "a"}]}, "neither T nor checkpoint"),
        ("x.json", {"tasks": [{"name": "a", "T": "fast"}]}, "cannot read 'fast' as a duration"),
        ("x.json", {"tasks": [{"name": "a", "T": True}]}, "a time must be"),
        ("x.json", {"tasks": [{"name": "a", "t": 1}]}, "unknown key t"),
        ("x.json", {"tasks": [{"name": "a", "T": 1, "cost": -1}]}, "cost must be"),
        ("x.json", {"tasks": [{"name": "a", "T": 1}, {"name": "b", "T": 1, "cost": 1}]}, "task a has no cost"),
        ("x.json", {"tasks": TASKS, "edges": [["a"]]}, "an edge is"),
        ("x.graphml", "<graphml", "is not GraphML"),
        ("x.graphml", UNDIRECTED, "is undirected"),
    ],
)  # fmt: skip
def test_bad_files_get_a_sentence(tmp_path, name, content, message):
    with pytest.raises(DataError, match=message):
        read_topology(write(tmp_path / name, content))


def test_missing_and_strange_files(tmp_path):
    with pytest.raises(DataError, match="there is no file"):
        read_topology(tmp_path / "none.json")
    with pytest.raises(DataError, match="there is no file"):
        read_topology(tmp_path / "none.graphml")
    with pytest.raises(UsageError, match=r"a \.json or a \.graphml"):
        read_topology(tmp_path / "x.csv")
    with pytest.raises(GraphError, match="which is not a task"):
        read_topology(write(tmp_path / "x.json", {"tasks": TASKS, "edges": [["a", "z"]]}))


def test_an_app_with_a_profile(tmp_path):
    content = {"operators": {"Aggregator": {"T": "3s", "cost": 7}, "Source": {"checkpoint": "2s"}}}
    profile = read_profile(write(tmp_path / "p.json", content))
    assert profile["Aggregator"] == TaskProfile(3 * SECOND, None, 7)
    graph = load_app("bargain-discovery")
    found = topology_of(graph, profile, otherwise=SECOND // 2)
    latency = dict(zip(found.tasks, found.latency.tolist(), strict=True))
    assert (latency["Aggregator"], latency["Source"], latency["VWAP"]) == (3 * SECOND, SECOND, SECOND // 2)
    assert len(found.edges) == len(graph.streams)
    with pytest.raises(PlanError, match="need to reprocess recent input is unknown"):
        topology_of(graph, profile)
    with pytest.raises(PlanError, match="no cost for"):
        topology_of(graph, profile, otherwise=SECOND, by_bytes=True)
    with pytest.raises(PlanError, match="did you mean VWAP"):
        topology_of(graph, {"VWAPP": TaskProfile()}, otherwise=SECOND)


def test_a_measured_profile(tmp_path):
    lines = ['app = "bargain-discovery"', "seconds = 10.0"]
    for name in ("Source", "TradeQuote", "TradeFilter", "QuoteFilter", "Aggregator", "VWAP", "BargainIndex", "Sink"):
        lines += [f"[operators.{name}]", "mean_rate = [1000.0]", "seconds_per_tuple = 1e-4", "tuples_out = [500]"]
    profile = read_profile(write(tmp_path / "p.toml", "\n".join(lines)))
    graph = load_app("bargain-discovery")
    graph = graph.with_operator(replace(graph["Aggregator"], annotations=Annotations(checkpoint_every=4 * SECOND)))
    found = topology_of(graph, profile, otherwise=SECOND, by_bytes=True)
    # 1,000 tuples/s at 0.1 ms each: a second of input takes 0.1 s; half of 4 s takes 0.2 s.
    assert found.latency[found.index("Aggregator")] == SECOND // 5
    assert found.latency[found.index("VWAP")] == SECOND
    # 50 tuples/s of ticker (16) + vwap (8) and the order key.
    assert found.costs[found.index("VWAP")] >= 50 * 24
    with pytest.raises(DataError, match="not a profile that"):
        read_profile(write(tmp_path / "q.toml", "x = 1"))
    with pytest.raises(DataError, match="more than 64 bits"):  # no float holds it
        read_profile(write(tmp_path / "q.toml", "\n".join(lines).replace("10.0", "1" + "0" * 400, 1)))
    with pytest.raises(DataError, match="as TOML"):
        read_profile(write(tmp_path / "q.toml", "x"))


def test_plans_for_an_app_apply_to_it():
    graph = load_app("bargain-discovery")
    plan = plan_with_backups(graph, {"VWAP"})
    assert plan.apply(graph)["VWAP"].annotations.backup
    assert not plan.apply(graph)["Aggregator"].annotations.backup


def test_replicated_neighbours_form_one_group():
    graph = load_app("bargain-discovery")
    names = ["TradeFilter", "Aggregator", "VWAP", "QuoteFilter"]
    impact = OperatorImpact(1.0, {0: ((SECOND, 1.0),)}, state=1.0)
    operators, settings = dict.fromkeys(names, impact), RecoveryTimes(intervals=(SECOND,))
    asked = budget_problem(
        AssessedApp("bargain-discovery", operators, settings, measured_costs(operators)),
        [("TradeFilter", "Aggregator"), ("Aggregator", "VWAP")], [],
    )  # fmt: skip
    restart, checkpoint, replicas = asked.options["VWAP"]
    chosen = {"TradeFilter": replicas, "Aggregator": replicas, "VWAP": checkpoint, "QuoteFilter": restart}
    plan = plan_with_protection(graph, evaluate(asked, chosen, frozenset({"VWAP"})), 2)
    assert plan.operators == {
        "TradeFilter": Annotations(ha_group=HaGroup("TradeFilter", 2)),
        "Aggregator": Annotations(ha_group=HaGroup("TradeFilter", 2)),
        "VWAP": Annotations(checkpoint_every=SECOND, backup=True),
    }
    assert np.all(plan.apply(graph)["VWAP"].annotations.backup)
