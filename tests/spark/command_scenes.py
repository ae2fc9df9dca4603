"""Scenes of `riprap run`, in a process with a Spark session. Not a test: `test_run.py` plays them."""

import contextlib
import io
import json
import os
import signal
import sys
import threading
import time
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from scene_inputs import BARGAINS, bounded, market_table, numbers_file, same
from stories import PATIENCE, SILENCE
from supply import Supply

from riprap.api.plan import plan_budget
from riprap.api.run import RunResult
from riprap.apps.catalogue import load_app
from riprap.apps.samples import cache_directory, sample_inputs
from riprap.base.owner import owned
from riprap.base.quantities import Duration
from riprap.cli.main import main as riprap
from riprap.graph.plan_file import write_plan
from riprap.graph.specs import Sink
from riprap.planner.costs import Cost, OperatorCosts, write_costs
from riprap.proof.oracle import expected_rows
from riprap.streams import PersistentStream


def command(*arguments):
    """`riprap run …`: its exit code, and what it wrote to stdout and stderr."""
    before, sys.argv = sys.argv, ["riprap", "run", *map(str, arguments)]
    out, err = io.StringIO(), io.StringIO()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            riprap()
        code = 0
    except SystemExit as end:
        code = 0 if end.code is None else end.code
    finally:
        sys.argv = before
    return code, out.getvalue(), err.getvalue()


@contextlib.contextmanager
def supplied(supply, until):
    """Some more now and then, beside what is done meanwhile, until there is enough."""
    over = threading.Event()

    def tend():
        deadline = time.monotonic() + PATIENCE
        while not over.wait(0.05) and not until() and time.monotonic() < deadline:
            supply.more(200)
        supply.end()

    tending = threading.Thread(target=tend)
    tending.start()
    try:
        yield
    finally:
        over.set()
        tending.join()


def bad_input_is_refused_in_a_sentence(place):
    plan = place / "plan.toml"
    plan.write_text('app = "other"\n')
    full = place / "full"
    full.mkdir()
    (full / "file").touch()
    out = ["--out", place / "run"]
    refusals = [
        (["bargain-discoverie", *out], 2, "bargain-discovery"),
        ([BARGAINS, "--kill", "Agregator@1s", *out], 2, "did you mean Aggregator?"),
        ([BARGAINS, "--kill", "Aggregator", *out], 2, "write WHAT@TIME"),
        ([BARGAINS, "--kill", "executor@1s", *out], 2, "the executor is the driver"),
        ([BARGAINS, "--parallelism", "Agregator=2", *out], 2, "Agregator"),
        ([BARGAINS, "--parallelism", "Aggregator", *out], 2, "write OPERATOR=N"),
        ([BARGAINS, "--fuse", "some", *out], 2, "auto, none, all"),
        ([BARGAINS, "--stability", "none", *out], 2, "one of async, group, fsync"),
        ([BARGAINS, "--silence", "100ms", *out], 2, "elements send five heartbeats a second"),
        ([BARGAINS, "--for", "1s", "--until-end", *out], 2, "--for and --until-end"),
        ([BARGAINS, "--for", "soon", *out], 2, "soon"),
        ([BARGAINS, "--plan", plan, *out], 2, "the plan is for app other"),
        ([BARGAINS, "--out", full], 2, f"{full} is not empty"),
        (["--resume", place / "nowhere"], 2, "is not the directory of a run"),
        ([BARGAINS, "--resume", place], 2, "not both"),
        ([], 2, "give an app"),
    ]
    for arguments, code, words in refusals:
        found, _, err = command(*arguments)
        sentence = err.removeprefix("starting Spark and the processing elements …\n").strip()
        assert words in sentence, (arguments, err)
        assert sentence.startswith("riprap: "), (arguments, err)
        assert "\n" not in sentence, (arguments, err)
        assert found == code, (arguments, found, err)
    assert not (place / "run").exists()


