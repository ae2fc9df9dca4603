"""`riprap model` and `riprap reproduce san` as a user meets them; the report and the drawing."""

import json
from xml.etree import ElementTree

import pytest
from tests.san.networks import everything
from tests.san.test_accelerated import GRID
from typer.testing import CliRunner

from riprap.base.errors import RiprapError
from riprap.cli.main import app
from riprap.report.model import model_report
from riprap.san.replicate import in_threads
from riprap.san.san_drawing import draw
from riprap.san.statistics import Precision
from riprap.san.streaming.study import study


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_model_answers_with_json_and_a_report(spark, tmp_path):
    result = run(
        "model", "bargain-discovery", "--technique", "checkpoint", "--technique", "ha-group", "--crash-rate", "1e-3",
        "--rates", "250,450", "--hours", "0.5", "--runs", "20-20", "--tuples", "50000",
        "--out", tmp_path / "report", "--json",
    )  # fmt: skip
    assert result.exception is None, result.output
    answers = json.loads(result.stdout)["answers"]
    assert [(answer["technique"], answer["rate"]) for answer in answers] == [
        ("checkpoint", 250.0), ("checkpoint", 450.0), ("ha-group", 250.0), ("ha-group", 450.0)
    ]  # fmt: skip
    for answer in answers:
        assert 0.1 < answer["availability"]["mean"] <= answer["without_propagation"]["mean"] < 1.0
        assert answer["sinks"]["Sink"]["tainted"]["mean"] > 0
    assert json.loads((tmp_path / "report" / "results.json").read_text())["answers"] == answers
    assert "<svg" in (tmp_path / "report" / "model.html").read_text()
    ElementTree.parse(tmp_path / "report" / "network.svg")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nothing",), "app nothing is unknown"),
        (("bargain-discovery", "--crash-rate", "-1"), "--crash-rate -1.0: write a number from 0"),
        (("bargain-discovery", "--sdc-rate", "-1"), "--sdc-rate -1.0: write a number from 0"),
        (("bargain-discovery", "--recovery", "3.5"), "as a duration"),
        (("bargain-discovery", "--technique", "chekpoint"), "did you mean checkpoint"),
        (("bargain-discovery", "--confidence", "high"), "--confidence high: write a share"),
        (("bargain-discovery", "--runs", "many"), "--runs many: write a whole number"),
        (("bargain-discovery", "--rates", "fast"), "--rates fast: write a number"),
        (("bargain-discovery", "--method", "magic"), "--method magic is unknown"),
        (("bargain-discovery", "--profile", "missing.toml"), "cannot read profile"),
    ],
)
def test_bad_questions(arguments, message):
    error = run("model", *arguments).exception
    assert isinstance(error, RiprapError), error
    assert message in str(error)


def test_a_plan_with_an_unknown_operator(tmp_path):
    plan = tmp_path / "plan.toml"
    plan.write_text('app = "bargain-discovery"\n[operators.Agregator]\ncheckpoint = "1s"\n')
    error = run("model", "bargain-discovery", "--plan", plan).exception
    assert isinstance(error, RiprapError)
    assert "did you mean Aggregator" in str(error)


def test_reproduce_prints_rows_beside_the_published_ones(spark):
    result = run("reproduce", "san", "--runs", "10", "--json")
    assert result.exception is None, result.output
    rows = json.loads(result.stdout)["rows"]
    assert {"table", "case", "metric", "published", "ours", "low", "high"} <= set(rows[0])
    assert {row["table"] for row in rows} == {
        "validation",
        "figure 5.10",
        "figure 5.11",
        "figure 5.12: input rate",
        "figure 5.13: crash rate",
        "figure 5.14: silent corruption",
        "figure 5.15: output rate",
        "readings of configuration 2",
    }
    engine = next(row for row in rows if "run-bounded" in row["case"])
    output = [row for row in rows if row["table"] == "figure 5.15: output rate" and row["case"] == "450 tuples/s"]
    modelled = next(row for row in output if row["metric"] == engine["metric"])
    assert modelled["ours"] == pytest.approx(engine["ours"], rel=0.02)


def test_report_tells_techniques_apart():
    scenario = GRID["checkpoint, rare"]
    answers = study({"a": scenario, "b": GRID["scratch"]}, Precision(0.95, 1.0, 10, 10), in_threads(2))
    page = model_report(
        scenario.application, {"checkpoint": {40.0: answers["a"]}, "<none>": {40.0: answers["b"]}}, {}, ["A note."]
    )
    assert "checkpoint" in page
    assert "&lt;none&gt;" in page
    assert "A note." in page


def test_drawing_has_every_symbol():
    network = everything()
    drawing = ElementTree.fromstring(draw(network))
    shapes = [element.tag.rpartition("}")[2] for element in drawing.iter()]
    timed = sum(activity.delay is not None for activity in network.activities)
    assert shapes.count("ellipse") == timed
    assert shapes.count("rect") == len(network.activities) - timed
    assert shapes.count("circle") >= len(network.places)
    labels = "".join(drawing.itertext())
    for place in network.places:
        assert place.name in labels
