"""Options of `riprap model` that name operators, and the model against an assessment."""

import json

import pytest
from tests.san.test_accelerated import diamond
from typer.testing import CliRunner

from riprap.apps.catalogue import load_app
from riprap.base.errors import RiprapError, UsageError
from riprap.cli.main import app
from riprap.cli.model_options import groups_of, hosts_of, hosts_of_layout, rates_of
from riprap.san.streaming.against import agreement, crash_taint
from riprap_papers.published.assessment_tables import TABLE
from riprap_papers.san.published_apps import bargain_discovery

GRAPH = load_app("bargain-discovery")


def test_what_is_written_is_what_is_meant():
    assert rates_of(["Source=1e-3", "VWAP=0"], "--crash-rate-of", GRAPH) == {"Source": 1e-3, "VWAP": 0.0}
    (host,) = hosts_of(["left=Source, TradeQuote@1e-4"], GRAPH)
    assert (host.name, host.operators, host.crash_rate) == ("left", ("Source", "TradeQuote"), 1e-4)
    groups = groups_of(["a=Source,TradeQuote", "b=VWAP"], 0.5, GRAPH)
    assert [(group.technique, group.operators, group.settings) for group in groups] == [
        ("ha-group", ("Source", "TradeQuote"), {"failover": 0.5}), ("ha-group", ("VWAP",), {"failover": 0.5})
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: rates_of(["Source"], "--crash-rate-of", GRAPH), "write OPERATOR=RATE"),
        (lambda: rates_of(["Sauce=1"], "--sdc-rate-of", GRAPH), "did you mean Source"),
        (lambda: rates_of(["Source=often"], "--sdc-rate-of", GRAPH), "--sdc-rate-of"),
        (lambda: hosts_of(["left=Source"], GRAPH), "write HOST=A,B@RATE"),
        (lambda: hosts_of_layout("auto", GRAPH), "write FUSE@RATE"),
        (lambda: hosts_of_layout("some@1e-4", GRAPH), "choose one of auto, none, all"),
        (lambda: hosts_of(["left=Source@-1"], GRAPH), "--host"),
        (lambda: groups_of(["Source,VWAP"], 1.0, GRAPH), "write GROUP=A,B"),
        (lambda: groups_of(["a=Source,VWAP", "b=VWAP"], 1.0, GRAPH), "VWAP is named twice"),
    ],
)
def test_what_cannot_be_gets_a_sentence(call, words):
    with pytest.raises(UsageError, match=words):
        call()


def test_the_published_model_ranks_operators_as_the_published_assessment():
    """Names of the model on the left of table 5.4, impact of table 4.2 on its right."""
    impact = {
        "Source": TABLE["Source"][3], "Filter 2": TABLE["TradeFilter"][3], "Aggregate": TABLE["TradeFilter"][3],
        "Filter 3": TABLE["VWAP"][3], "Filter 4": TABLE["QuoteFilter"][3], "Join": TABLE["BargainIndex"][3],
    }  # fmt: skip
    found = agreement(bargain_discovery(2200.0), impact, 16.0, state_kept=True)
    assert found.tainted["Filter 2"] == pytest.approx(21_752, rel=0.02), "table 5.4"
    assert found.tainted["Filter 4"] == 0.0
    assert found.correlation == pytest.approx(0.93, abs=0.02), "Source and Filter 3 change places"
    turned = agreement(
        bargain_discovery(2200.0), {name: -value for name, value in impact.items()}, 16.0, state_kept=True
    )
    assert turned.correlation == pytest.approx(-found.correlation)


def test_operators_that_are_all_alike_have_no_rank():
    assert agreement(diamond(40.0), {"filter": 1.0, "aggregate": 1.0}, 2.0, state_kept=True).correlation is None
    assert crash_taint(diamond(40.0), "join", 2.0, state_kept=False) == 0.0, "what starts from scratch is right"


def test_against_another_app_gets_a_sentence(tmp_path):
    row = {"failures_per_day": 1, "impact": [{"outage": "4s", "state_age": "0s", "impact": 2.0}]}
    (tmp_path / "assessment.json").write_text(json.dumps({"app": "other", "operators": {"A": row}}))
    error = CliRunner().invoke(app, ["model", "bargain-discovery", "--against", str(tmp_path)]).exception
    assert isinstance(error, RiprapError)
    assert "an assessment of other, not of bargain-discovery" in str(error)


def test_elements_of_a_layout_are_hosts():
    hosts = hosts_of_layout("auto@1e-4", GRAPH)
    assert {host.crash_rate for host in hosts} == {1e-4}
    assert sorted(name for host in hosts for name in host.operators) == sorted(
        operator.name for operator in GRAPH if operator.kind != "sink"
    )
    assert any(len(host.operators) > 1 for host in hosts)
    assert hosts_of_layout(None, GRAPH) == ()