def the_command_tells_what_became_of_the_run(place):
    """Also an operator's exception: shown, with an exit code."""
    supply, path = Supply(place / "in", market_table(60_000)), place / "run" / "metrics.jsonl"

    def killed_and_back():
        """Whole lines alone are written."""
        lines = map(json.loads, path.read_text().splitlines()) if path.exists() else ()
        return any((line["run"], line["pe"], line["restarts"]) == ("running", "TradeFilter", 1) for line in lines)

    arguments = [BARGAINS, "--input", f"stream:{supply.path}", "--follow", "--kill", "Aggregator@1s"]
    with supplied(supply, killed_and_back):
        code, out, err = command(*arguments, "--silence", SILENCE, "--out", place / "run", "--json")
    assert code == 0, err
    summary = json.loads(out)
    assert summary == json.loads((place / "run" / "summary.json").read_text())
    assert summary["pes"]["TradeFilter"]["restarts"] == 1
    assert {"sent", "received", "lost", "repeated", "recovery"} <= set(summary["streams"]["TradeQuote→TradeFilter"])
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert {line["pe"] for line in lines} == set(summary["pes"])
    assert {line["restarts"] for line in lines if line["pe"] == "TradeFilter"} == {0, 1}
    with owned(place / "run", "run"):
        for again in (["--resume", place / "run"], [BARGAINS, *arguments[1:3], "--follow", "--out", place / "run"]):
            code, out, err = command(*again)
            assert code == 2, err
            assert f"in use by process {os.getpid()}" in err.replace("\n", " "), err
    code, out, err = command("tapped:failing", "--input", numbers_file(place, 10_000), "--out", place / "failing")
    assert code == 1
    assert "the run has failed: In: ValueError: three thousand is too much" in err


def a_plan_for_a_budget_runs(place, app):
    """With replicas, backups and checkpoints, as the planner chose them; what comes out is right, as nothing fails."""
    graph = load_app(app)
    names = [spec.name for spec in graph if not isinstance(spec, Sink)]
    impact = [{"outage": "1s", "impact": 4}, {"outage": "1s", "state_age": "lost", "impact": 9}]
    entry = {"failures_per_day": 1, "impact": impact, "state": 1e5}
    (place / "assessment.json").write_text(json.dumps({"app": app, "operators": dict.fromkeys(names, entry)}))
    cheap, costs = Cost(0.01, 1.0, 1.0, 1.0), {}
    for at, name in enumerate(names):  # in the middle replicas, around them checkpoints
        technique = "ha_group" if 0 < at < len(names) - 2 else "checkpoint"
        costs[name] = OperatorCosts(Cost(), {technique: cheap, "backup": cheap}, Duration(1_000_000))
    (place / "profile.toml").write_text(write_costs(costs, seconds=5.0, rate=20_000.0))
    plan = plan_budget(graph, [place], "cpu=0.5", profile=place / "profile.toml").plan
    used = plan.operators.values()
    assert any(notes.ha_group for notes in used), write_plan(plan)
    assert any(notes.backup for notes in used), write_plan(plan)
    (place / "plan.toml").write_text(write_plan(plan))
    paths = sample_inputs(graph, 20_000, 1, cache_directory())
    given = [f"--input={name}={path}" for name, path in paths.items()]
    arguments = ("--plan", place / "plan.toml", "--silence", SILENCE, "--out", place / "run", "--json")
    code, out, err = command(app, *given, *arguments)
    assert code == 0, err
    expected = expected_rows(graph, paths)
    for name, rows in expected.items():
        found = RunResult(place / "run", json.loads(out)).sink(name)
        assert found.num_rows == rows.num_rows, name


def the_resumed_run_is_exact(place, directory, source):
    """`directory`: of a run that follows the stream `source`, with replay streams only."""
    since = time.monotonic()
    code, out, err = command("--resume", directory, "--json")
    elapsed = time.monotonic() - since
    assert code == 0, err
    summary = json.loads(out)
    assert 0 <= summary["seconds"] <= elapsed
    assert summary["throughput"] * summary["seconds"] == pytest.approx(summary["tuples"] - summary["resumed_at"])
    assert (summary["latency"]["p99"] or 0) <= 1.1 * 1000 * elapsed  # nothing from before is in it
    for name, stream in summary["streams"].items():
        assert stream["recovery"] == "replay", name
        assert stream["sent"] == stream["received"], name
        assert stream["lost"] == stream["repeated"] == 0, name
    read = pa.Table.from_batches([item.batch for item in PersistentStream.open(source).read()])
    same(RunResult(Path(directory), summary).sink("Sink"), bounded(load_app(BARGAINS), {"Source": read}))


def a_killed_jvm_ends_the_run_with_a_sentence(place):
    """The last scene of a session."""
    supply, path = Supply(place / "in", market_table(60_000)), place / "run" / "metrics.jsonl"
    jvm = SparkSession.getActiveSession().sparkContext._gateway.proc.pid

    def running():
        if path.exists() and '"run": "running"' in path.read_text():
            os.kill(jvm, signal.SIGKILL)
            return True
        return False

    with supplied(supply, running):
        code, _, err = command(BARGAINS, "--input", f"stream:{supply.path}", "--follow", "--out", place / "run")
    assert code == 3, err
    sentence = "its JVM has died: it was killed, or ran out of memory; continue with: riprap run --resume"
    assert sentence in " ".join(err.split()), err
    assert "src/riprap" not in err, err  # no traceback of ours; what scenes before it left in Spark may have its own
