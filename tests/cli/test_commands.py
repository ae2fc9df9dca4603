"""Commands as a person types them: what they print, and what they say when asked for nonsense."""

import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from riprap.base.errors import RiprapError
from riprap.cli.main import app


def run(*arguments: str):
    return CliRunner().invoke(app, list(arguments))


def refused(*arguments: str) -> RiprapError:
    error = run(*arguments).exception
    assert isinstance(error, RiprapError), error
    return error


def test_graph_as_text_names_every_operator():
    out = run("graph", "bargain-discovery").stdout
    for name in ("Source", "TradeQuote", "TradeFilter", "Aggregator", "VWAP", "QuoteFilter", "BargainIndex", "Sink"):
        assert name in out


def test_graph_explains_the_division():
    out = " ".join(run("graph", "bargain-discovery", "--explain").stdout.split())
    assert "Divided by key: Source by ticker, because Aggregator, BargainIndex divide their state by ticker." in out
    assert "VWAP, BargainIndex, Sink: one loop; starts here because it is a source" in out


def test_graph_draws_svg(tmp_path):
    path = tmp_path / "graph.svg"
    assert run("graph", "bargain-discovery", "--svg", str(path)).exit_code == 0
    text = path.read_text()
    assert text.startswith("<svg")
    assert "BargainIndex" in text


def test_graph_with_a_plan(tmp_path):
    plan = tmp_path / "plan.toml"
    plan.write_text('app = "bargain-discovery"\n[operators.Aggregator]\ncheckpoint = "1s"\nbackup = true\n')
    described = json.loads(run("graph", "bargain-discovery", "--plan", str(plan), "--json").stdout)
    assert described["operators"]["Aggregator"]["protection"] == ["checkpoint every 1s", "backup"]
    plan.write_text('app = "bargain-discovery"\n[operators.Agregator]\ncheckpoint = "1s"\n')
    message = str(refused("graph", "bargain-discovery", "--plan", str(plan)))
    assert "the plan names operator Agregator" in message
    assert "did you mean Aggregator?" in message


def test_profile_measures_every_operator(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    out = tmp_path / "profile.toml"
    result = json.loads(run("profile", "bargain-discovery", "--tuples", "20000", "--out", str(out), "--json").stdout)
    assert result["tuples"] == 20_000
    join = result["operators"]["BargainIndex"]
    assert sum(join["tuples_in"]) == 20_000
    assert join["port_selectivity"][0] == 0.0
    assert join["port_selectivity"][1] == pytest.approx(join["tuples_out"][0] / join["tuples_in"][1])
    assert '[operators."BargainIndex"]' in out.read_text()


def test_graph_and_profile_of_an_app_with_an_operator_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    described = json.loads(run("graph", "yield-prediction", "--json").stdout)
    assert described["operators"]["YieldModel"]["kind"] == "user-defined"
    assert described["operators"]["YieldModel"]["protection"] == ["checkpoint every 1s"]
    result = json.loads(run("profile", "yield-prediction", "--tuples", "4000", "--json").stdout)
    assert result["operators"]["YieldModel"]["tuples_in"] == [250, 250]
    assert result["operators"]["YieldModel"]["tuples_out"] == [250]
    assert result["operators"]["YieldModel"]["state_bytes"] == 17 * 18 * 8


def test_unknown_apps_are_refused():
    told = str(refused("graph", "bargain-discover"))
    assert "bundled apps are bargain-discovery, yield-prediction, sensor-fleet, nexmark-2" in told
    assert "(did you mean bargain-discovery?)" in told
    assert "cannot import nosuch" in str(refused("graph", "nosuch:app"))
    assert "has no nosuch" in str(refused("graph", "riprap.apps.bargain_discovery:nosuch"))
    assert "has to be an App, a Graph" in str(refused("graph", "riprap.apps.bargain_discovery:SCHEMA"))


def test_bad_inputs_are_refused(tmp_path):
    assert "does not exist" in str(refused("profile", "bargain-discovery", "--input", str(tmp_path / "none.parquet")))
    text = tmp_path / "text.parquet"
    text.write_text("no")
    assert "has to be Parquet or Arrow" in str(refused("profile", "bargain-discovery", "--input", str(text)))
    assert "the sources are Source" in str(refused("profile", "bargain-discovery", "--input", "Sauce=x.parquet"))
    existing = str(tmp_path)
    assert "exists already" in str(refused("run-bounded", "bargain-discovery", "--out", existing))


def test_reproduce_yield(tmp_path):
    out = tmp_path / "out"
    result = json.loads(run("reproduce", "yield", "--crashes", "2", "--seed", "4", "--out", str(out), "--json").stdout)
    assert json.loads((out / "results.json").read_text()) == result
    assert (result["crashes"], result["predictions"], result["tuples"], len(result["runs"])) == (2, 2_700, 5_400, 2)
    assert {name: one["published_rmse"] for name, one in result["scenarios"].items()} == {"S2": 4.80, "S3": 7.79}
    for scenario in result["scenarios"].values():
        assert len(scenario["cdf"]) == len(result["cdf_at"])
        assert scenario["quantiles"]["50"] <= scenario["quantiles"]["99"] <= scenario["worst"]
    report = (out / "yield.html").read_text()
    for name, scenario in result["scenarios"].items():
        assert f"{scenario['rmse']:#.3g}" in report
        assert f"{name}, {scenario['restored']}" in report
    blocked = tmp_path / "file"
    blocked.touch()
    assert "cannot write to" in str(refused("reproduce", "yield", "--crashes", "1", "--out", str(blocked)))


@pytest.mark.xdist_group("spark")
def test_run_bounded(spark, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    out = tmp_path / "out"
    arguments = ("run-bounded", "bargain-discovery", "--tuples", "20000", "--out", str(out), "--json")
    result = json.loads(run(*arguments).stdout)
    rows = spark.read.parquet(str(out / "Sink"))
    assert result["sinks"]["Sink"]["rows"] == rows.count() > 1_000
    assert result["sinks"]["Sink"]["sums"]["gain"] == pytest.approx(rows.groupBy().sum("gain").first()[0])


def test_errors_end_with_their_exit_code_and_no_traceback():
    command = [sys.executable, "-m", "riprap.cli.main", "graph", "nonsense"]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    assert process.returncode == 2
    assert process.stderr.startswith("riprap: app nonsense is unknown")
    assert "Traceback" not in process.stderr


def test_help_is_quick_to_import():
    """`riprap --help` loads neither Spark nor Arrow nor the compiler."""
    heavy = ("pyspark", "pyarrow", "numba", "numpy")
    script = f"import sys, riprap.cli.commands; print([name for name in {heavy} if name in sys.modules])"
    process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert process.stdout.strip() == "[]"


@pytest.mark.parametrize("module", ["riprap.cli.commands", "typer", "riprap.graph.drawing", "pyarrow", "numpy"])
def test_an_interrupt_while_modules_load_ends_with_130_and_without_traceback(module):
    script = f"""
import os, signal, sys

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupt())
sys.argv = ["riprap", "graph", "bargain-discovery"]
from riprap.cli.main import main
main()
"""
    process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert process.returncode == 130
    assert "Traceback" not in process.stderr
    assert process.stdout == ""
