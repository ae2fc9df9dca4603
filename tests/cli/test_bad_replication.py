"""Plans of replication that cannot be: one sentence and exit code 2, before Spark is started."""

import json

import pytest
from tests.cli.refusals import ended, no_spark, refused, run_settings  # noqa: F401

from riprap.base.errors import GraphError
from riprap.graph.annotations import ha_group
from riprap.graph.builder import App

APP = "bargain-discovery"
ODD = """
from riprap.graph.builder import App
from riprap.operators.user import UserOperator


class Odd(UserOperator):
    deterministic = False

    def output_schemas(self, inputs):
        return [inputs[0]]

    def process(self, port, batch):
        return [batch]


class Needy(Odd):
    deterministic, tolerates_loss = True, False


def app(kind):
    made = App("odd")
    made.source("In", "x long").filter("x > 0", name="F").apply(kind, name="O")[0].sink("Out")
    return made.build()


odd, needy = app(Odd), app(Needy)
"""


def group(*operators: str, replicas: object = 2, extra: str = "") -> str:
    listed = "".join(f'[operators.{name}]\nha_group = "g"\n' for name in operators)
    return f"{listed}[ha_groups.g]\nreplicas = {replicas}\n{extra}"


@pytest.mark.usefixtures("no_spark")
@pytest.mark.parametrize(
    ("plan", "why"),
    [
        (group("VWAP", "VWAP"), "operators"),  # listed twice
        (group("VWAP", "Sink"), "Sink is a sink and in HA group g"),
        (group("TradeFilter", "QuoteFilter"), "HA group g is not connected"),
        (group("VWAP", replicas=1), "replicas"),
        (group("VWAP", replicas=0), "replicas"),
        (group("VWAP", replicas='"2"'), "replicas"),
        (group("VWAP", replicas=65), "replicas"),
        (group("Nobody"), "app bargain-discovery has"),
        ('[operators.VWAP]\nha_group = "h"\n', "h"),  # a group that nobody defines
        (group("VWAP", extra='operators = ["VWAP"]\n'), "operators"),
        ('[operators.VWAP]\nha_group = "g"\nbackup = true\n[ha_groups.g]\nreplicas = 2\n', "VWAP"),
        (group("VWAP", extra="[replication]\ncopies = 2\n"), "VWAP is in HA group g"),
        ("[replication]\ncopies = 1\n", "copies = 1; write a whole number, 2 or more"),
        ("[replication]\ncopies = 0\n", "copies = 0; write"),
        ("[replication]\ncopies = -2\n", "copies = -2; write"),
        ("[replication]\ncopies = 2.0\n", "copies = 2.0; write"),
        ("[replication]\ncopies = true\n", "copies = "),
        ('[replication]\ncopies = "2"\n', "copies = "),
        ("[replication]\n", "copies = "),
        ("[replication]\ncopies = 2\nreplicas = 2\n", "replicas"),
        ("replication = 2\n", "write [replication]"),
        ("[replication]\ncopies = 2\n[operators.VWAP]\nbackup = true\n", "VWAP is to keep its output"),
        ('[replication]\ncopies = 2\n[operators.Aggregator]\ncheckpoint = "1s"\n', "Aggregator is to have checkpoints"),
    ],
)
def test_a_plan_that_cannot_be_is_refused(tmp_path, plan, why):
    (tmp_path / "plan.toml").write_text(f'app = "{APP}"\n{plan}')
    assert why in refused("run", APP, "--plan", "plan.toml", "--tuples", 1000)


@pytest.mark.usefixtures("no_spark")
@pytest.mark.parametrize("plan", [group("VWAP"), "[replication]\ncopies = 2\n"])
def test_replicas_go_with_partial_alone(tmp_path, plan):
    (tmp_path / "plan.toml").write_text(f'app = "{APP}"\n{plan}')
    assert "--protocol coordinated" in refused("run", APP, "--plan", "plan.toml", "--protocol", "coordinated")
    code, said = ended("run", APP, "--plan", "plan.toml", "--tuples", 1000)
    assert (code, "where Spark would start" in said) == (3, True), said


@pytest.mark.usefixtures("no_spark")
def test_operators_that_cannot_be_replicated(tmp_path, monkeypatch):
    (tmp_path / "odd_apps.py").write_text(ODD)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "copies.toml").write_text('app = "odd"\n[replication]\ncopies = 2\n')
    assert "O is not; use an HA group" in refused("run", "odd_apps:odd", "--plan", "copies.toml", "--tuples", 1000)
    (tmp_path / "group.toml").write_text(f'app = "odd"\n{group("F")}')
    assert "cannot bear" in refused("run", "odd_apps:needy", "--plan", "group.toml", "--tuples", 1000)


@pytest.mark.usefixtures("no_spark")
def test_a_run_of_copies_cannot_be_resumed(tmp_path):
    plan = f'app = "{APP}"\n[replication]\ncopies = 2\n'
    settings = run_settings(plan, {}, {"Source": "gone.parquet"}, None, None)
    (tmp_path / "run.json").write_text(json.dumps(settings))
    assert "under full replication" in refused("run", "--resume", tmp_path)


def test_an_operator_is_in_one_group_once():
    stream = App("x").source("S", "x long")
    for groups in (("g", "g"), ("g", "h")):
        with pytest.raises(GraphError, match="it is in one group, once"):
            stream.filter("x > 1", name="F", protect=[ha_group(name) for name in groups])
