"""`riprap plan` and `riprap reproduce`, as a user types them."""

import json
import os
import tomllib

import pytest
from typer.testing import CliRunner

from riprap.api.recovery_plan import plan_recovery
from riprap.apps import market
from riprap.apps.catalogue import load_app
from riprap.base.errors import CheckFailed, DataError, PlanError, RiprapError, UsageError
from riprap.base.quantities import Duration
from riprap.cli.main import app
from riprap.engine.profile import profile as measured
from riprap.engine.profile import write_profile
from riprap.graph.annotations import backup, continuous
from riprap.graph.builder import App
from riprap.graph.plan_file import parse_plan
from riprap.graph.windows import count
from riprap.planner.costs import TECHNIQUES, Cost, OperatorCosts, write_costs
from riprap.runtime.planned import wrong_with

TOPOLOGY = {
    "name": "pipe",
    "tasks": [{"name": name, "T": 1, "cost": cost} for name, cost in (("a", 5), ("b", 9), ("c", 1), ("d", 1))],
    "edges": [["a", "b"], ["b", "c"], ["c", "d"]],
}


@pytest.fixture
def pipe(tmp_path):
    path = tmp_path / "pipe.json"
    path.write_text(json.dumps(TOPOLOGY))
    return str(path)


def run(*arguments):
    result = CliRunner().invoke(app, list(arguments))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


def test_json_is_one_object_with_rows(pipe):
    found = json.loads(run("plan", pipe, "--recovery", "2s", "--json"))
    assert found["backups"] == ["b"]
    (row,) = found["rows"]
    assert {"case", "R", "backups", "optimal", "gap", "seconds", "published"} <= set(row)
    assert (row["case"], row["R"], row["backups"], row["optimal"], row["gap"]) == ("pipe", 2.0, 1, True, 0.0)
    assert found["critical_path"] == ["a", "b"]
    assert [task["L"] for task in found["tasks"]] == [1.0, 2.0, 1.0, 2.0]


def test_costs_move_the_backup(pipe):
    assert json.loads(run("plan", pipe, "--recovery", "3s", "--json"))["cost"] == 1
    found = json.loads(run("plan", pipe, "--recovery", "3s", "--cost", "bytes", "--json"))
    assert (found["backups"], found["cost"]) == (["c"], 1)


def test_tasks_that_must_and_may_not_can_be_named_one_by_one(pipe):
    given = [("--must", "a", "--must", "b,c"), ("--must", "a,b,c")]
    found = [json.loads(run("plan", pipe, "--recovery", "4s", *some, "--json"))["backups"] for some in given]
    assert found == [["a", "b", "c"]] * 2
    left = run("plan", pipe, "--recovery", "3s", "--must-not", "a", "--must-not", "b", "--json")
    assert json.loads(left)["backups"] == ["c"]


def test_the_plan_file_and_the_report_are_written(pipe, tmp_path):
    out, report = tmp_path / "deep" / "plan.toml", tmp_path / "plan.html"
    shown = run("plan", pipe, "--recovery", "2s", "--out", str(out), "--report", str(report))
    assert "1 of 4 tasks are backups; proven" in shown
    assert "■ b" in shown
    assert tomllib.loads(out.read_text()) == {"app": "pipe", "recovery": "2s", "operators": {"b": {"backup": True}}}
    assert "<svg" in report.read_text()
    again = json.loads(run("plan", pipe, "--recovery", "3s", "--previous", str(out), "--json"))
    assert again["backups"] == ["b"]
    assert again["changed"] == {"added": [], "removed": []}


def test_a_given_plan_is_checked(pipe, tmp_path):
    plan = tmp_path / "plan.toml"
    plan.write_text('app = "pipe"\n[operators.b]\nbackup = true\n')
    found = json.loads(run("plan", pipe, "--recovery", "2s", "--check", str(plan), "--json"))
    assert (found["algorithm"], found["backups"], found["worst"]) == ("given", ["b"], "2s")
    assert "that meets the bound" in run("plan", pipe, "--recovery", "2s", "--check", str(plan))
    plan.write_text('app = "pipe"\n[operators.c]\nbackup = true\n')
    with pytest.raises(CheckFailed, match="c takes 3s"):
        run("plan", pipe, "--recovery", "2s", "--check", str(plan))


