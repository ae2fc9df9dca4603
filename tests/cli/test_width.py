"""What commands print fits a terminal of 80 columns, and no name is broken over two lines."""

import json

import pyarrow as pa
import pytest
from refusals import no_spark  # noqa: F401
from typer.testing import CliRunner

from riprap.cli import console
from riprap.cli.main import app
from riprap.cli.prove import _print
from riprap.proof.effects import FaultEffect
from riprap.proof.oracle import SinkVerdict
from riprap.proof.schedule import ScheduledFault
from riprap.proof.verdict import FaultResult, Proof
from riprap.streams import PersistentStream

pytestmark = pytest.mark.usefixtures("no_spark")
SCHEMA = pa.schema([("_ts", pa.timestamp("us", "UTC")), ("_seq", pa.int64())])


@pytest.fixture(autouse=True)
def narrow(monkeypatch):
    monkeypatch.setattr(console.OUT, "_width", 80)
    monkeypatch.setattr(console.ERR, "_width", 80)


def printed(*arguments):
    result = CliRunner().invoke(app, [*map(str, arguments)])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_streams_of_a_run(tmp_path):
    names = ["streams/Source--TradeQuote/0-0", "sinks/Bargains", "streams/Aggregator--BargainIndexOfTheDay/0-0"]
    for name in names:
        with PersistentStream.create(tmp_path / name, SCHEMA).writer() as writer:
            seq = pa.array(range(100_000), pa.int64())
            writer.append(
                pa.record_batch([pa.array([n * 1511 for n in range(100_000)], SCHEMA.field(0).type), seq], SCHEMA.names)
            )
    lines = printed("stream", "ls", tmp_path).splitlines()
    assert max(map(len, lines)) <= 80
    for name in names:
        assert name in lines
    assert sum("100,000 rows" in line and "for 2.52 min" in line for line in lines) == 3
    lines = printed("stream", "ls", tmp_path / "sinks").splitlines()
    assert [line.split()[0] for line in lines] == ["stream", "Bargains"]
    assert max(map(len, lines)) <= 80


def test_a_graph_with_a_plan(tmp_path):
    plan = tmp_path / "plan.toml"
    plan.write_text('app = "bargain-discovery"\n[operators.Aggregator]\ncheckpoint = "1s"\nbackup = true\n')
    lines = printed("graph", "bargain-discovery", "--plan", plan).splitlines()
    assert max(map(len, lines)) <= 80
    assert "  3  ■ Aggregator  → VWAP" in lines
    assert "       count(5) every count(1) by ticker [checkpoint every 1s]" in lines
    explained = printed("graph", "bargain-discovery", "--plan", plan, "--explain")
    for name in ("TradeFilter", "QuoteFilter", "BargainIndex"):
        assert f" {name} " in explained


def test_recovery_times_can_be_read(tmp_path):
    tasks = [{"name": f"t{n}", "T": 5.167046} for n in range(3)]
    (tmp_path / "t.json").write_text(json.dumps({"tasks": tasks, "edges": [["t0", "t1"], ["t1", "t2"]]}))
    out = printed("plan", tmp_path / "t.json", "--recovery", "16s")
    assert "15.5 s of 16s allowed" in out
    assert "us" not in out.split()


def test_help_is_grouped_by_the_loop():
    out = printed("--help")
    panels = ["Declare", "Assess", "Model", "Plan", "Run", "Prove", "Compare", "Streams and data", "Other"]
    places = [out.index(f"─ {panel} ─") for panel in panels]
    assert places == sorted(places)


def test_a_proof(capsys, tmp_path):
    targets = ("TradeQuote", "Aggregator", "BargainIndex", "QuoteFilter")
    ahead, after = (
        FaultEffect(0.123456, 123, 0.01234, 123_456, 0.9876),
        FaultEffect(0.5, 9_876, 123.4567, 9_876, 0.1, 12),
    )
    faults = tuple(
        FaultResult(
            ScheduledFault(n * 1_000_000, "checkpoint-deleted", targets[: 1 + n % 4]), 1.0 + n, 3.0 + n, 2.0 + n, 12.5,
            0.4,
            predicted_effect=ahead, effect=after, altered="price" if n == 4 else None,
        )
        for n in range(20)
    )  # fmt: skip
    sink = SinkVerdict(123_456_789, 123_456_700, 89, 0, 1_234, True)
    proof = Proof("app", 1, None, faults, {"BargainsOfTheDay": sink}, {"BargainsOfTheDay": "with gaps"}, (), {})
    _print(proof, tmp_path)
    lines = capsys.readouterr().out.splitlines()
    assert proof.sentence in lines  # one line for who searches a log; a terminal wraps it
    tables = [line for line in lines if line != proof.sentence and not line.startswith(str(tmp_path))]
    assert max(map(len, tables)) <= 80
    shown = "\n".join(lines)
    assert "8 more are in the report" in shown
    assert "0.12→0.50" in shown
    assert "123,456→9,876" in shown
    assert "price was altered" in shown
    assert lines[-2].startswith("This plan holds: 20 faults")
