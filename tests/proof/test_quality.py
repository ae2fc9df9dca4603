"""A proof says what the user's own score functions give for what came out, sink by sink."""

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from riprap.api.request import score_functions
from riprap.base.errors import UsageError
from riprap.graph.builder import App
from riprap.proof.fault_kinds import KINDS
from riprap.proof.oracle import compare
from riprap.proof.quality import qualities
from riprap.proof.schedule import ScheduledFault
from riprap.proof.verdict import FaultResult, Proof
from riprap.report.prove import proof_report


def two_sinks():
    app = App("two")
    trades, alerts = app.source("S", "price double, size long").split("size > 0", otherwise=True, name="X")
    trades.sink("Trades")
    alerts.sink("Alerts")
    return app.build()


def turnover(tuples):
    return pc.sum(pc.multiply(tuples["price"], pc.cast(tuples["size"], pa.float64()))).as_py()


def rows(count):
    keys = {"_ts": pa.array(range(count), pa.timestamp("us", "UTC")), "_seq": pa.array(range(count), pa.int64())}
    return pa.table({"price": [float(j) for j in range(count)], "size": list(range(count)), **keys})


def test_two_sinks_with_functions_of_their_own():
    graph = two_sinks()
    scores = score_functions(graph, {"Trades": turnover, "Alerts": "count(*)"})
    expected = {"Trades": rows(10), "Alerts": rows(4)}
    found = {"Trades": rows(10).slice(0, 9), "Alerts": pa.concat_tables([rows(4), rows(2)])}
    result = qualities(scores, expected, found)
    assert (
        result["Trades"].function.startswith("tests.proof.test_quality:turnover")
        or "turnover" in result["Trades"].function
    )
    assert (result["Trades"].expected, result["Trades"].found) == (285.0, 204.0)
    assert result["Alerts"].share == 1.5
    sinks = {name: compare(expected[name], found[name]) for name in expected}
    kind = next(iter(KINDS))
    faults = (FaultResult(ScheduledFault(0, kind, ("X",)), 1.0, 2.0),)
    proof = Proof("two", 1, None, faults, sinks, dict.fromkeys(sinks, "with gaps"), (), {}, scores=result)
    score = proof.as_json()["sinks"]["Trades"]["score"]
    assert (score["expected"], score["found"]) == (285.0, 204.0)
    assert score["quality"] == pytest.approx(204 / 285)
    page = proof_report(proof)
    assert "Quality of the output" in page
    assert "71.58 %" in page
    assert "150.00 %" in page


def test_nothing_came_out_or_should_have():
    scores = score_functions(two_sinks(), {"Trades": "sum(price)"})
    assert qualities(scores, {"Trades": rows(3)}, {"Trades": rows(0)})["Trades"].share == 0.0
    assert qualities(scores, {"Trades": rows(0)}, {"Trades": rows(0)})["Trades"].share == 1.0
    assert qualities(scores, {"Trades": rows(0)}, {"Trades": rows(3)})["Trades"].share is None


def test_what_cannot_score_is_told():
    with pytest.raises(UsageError, match="is not a sink of two"):
        score_functions(two_sinks(), {"Trade": "count(*)"})
