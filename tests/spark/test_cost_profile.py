"""`riprap profile --costs` and then `riprap plan --budget --profile`, as a user types them. It takes some minutes."""

import json
import subprocess
import sys

import pytest
from drivers import environment
from scene_inputs import BARGAINS

from riprap.apps.catalogue import load_app

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.soak]


def riprap(*arguments):
    command = [sys.executable, "-m", "riprap.cli.main", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_costs_are_measured_and_planned_with(tmp_path):
    profile, assessed = tmp_path / "profile.toml", tmp_path / "assessment.json"
    settings = ("--for", "3s", "--rate", 5_000, "--tuples", 50_000)
    measured = riprap("profile", BARGAINS, "--costs", *settings, "--out", profile, "--json")["costs"]
    assert set(measured["totals"]) == {"running", "checkpoint", "backup", "ha_group", "copies"}
    assert measured["totals"]["running"]["cores"] > 0
    assert measured["totals"]["backup"]["written"] > 0
    assert measured["operators"]["Aggregator"]["checkpoint"]["written"] > 0
    group = measured["operators"]["Aggregator"]["ha_group"]
    assert group["memory"] > 0
    impact = [{"outage": "1s", "state_age": "0s", "impact": 1.0}]
    entry = {"failures_per_day": 1, "impact": impact, "cpu": 1e-9, "memory": 1e-9, "output": 1}
    assessed.write_text(json.dumps({"app": BARGAINS, "operators": {spec.name: entry for spec in load_app(BARGAINS)}}))
    budget = ("--budget", f"memory={round(group['memory'] / 2)},storage=0")
    found = riprap("plan", BARGAINS, "--from-assessment", assessed, *budget, "--profile", profile, "--json")
    assert found["steps"][-1]["operators"]["Aggregator"] == "restart"