@pytest.mark.parametrize("algorithm", ["exact", "dag", "tree", "line", "share", "exhaust"])
def test_every_algorithm_runs(pipe, algorithm):
    found = json.loads(run("plan", pipe, "--recovery", "2s", "--algorithm", algorithm, "--json"))
    assert found["algorithm"] == algorithm
    assert max(task["L"] for task in found["tasks"]) <= 2


def test_an_app(tmp_path):
    out = tmp_path / "plan.toml"
    found = json.loads(
        run("plan", "bargain-discovery", "--recovery", "2s", "--latency", "1s", "--out", str(out), "--json")
    )
    assert found["backups"] == ["TradeQuote", "Aggregator", "BargainIndex"]
    written = tomllib.loads(out.read_text())
    assert (written["app"], written["recovery"]) == ("bargain-discovery", "2s")
    assert found["restart"] is found["measured"] is None


def test_the_same_from_python(pipe, tmp_path):
    out = tmp_path / "plan.toml"
    told = json.loads(run("plan", "bargain-discovery", "--recovery", "2s", "--latency", "700ms", "--latency",
                          "VWAP=1s", "--out", str(out), "--json"))  # fmt: skip
    for target in ("bargain-discovery", load_app("bargain-discovery")):
        found = plan_recovery(target, "2s", latency={"": "700ms", "VWAP": "1s"})
        assert list(found.plan.names) == told["backups"]
        assert found.text == out.read_text()
        assert found.failure == ""
    out.write_text('app = "pipe"\n[operators.c]\nbackup = true\n')
    assert plan_recovery(pipe, "3s", check=out).failure == ""
    assert "c takes 3s" in plan_recovery(pipe, "2s", check=out).failure


def test_what_a_profile_leaves_of_the_bound_and_what_a_proof_measured(tmp_path):
    profile = tmp_path / "profile.json"
    profile.write_text(json.dumps({"operators": {}, "recovery": {"restart": 0.4, "durable": 0.05}}))
    common = ("plan", "bargain-discovery", "--profile", str(profile), "--recovery")
    with pytest.raises(PlanError, match="a process needs 400ms to restart"):
        run(*common, "400ms", "--latency", "1s")
    with pytest.raises(PlanError, match="no plan recovers within 900ms"):
        run(*common, "1.3s", "--latency", "1s")
    out = tmp_path / "plan.toml"
    found = json.loads(run(*common, "3s", "--mtbf", "10s", "--mtbf", "VWAP=40s", "--out", str(out), "--json"))
    assert (found["restart"], found["left"]) == (0.4, 2.6)
    operators = tomllib.loads(out.read_text())["operators"]  # Young: √(2 · 0.05 · 10) = 1, and √(2 · 0.05 · 40) = 2
    assert (operators["Aggregator"]["checkpoint"], operators["VWAP"]["checkpoint"]) == ("1s", "2s")
    assert {task["name"]: task["T"] for task in found["tasks"]}["VWAP"] == 2.05
    faults = [{"targets": ["VWAP"], "caught_up": 0.5, "latency": latency} for latency in (1.0, 3.5)]
    faults.append({"targets": ["Source", "VWAP"], "caught_up": 9, "latency": 9})
    (tmp_path / "proof.json").write_text(json.dumps({"faults": faults}))
    check = (*common, "4s", "--mtbf", "10s", "--check", str(out), "--measured", str(tmp_path), "--json")
    measured = json.loads(run(*check))["measured"]
    assert measured == {"VWAP": {"kills": 2, "caught_up": 0.5, "latency": 3.5}}
    with pytest.raises(CheckFailed, match=r"VWAP took 3.50 s of 3s"):
        run(*(part if part != "4s" else "3s" for part in check))
    (tmp_path / "proof.json").write_text(json.dumps({"faults": [{"targets": ["VWAP"]}]}))
    with pytest.raises(DataError, match="is not a proof of this version"):
        run(*check)


