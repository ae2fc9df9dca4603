"""A random app through the whole loop, in one process with one Spark session. Not a test: `test_loop.py` plays it.

    python loop_scenes.py DIRECTORY

The scene `loop SEED` assesses, profiles, models, plans, runs and proves the app of that seed (`tests/random_apps.py`).
What has to hold: each command does what it is there for or says in a sentence why it cannot; whatever was planned is
accepted by the run; the run without faults gives what the engine gives; and the proof holds what the plan promises.
"""

from pathlib import Path
from random import Random

from drivers import main
from tests.random_apps import random_app, random_inputs

from riprap.api.assess import run_request
from riprap.api.model import describe_app, model, protections_of
from riprap.api.plan import plan_budget
from riprap.api.profile import profile
from riprap.api.prove import prove
from riprap.api.recovery_plan import plan_recovery
from riprap.api.request import AssessRequest
from riprap.api.run import run
from riprap.base.errors import PlanError, UsageError
from riprap.base.quantities import Duration
from riprap.faults.campaign_settings import NothingToAssess
from riprap.graph.graph import Graph
from riprap.graph.plan_file import write_plan
from riprap.proof.oracle import difference, expected_rows, found_rows
from riprap.san.replicate import in_threads
from riprap.san.statistics import Precision
from riprap.san.streaming.failures import Faults
from riprap.spark.session import hosting_session

SLOTS = 24
BUDGET = "cpu=2,memory=1GB,storage=100MB"
FAULT = """
[[faults]]
at = "1500ms"
kind = "kill"
targets = ["{}"]
"""


def loop(directory: Path, given: str) -> None:
    seed = int(given)
    graph, random = random_app(seed), Random(f"loop {seed}")
    paths = random_inputs(graph, seed, directory)
    asked = AssessRequest(
        graph, paths, state=random.choice(["kept", "kept", "lost"]), offsets=(0.3, 0.6), outages=("20ms", "100ms"),
        reps=2, golden=4, section=50, seed=seed,
    )  # fmt: skip
    assessed = directory / "assessed"
    try:
        found = run_request(asked, assessed, spark=spark)
        assert len(found.to_json()["operators"]) + len(found.result.unassessable) >= 1
    except NothingToAssess:  # then there is no assessment to plan from
        found = None
    measured = profile(graph, paths)
    assert set(measured.operators) == {spec.name for spec in graph.operators}
    application, _ = describe_app(graph, paths, measured=measured)
    techniques = [random.choice(["checkpoint", "ha-group", "full-replication"])]
    try:
        model(
            graph, application, protections_of(graph, techniques), Faults(1e-2, 0.0, 0.5), 0.05, in_threads(1),
            precision=Precision(minimum=2, maximum=2), seed=seed,
        )  # fmt: skip
    except UsageError as error:  # on a busy machine an operator may measure as overloaded; this simulator refuses it
        if "of its time" not in str(error):
            raise
    plans = {"recovery": lambda: plan_recovery(graph, "60s", latency="100ms").text}
    if found is not None:
        plans["proposed"] = lambda: write_plan(found.plan)
        plans["budget"] = lambda: write_plan(plan_budget(graph, [assessed], BUDGET).plan)
        plans["bound"] = lambda: write_plan(plan_budget(graph, [assessed], BUDGET, Duration(60_000_000)).plan)
    written = {}
    for name, make in plans.items():
        try:
            written[name] = directory / f"{name}.toml"
            written[name].write_text(make())
        except (PlanError, UsageError):  # said before anything was written: there is none
            del written[name]
    if written:
        through(graph, paths, directory, written, random)


def through(graph: Graph, paths: dict[str, Path], directory: Path, plans: dict[str, Path], random: Random) -> None:
    """A run under one plan and a proof of another, or the same."""
    plan = plans[random.choice(sorted(plans))]
    result = run(graph, paths, out=directory / "run", plan=plan, spark=spark)
    for name, expected in expected_rows(graph, paths).items():
        verdict, _ = difference(expected, found_rows(Path(result.summary["sinks"][name]["path"]), expected.schema))
        assert (verdict.lost, verdict.doubled, verdict.wrong) == (0, 0, 0), f"{name} under {plan}: {verdict}"
    plan = plans[random.choice(sorted(plans))]
    (directory / "faults.toml").write_text(FAULT.format(random.choice(graph.operators).name))
    for seconds in (4.0, 20.0, 80.0):  # a machine may be so busy that a short run is over before its fault
        out = directory / f"proof-{seconds:g}"
        proof = prove(graph, paths, out=out, plan=plan, seconds=seconds, faults=directory / "faults.toml", fuse="auto")
        if proof.faults[0].began is not None:
            break
    assert proof.holds, f"under {plan}: {proof.broken}"


if __name__ == "__main__":
    spark = hosting_session(SLOTS)
    main({"loop": loop})
