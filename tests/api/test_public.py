"""What `import riprap` offers: names that resolve, arguments in every form, results as tables, clear refusals."""

import inspect
from datetime import timedelta

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import riprap
from riprap.api.app_inputs import input_paths
from riprap.base.errors import UsageError
from riprap.san.statistics import Precision

ROWS = pa.table({"x": [3, 1, 2]})


def small_app() -> riprap.App:
    app = riprap.App("small")
    app.source("Numbers", "x long").filter("x > 1", name="Large").sink("Sink")
    return app


def test_every_name_resolves_and_is_described():
    for name in riprap.__all__:
        value = getattr(riprap, name)
        assert not inspect.ismodule(value), name
        assert value.__doc__, name


@pytest.mark.parametrize("name", ["assess", "measure", "model", "plan", "protect", "prove", "resume", "run"])
def test_functions_of_the_loop_show_an_example(name):
    assert f"riprap.{name}(" in getattr(riprap, name).__doc__


@pytest.mark.parametrize("app", ["bargain-discovery", riprap.Graph, riprap.App])
def test_apps_in_every_form(app):
    given = {riprap.Graph: small_app().build(), riprap.App: small_app()}.get(app, app)
    plan = riprap.plan(given, recovery=timedelta(seconds=5), latency="1s")
    assert plan.to_arrow().column("bound").unique().to_pylist() == [5.0]


def test_a_plan_is_saved_and_read_back(tmp_path):
    plan = riprap.plan("bargain-discovery", recovery="5s", latency="1s")
    plan.save(tmp_path / "plan.toml")
    assert riprap.read_plan(tmp_path / "plan.toml").apply(small_bargain())
    table = plan.to_pandas()
    assert table[table.backup].task.tolist() == ["VWAP"]
    assert "VWAP" in plan._repr_html_()


def small_bargain():
    from riprap.apps.catalogue import load_app

    return load_app("bargain-discovery")


def test_a_model_is_a_table():
    found = riprap.model(
        "bargain-discovery", techniques=["none", "checkpoint"], simulated=timedelta(minutes=1),
        precision=Precision(minimum=2, maximum=2),
    )  # fmt: skip
    assert found.to_pandas().technique.tolist() == ["none", "checkpoint"]


@pytest.mark.parametrize("kind", ["path", "arrow", "pandas", "polars"])
def test_inputs_in_every_form(kind, tmp_path):
    pq.write_table(ROWS, tmp_path / "rows.parquet")
    frame = pd.DataFrame({"x": [3, 1, 2]})
    forms = {
        "path": tmp_path / "rows.parquet",
        "arrow": ROWS,
        "pandas": frame,
        "polars": pl.DataFrame({"x": [3, 1, 2]}),
    }
    with input_paths(small_app().build(), forms[kind]) as paths:
        assert pq.read_table(paths["Numbers"]).column("x").to_pylist() == [3, 1, 2]
    assert kind == "path" or not paths["Numbers"].exists()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: riprap.plan("bargain-discovery"), "plan what?"),
        (lambda: riprap.plan(small_app(), budget="cpu=1"), "needs an app and the directory of its assessment"),
        (lambda: riprap.plan(7, recovery="1s"), "cannot be a int"),
        (lambda: riprap.model(small_app(), 7), "the input of source Numbers cannot be a int"),
        (lambda: riprap.model("nexmark-3", ROWS), "has several sources"),
    ],
)
def test_wrong_arguments_get_one_sentence(call, words):
    with pytest.raises(UsageError, match=words) as caught:
        call()
    assert "\n" not in str(caught.value)