DICE = """
import random
from riprap import App
from riprap.operators.user import Rows, UserOperator

class Dice(UserOperator):
    deterministic = False
    def output_schemas(self, inputs): return [inputs[0]]
    def process(self, port, batch): return [Rows(batch.select(["id"]))] if random.random() < 0.5 else []

app = App("dice")
(thrown,) = app.source("In", "id long").apply(Dice, name="Thrown")
thrown.sink("Out")

from riprap.graph.annotations import ha_group, retain

def doubled(*protect):
    made = App("doubled")
    made.source("In", "id long").select("id * 2 AS id", name="Double", protect=protect).sink("Out")
    return made.build()

sampled, grouped = doubled(retain("while-down")), doubled(ha_group("g"))
"""


def test_what_cannot_be_repeated_cannot_be_planned_or_proven(tmp_path, monkeypatch):
    """Each is refused before anything starts: who is not deterministic, and an input that is gone when it was read."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "dicing.py").write_text(DICE)
    with pytest.raises(PlanError, match=r"Thrown is not deterministic: its output would differ; .* make it"):
        run("plan", "dicing:app", "--recovery", "2s", "--latency", "1s")
    for name, why in (
        ("sampled", "stream Double→Out is retained while its consumer is down, which needs the protocol partial"),
        ("grouped", "Double runs in replicas"),
    ):
        with pytest.raises(PlanError, match=f"no plan of doubled can meet a bound: .*{why}"):
            run("plan", f"dicing:{name}", "--recovery", "4s", "--latency", "1s")
    (tmp_path / "plan.toml").write_text('app = "dice"\nrecovery = "2s"\n[operators]\n')
    for given, why in (("Nobody=1s", "--latency Nobody: doubled has In, Double, Out"), ("0s", "longer than 0s")):
        with pytest.raises(UsageError, match=why):
            run("plan", "dicing:sampled", "--recovery", "4s", "--latency", given)
    with pytest.raises(UsageError, match=r"Thrown is not deterministic.*leave recovery out of the plan"):
        run("prove", "dicing:app", "--plan", "plan.toml")
    os.mkfifo(tmp_path / "pipe.arrow")
    with pytest.raises(DataError, match=r"input pipe\.arrow is a pipe or a device, which cannot be read again"):
        run("prove", "bargain-discovery", "--input", "pipe.arrow")
    assert not list(tmp_path.glob("proof-*"))


def test_a_budget(tmp_path):
    impact = [{"outage": "1s", "impact": 4}, {"outage": "1s", "state_age": "lost", "impact": 9}]
    names = ["Source", "TradeQuote", "TradeFilter", "Aggregator", "VWAP", "QuoteFilter", "BargainIndex"]
    entry = {"failures_per_day": 1, "impact": impact, "cpu": 0.5, "memory": 1e6, "state": 1e5, "output": 1e4}
    content = {"app": "bargain-discovery", "operators": dict.fromkeys(names, entry), "settings": {"intervals": ["1s"]}}
    (tmp_path / "assessment.json").write_text(json.dumps(content))
    common = ["plan", "bargain-discovery", "--from-assessment", str(tmp_path), "--budget", "cpu=1"]
    with pytest.raises(PlanError, match="needs the cost of protecting bargain-discovery: measure it with `riprap pro"):
        run(*common)
    taken = {technique: Cost(0.5, 1e6, 1e4, 1e4) for technique in TECHNIQUES}
    costs = {name: OperatorCosts(Cost(0.5), taken, Duration(1_000_000)) for name in names}
    profile = tmp_path / "profile.toml"
    profile.write_text(write_costs(costs, seconds=5.0, rate=20_000.0))
    common += ["--profile", str(profile)]
    out = tmp_path / "plan.toml"
    found = json.loads(run(*common, "--out", str(out), "--report", str(tmp_path / "r.html"), "--json"))
    assert found["steps"][-1]["loss"] < found["steps"][0]["loss"]
    assert 0 <= found["knee"] < len(found["steps"])
    assert tomllib.loads(out.read_text())["app"] == "bargain-discovery"
    assert "What each step of the budget buys" in run(*common)
    with pytest.raises(DataError, match=r"request\.json; the assessment cannot be repeated"):
        run(*common, "--reassess")
    content["app"] = "other"
    (tmp_path / "assessment.json").write_text(json.dumps(content))
    with pytest.raises(PlanError, match="is of app other"):
        run(*common)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "a plan needs a bound"),
        (["--recovery", "2"], "cannot read '2' as a duration"),
        (["--recovery", "500ms"], "the shortest bound that can be met is 1s"),
        (["--recovery", "0s"], "must be longer than 0s"),
        (["--recovery", "2s", "--k", "0"], "k must be 1 or more"),
        (["--recovery", "2s", "--k", "3"], "simultaneous failures"),
        (["--recovery", "2s", "--algorithm", "exat"], "did you mean exact"),
        (["--recovery", "2s", "--cost", "x"], "count, bytes"),
        (["--recovery", "2s", "--must", "z"], "no task z"),
        (["--recovery", "2s", "--sink", "d"], "expected NAME=DURATION"),
        (["--recovery", "2s", "--budget", "cpu=1"], "need an assessment"),
        (["--recovery", "2s", "--latency", "1s"], "are for apps"),
        (["--recovery", "2s", "--mtbf", "1d"], "are for apps"),
        (["--recovery", "2s", "--measured", "x"], "give the plan with --check"),
        (["--recovery", "2s", "--previous", "none.toml"], "cannot read plan"),
        (["--from-assessment", "x"], "not for a topology file"),
    ],
)
def test_bad_arguments_get_a_sentence(pipe, arguments, message):
    with pytest.raises(RiprapError, match=message):
        run("plan", pipe, *arguments)


def test_too_many_tasks_to_try_everything(tmp_path):
    tasks = [{"name": f"t{i}", "T": 1} for i in range(30)]
    path = tmp_path / "long.json"
    path.write_text(json.dumps({"tasks": tasks, "edges": [[f"t{i}", f"t{i + 1}"] for i in range(29)]}))
    with pytest.raises(UsageError, match="too many to try every set"):
        run("plan", str(path), "--recovery", "2s", "--algorithm", "exhaust")


def test_a_measured_profile_is_enough_for_a_bound(tmp_path):
    """Without intervals in the app: a run saves it at its usual interval, and the plan says which."""
    profile = tmp_path / "profile.toml"
    batches = market.generate(3_000, seed=1).combine_chunks().to_batches()
    profile.write_text(write_profile(measured(load_app("bargain-discovery"), {"Source": batches})))
    common = ("plan", "bargain-discovery", "--recovery", "2s", "--profile", str(profile))
    told = run(*common, "--out", str(tmp_path / "plan.toml"))
    assert "Checkpoint every 1s, the default: Source, TradeQuote" in told
    assert "comes on top and was not measured: measure it with `riprap profile bargain-discovery --recovery" in told
    written = tomllib.loads((tmp_path / "plan.toml").read_text())
    assert {name for name, entry in written["operators"].items() if entry["checkpoint"] == "1s"} == set(
        load_app("bargain-discovery").order
    )
    lacking = profile.read_text().replace('[operators."VWAP"]', '[other."VWAP"]')
    profile.write_text(lacking)
    with pytest.raises(PlanError, match=rf"VWAP of .* is unknown and is not in {profile}: .*an entry for each in"):
        run(*common)


def test_continuous_checkpoints_are_at_intervals_under_a_bound(tmp_path):
    kept = App("kept")
    source = kept.source("In", "k string, x long", protect=backup())
    source.aggregate("sum(x) AS x", window=count(3), by="k", name="Sum", protect=continuous("1s")).sink("Out")
    graph = kept.build()
    found = plan_recovery(graph, "2s", latency="500ms")
    assert not wrong_with(graph, parse_plan(found.text))
    assert "Sum gets checkpoints at intervals, not continuous ones" in " ".join(found.summary.sentences)
