"""What an assessment leaves for the planner, as nobody wrote it."""

import json
from pathlib import Path

import pytest
from tests.durable.mutations import Case

from riprap.api.impact import read_request
from riprap.api.request import AssessRequest
from riprap.apps import bargain_discovery
from riprap.planner.assessment_file import read_assessment


def make_assessment(path: Path) -> None:
    path.mkdir()
    impact = [{"outage": "0.5s", "state_age": "0s", "impact": 0.8}, {"outage": "4s", "state_age": "lost", "impact": 6}]
    settings = {"restart": "0.5s", "read": 200e6, "intervals": ["1s", "10s"], "replicas": 2}
    operator = {"failures_per_day": 0.2, "impact": impact, "cpu": 0.4, "memory": 8_000_000}
    about = {"app": "bargain-discovery", "operators": {"VWAP": operator}, "settings": settings}
    (path / "assessment.json").write_text(json.dumps(about))
    asked = {"inputs": {"Source": "market.arrow"}, "scale": "demo", "offsets": [1, 2], "reps": 2, "osf": []}
    (path / "request.json").write_text(json.dumps(asked))


def plan_with(path: Path) -> None:
    for impact in read_assessment(path).operators.values():
        impact.quality_impact(1_000_000, 0)


def ask_again(path: Path) -> None:
    read_request(path, AssessRequest, bargain_discovery.build(), path / "plan.toml")


CASE = Case(make_assessment, [plan_with, ask_again], 600, recovers=False)


def test_what_was_written_is_fine(tmp_path):
    CASE.sound(tmp_path)


def test_hundreds_of_mutations(tmp_path):
    CASE.share(tmp_path)


@pytest.mark.soak
def test_hours_of_mutations(tmp_path):
    CASE.hours(tmp_path)
