"""What one process takes with it, asked of the assessment, of the model and of a proof: the same operators."""

import pytest
from typer.testing import CliRunner

from riprap.apps.catalogue import load_app
from riprap.base.errors import RiprapError
from riprap.cli.colocation import colocated_operators
from riprap.cli.main import app
from riprap.cli.model_options import hosts_of_layout
from riprap.runtime.layout import arrange

GRAPH = load_app("bargain-discovery")
SINKS = {sink.name for sink in GRAPH.sinks}


@pytest.mark.parametrize("fuse", ["auto", "none", "all"])
def test_elements_of_the_layout_go_together(fuse):
    """What is asked of the assessment and the model is what a kill of the element takes."""
    elements = [set(fragment.members) - SINKS for fragment in arrange(GRAPH, fuse).fragments]
    wanted = sorted(sorted(members) for members in elements if members)
    assert sorted(sorted(members) for members in colocated_operators(GRAPH, fuse, "--colocated")) == wanted
    hosts = hosts_of_layout(f"{fuse}@1e-4", GRAPH)
    assert sorted(sorted(host.operators) for host in hosts) == wanted
    assert {host.crash_rate for host in hosts} == {1e-4}
    assert len({host.name for host in hosts}) == len(hosts)


def test_an_assessment_has_them_as_targets(tmp_path, monkeypatch):
    """The command hands elements over; that targets fail together is the campaign's to test."""
    asked = []

    def noted(request, folder, **_):
        asked.append(request)
        raise KeyboardInterrupt

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("riprap.api.assess.run_request", noted)
    monkeypatch.setattr("riprap.spark.session.session", lambda master=None: None)
    ended = CliRunner().invoke(app, ["assess", "bargain-discovery", "--colocated", "all", "--out", "out"])
    assert ended.exit_code == 130, ended.exception
    (request,) = asked
    assert set(request.targets.split("+")) == {operator.name for operator in GRAPH} - SINKS


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["assess", "bargain-discovery", "--colocated", "some"], "--colocated some: choose one of"),
        (["assess", "bargain-discovery", "--colocated", "auto", "--targets", "all"], "leave --targets out"),
        (["model", "bargain-discovery", "--hosts", "auto"], "write FUSE@RATE"),
        (["model", "bargain-discovery", "--hosts", "some@1"], "--hosts some: choose one of"),
        (["model", "bargain-discovery", "--hosts", "auto@often"], "--hosts"),
    ],
)
def test_refused_before_anything_starts(tmp_path, monkeypatch, arguments, sentence):
    monkeypatch.chdir(tmp_path)
    ended = CliRunner().invoke(app, arguments)
    assert isinstance(ended.exception, RiprapError)
    assert ended.exception.exit_code == 2
    assert sentence in str(ended.exception)
