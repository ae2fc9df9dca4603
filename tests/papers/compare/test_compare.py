"""The comparison of protocols: its grid, its measures, the simulated host with costs, the page."""

import contextlib
import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from riprap.base.errors import RiprapError
from riprap.cli.main import main as riprap
from riprap_papers.compare.advice import advice
from riprap_papers.compare.case_processes import results_of
from riprap_papers.compare.comparison import compare, find_maximum
from riprap_papers.compare.cycle import Falling, falls
from riprap_papers.compare.grid import ComparedCase, cases
from riprap_papers.compare.maximum import maximum
from riprap_papers.compare.measures import STEP, Observation, Result, SinkOutput, averaged, measured
from riprap_papers.compare.simulated_costs import costs_of, profiles, said
from riprap_papers.compare.simulated_host import laid_out, observed
from riprap_papers.compare.skew import pairs
from riprap_papers.compare.workload_oracle import RowVerdict, judged, rows
from riprap_papers.report.comparison_page import comparison_report
from riprap_papers.workloads.workload_catalogue import WORKLOADS

SHORT = {"workloads": ["nexmark-2"], "rate": 300.0, "seconds": 4.0, "intervals": ("700ms",)}

PROFILED = {"Bid": 2e-8, "Selection": 4e-8, "Sink": 1e-8}


def seen(outputs, killed_at=None, **more):
    numbers = dict.fromkeys(("checkpoints", "forced", "bytes", "gone_back", "tuples"), 0)
    times = dict.fromkeys(("detect", "restart", "restore", "take_ms", "rollback"), 0.0)
    told = {"verdict": RowVerdict(), **numbers, **times, **more}
    return Observation(outputs=outputs, seconds=30.0, killed_at=killed_at, **told)


def test_the_published_grid_has_116_configurations():
    found = cases("paper")
    assert len(found) == 3 * 116
    assert len({case.key for case in found}) == len(found)
    assert not any(case.workload == "nhop" and case.protocol == "coordinated" for case in found)
    real = cases("paper", host="spark")
    assert len(real) == len(found)
    for case, compressed in zip(found, real, strict=True):
        assert compressed.interval * 10 == case.interval
        assert compressed.rate == case.rate * 100
        assert compressed.killed_at * 10 == pytest.approx(case.killed_at)


@pytest.mark.soak
@pytest.mark.parametrize("host", ["simulated", "spark"])
def test_the_published_grid_goes_through(host):
    """On Spark an hour. What was interrupted goes on where it was: delete the directory to begin anew."""
    found = compare(scale="paper", host=host, out=Path(".pytest_cache") / "comparison" / host)
    exact = [result for case, result in found.results.items() if case.log != "volatile"]
    assert all(result.exact for result in exact)


@pytest.mark.soak
def test_every_workload_survives_a_real_kill_under_every_protocol(tmp_path):
    found = compare(scale="demo", out=tmp_path / "out")
    assert {case.workload for case in found.results} == set(WORKLOADS)
    for case, result in found.results.items():
        assert result.exact, case


def test_recovery_is_over_when_the_latency_is_back_and_stays():
    calm = [SinkOutput(at / 10, 10, 0.1) for at in range(100)]  # 10 s
    late = [SinkOutput(12 + at / 10, 10, 2.0 - at * 0.05) for at in range(20)]
    luck = [SinkOutput(14.0, 10, 0.1), SinkOutput(14.31, 10, 1.0)]  # one step within the bound is none
    after = [SinkOutput(15 + at / 10, 10, 0.105) for at in range(100)]
    result = measured(seen([*calm, *late, *luck, *after], killed_at=10.0))
    assert result.latency_mean == pytest.approx(100)
    assert result.throughput == pytest.approx(100)
    assert result.first_output == pytest.approx(2.0)
    assert 5.0 - STEP <= result.recovery <= 5.0 + STEP
    assert result.recovery_adaptive == result.recovery
    never = measured(seen([*calm, *late], killed_at=10.0))
    assert never.recovery is None
    assert measured(seen(calm)).first_output is None


def test_where_latency_swings_the_adaptive_recovery_sees_it_end():
    swinging = [SinkOutput(at / 10, 10, 0.1 if at % 10 < 8 else 1.0) for at in range(100)]
    after = [SinkOutput(12 + at / 10, 10, 0.1 if at % 10 < 8 else 1.0) for at in range(100)]
    result = measured(seen([*swinging, *after], killed_at=10.0))
    assert result.recovery_adaptive == pytest.approx(2.0, abs=2 * STEP)


def test_a_result_survives_its_file():
    result = measured(seen([SinkOutput(1.0, 3, 0.5)], killed_at=2.0))
    assert Result.from_json(json.loads(json.dumps(result.as_json()))) == result


@pytest.mark.parametrize("protocol", ["coordinated", "unaligned", "hybrid", "uncoordinated", "induced", "repeat"])
def test_a_simulated_case_is_exact_and_repeats_itself(protocol):
    [case] = cases("small", protocols=[protocol], **SHORT)
    first, again = measured(observed(case)), measured(observed(case))
    assert first == again
    assert first.exact
    assert first.messages == 0
    assert first.checkpoints > 3
    assert first.first_output > 0.6  # a restart takes 0.65 s
    assert 0 < first.rollback < 4.0
    assert first.gone_back == (0 if protocol == "repeat" else 2)  # the two others, once each
    calm = measured(observed(replace(case, failure=False)))
    assert calm.rollback is None
    assert calm.throughput == pytest.approx(230, rel=0.3)  # about half of the bids, and the hot auction is an even one


def test_a_run_is_as_long_as_its_interval_asks_for_and_kinds_of_operators_can_be_killed():
    [case] = cases("small", workloads=["nexmark-3"], protocols=["induced"], intervals=("10s",), kill="join")
    assert (case.seconds, case.victim) == (40.0, "Found")
    assert 20 < case.killed_at < 40
    [case] = cases("small", workloads=["nexmark-2"], protocols=["induced"], kill="filter")
    assert (case.seconds, case.victim) == (12.0, "Selection")


def test_windows_close_before_the_kill():
    """Of windows behind windows too: else nothing would be known of how it was before."""
    for scale in ("small", "demo", "paper"):
        for case in cases(scale, host="spark" if scale == "demo" else "simulated"):
            told = case.of.speaks_after.get(case.windows, 0.0)
            assert case.killed_at * case.compressed * case.hurried >= 2 * told, case
    [case] = cases("small", workloads=["nexmark-6"], protocols=["coordinated"], rate=300.0)
    result = measured(observed(case))
    assert result.throughput > 0
    assert result.first_output is not None
    assert result.exact


def test_repetitions_are_shown_as_one():
    results = [replace(measured(seen([SinkOutput(10.0, n, 0.1 * n)])), lost=n) for n in (1, 3)]
    found = averaged(results)
    assert found.latency_mean == pytest.approx(200)
    assert found.lost == 3
    assert found.first_output is None
    assert averaged(results[:1]) == results[0]


def told(**measures):
    """Results of nexmark-2 under protocols, each with its 99th percentile in ms, time of first output and losses."""
    found = {}
    for name, (p99, first, lost) in measures.items():
        [case] = cases("small", protocols=[name], **SHORT)
        result = measured(seen([SinkOutput(1.0, 3, 0.5)], killed_at=2.0))
        found[case] = replace(result, throughput=1.0, latency_p99=p99, first_output=first, lost=lost)
    return advice(found)


def test_advice_says_what_to_take():
    alike = told(coordinated=(20.0, 0.70, 0), unaligned=(21.0, 0.71, 0), repeat=(30.0, 0.70, 0))
    assert alike[0].startswith("For a line of operators (nexmark-2) take coordinated (p99 20 ms, new output after 0.70")
    assert "or unaligned, which are equally good; repeat: p99 30 ms" in alike[0]
    apart = told(coordinated=(20.0, 2.0, 0), repeat=(30.0, 0.5, 0), uncoordinated=(1.0, 0.1, 7))
    assert "take coordinated where latency counts" in apart[0]
    assert "and repeat where failures do" in apart[0]
    assert apart[1] == (
        "Output rows that are missing, wrong or repeated: uncoordinated 7; none under coordinated, repeat."
    )
    assert told(coordinated=(20.0, 2.0, 0)) == []


def test_in_a_cycle_nobody_is_advised_to_fall_back_to_the_start():
    found = {}
    for name, p99 in (("uncoordinated", 10.0), ("induced", 20.0), ("hybrid", 40.0)):
        [case] = cases("small", workloads=["nhop"], protocols=[name], rate=300.0)
        result = measured(seen([SinkOutput(1.0, 3, 0.5)], killed_at=2.0))
        found[case] = replace(result, throughput=1.0, latency_p99=p99, first_output=1.0)
    fallen = falls(["uncoordinated", "induced"], ["1s"])
    assert "take uncoordinated" in advice(found)[0]
    assert advice(found, fallen)[0].startswith("For a cycle (nhop) take induced (p99 20 ms")


def test_what_volatile_logs_lose_is_lost_and_nothing_comes_twice():
    [case] = cases("small", protocols=["uncoordinated"], log="volatile", **SHORT)
    result = measured(observed(case))
    assert 0 < result.lost <= result.messages  # what a sink had shown before stays
    assert (result.repeated, result.altered) == (0, 0)


def test_a_lost_row_alters_the_totals_behind_it_and_is_lost_once():
    """Count dies; the rows that only it had are those that the sink misses. Totals of their words stay wrong."""
    short = {"rate": 20.0, "seconds": 18.0, "intervals": ("4s",)}
    [case] = cases("small", workloads=["wordcount"], protocols=["uncoordinated"], log="volatile", **short)
    result = measured(observed(case))
    assert 0 < result.lost == result.messages
    assert result.altered > result.lost
    assert result.repeated == 0


def test_the_oracle_tells_lost_altered_and_repeated_rows_apart():
    wanted = {"Sink": sink((1, "a"), (1, "b"), (2, "a"), (2, "a"), (3, "c"), coded=True)}
    found = {"Sink": sink((3, "c"), (3, "c"), (1, "x"), (1, "a"), (2, "a"))}
    assert judged(wanted, found) == RowVerdict(lost=1, repeated=1, altered=1)
    assert judged(wanted, wanted) == RowVerdict()
    assert judged(wanted, {"Sink": rows([])}) == RowVerdict(lost=5)
    assert judged({"Sink": rows([])}, wanted) == RowVerdict(repeated=5)


def sink(*pairs, coded=False):
    """Rows of a sink: a time and a text each; `coded`: as codes of a dictionary."""
    times, texts = zip(*pairs, strict=True)
    words, ts = pa.array(texts), pa.array(times, pa.timestamp("us", "UTC"))
    columns = {"word": words.dictionary_encode() if coded else words, "_ts": ts, "_seq": pa.array(range(len(pairs)))}
    return rows([pa.record_batch(columns)])


def test_processes_change_nothing_but_the_time():
    """Two processes give the results of one, in the same order, and end with who asked, or when it gives up."""
    asked = cases("small", protocols=["coordinated", "repeat", "none"], **SHORT)
    found = results_of(asked, 2)
    assert [next(found), next(found)] == list(results_of(asked[:2], 1))
    assert len([child for child in children() if b"riprap_papers.compare.case_processes" in child]) == 2
    found.close()
    assert not [child for child in children() if b"riprap_papers.compare.case_processes" in child]


def children():
    """Command lines of the processes that this one has started."""
    for status in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if int(status.read_text().rpartition(")")[2].split()[1]) == os.getpid():
                yield (status.parent / "cmdline").read_bytes()


def test_with_virtual_checkpoints_fewer_go_back():
    asked = [*cases("small", protocols=["uncoordinated"], **SHORT)]
    asked += cases("small", protocols=["uncoordinated"], virtual=True, **SHORT)
    plain, virtual = (measured(observed(case)) for case in asked)
    assert virtual.exact
    assert virtual.gone_back < plain.gone_back  # the source, at least, stays as it is
    assert asked[1].label == "uncoordinated @ 700ms, virtual checkpoints"


def test_in_a_cycle_uncoordinated_falls_back_to_the_start_and_induced_does_not():
    found = falls(["uncoordinated", "induced", "coordinated"], ["1s"])
    domino, *forcing = found.values()
    assert [(falling.scope, falling.rule) for falling in found] == [
        (None, None), ("cycles", "hmnr"), ("all", "hmnr"), ("cycles", "bcs"), ("all", "bcs"),
    ]  # fmt: skip
    assert domino.rollback == pytest.approx(12.0)
    assert domino.to_the_start >= 12  # all that are in the cycle
    assert domino.forced == 0
    for one in forcing:
        assert one.rollback < 4.0
        assert one.to_the_start == 0
        assert one.forced > 0
    both = falls(iter(["uncoordinated"]), iter(["1s", "1500ms"]))
    assert [falling.interval for falling in both] == ["1s", "1500ms"]
    assert both[Falling("uncoordinated", "1s")] == domino


def test_skewed_cases_stand_beside_even_ones(tmp_path):
    found = cases("small", protocols=["coordinated", "repeat"], skew=1.5, **SHORT)
    assert [(case.protocol, case.skew) for case in found] == [
        ("coordinated", None), ("coordinated", 1.5), ("repeat", None), ("repeat", 1.5),
    ]  # fmt: skip
    assert {case.shards for case in found} == {8}
    results = {
        case: replace(measured(seen([SinkOutput(10.0, 3, 0.1 * (case.skew or 1))])), rate=100.0) for case in found
    }
    assert [round(pair.slower, 2) for pair in pairs(results)] == [1.5, 1.5]
    page = comparison_report(results, host="somewhere")
    assert "Under skewed keys" in page
    assert "coordinated 150 ms (× 1.50)" in page


def test_costs_are_those_of_a_profile(tmp_path):
    path = tmp_path / "profile.toml"
    rows = "".join(f"[operators.{name}]\nseconds_per_tuple = {cost}\n" for name, cost in PROFILED.items())
    path.write_text(f'app = "nexmark-2"\n{rows}[recovery]\nrestart = 2.0\nrestart_median = 1.5\ndurable = 0.05\n')
    [case] = cases("small", protocols=["coordinated"], **SHORT)
    assert costs_of(case).restart == 650_000
    case = replace(case, costs=profiles([path])["nexmark-2"])
    found = costs_of(case)
    assert (found.restart, found.restore, found.sync) == (1_500_000, 0, 50_000)
    layout = laid_out(case)
    assert [found.of(layout.graph, pe) for pe in layout.pes] == [pytest.approx(c * 1e6) for c in PROFILED.values()]
    assert said([case]).startswith("The costs of rows are from profiles of nexmark-2, those of restarts")
    assert measured(observed(case)).first_output > 1.4
    assert ComparedCase(**json.loads(json.dumps(vars(case)))) == case
    for text, words in [('app = "vwap"', "is not a workload"), ('app = "nexmark-2"', "is not a profile that")]:
        path.write_text(text)
        with pytest.raises(RiprapError, match=words):
            profiles([path])


def test_the_command_writes_a_page_and_goes_on(tmp_path, capsys, monkeypatch):
    out = tmp_path / "out"
    arguments = ["nexmark-2", "--for", "4s", "--rate", "300", "--interval", "700ms", "--out", str(out)]

    def command(*more):
        monkeypatch.setattr(sys, "argv", ["riprap", "compare", *arguments, *more])
        with contextlib.suppress(SystemExit):
            riprap()
        return capsys.readouterr().out

    told = command("--protocols", "coordinated,repeat")
    assert max(map(len, told.splitlines()[:4])) <= 80
    assert "nexmark-2, checkpoints every 700ms" in told
    assert told.splitlines()[3].startswith("repeat ")
    page = (out / "comparison.html").read_text()
    assert "published" not in page.split("How it was measured")[0].split("<table>")[1]  # of 700 ms nothing was
    assert "lost and repeated nothing" in page
    lines = (out / "results.jsonl").read_text().splitlines()
    again = json.loads(command("--protocols", "coordinated,repeat,none", "--json"))
    assert (out / "results.jsonl").read_text().splitlines()[:2] == lines
    assert [entry["protocol"] for entry in again] == ["coordinated", "repeat", "none"]
    assert again[2]["lost"] > 0


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"workloads": ["nexmark-4"]}, "workload nexmark-4 is unknown"),
        ({"protocols": ["coördinated"]}, "unknown protocol coördinated"),
        ({"protocols": ["partial"]}, "compare with none"),
        ({"interval": "0s"}, "need a time between them"),
        ({"interval": "9s", "seconds": 12.0}, "give --for 18s or more"),
        ({"interval": "1h"}, "give --for 7200s or more"),
        ({"windows": "huge"}, "expected large or small"),
        ({"workloads": ["nexmark-3"], "kill": "Fund"}, "did you mean Found?"),
        ({"protocols": ["coordinated"], "log": "volatile"}, "neither is compared"),
        ({"sinks": "lazy"}, "expected eager or committed"),
        ({"protocols": ["induced"], "log": "volatile", "sinks": "committed"}, "loses rows"),
        ({"protocols": ["coordinated"], "virtual": True}, "neither is compared"),
        ({"protocols": ["induced"], "log": "volatile", "virtual": True}, "would be lost: use `log=persistent`"),
        ({"protocols": ["structured-streaming"]}, "runs only there"),
        ({"workloads": ["nhop"], "protocols": ["structured-streaming"], "host": "spark"}, "nhop has a cycle"),
        ({"skew": 11.0}, "expected the exponent of Zipf's law"),
        ({"seconds": 0.0}, "give the length of the input"),
        ({"rate": 1e15}, "lower --rate or --for"),
        ({"protocols": ["none"], "sinks": "committed"}, "none is compared"),
        ({"master": "local[2]"}, "not for the simulated host"),
        ({"load": 1.5}, "expected a share of the maximum rate"),
        ({"load": 0.5, "rate": 100.0}, "leave one out"),
        ({"load": 0.5, "host": "spark"}, "give --rate on Spark"),
        ({"profile": ["nothing.toml"]}, "nothing.toml"),
        ({"scope": "none", "protocols": ["induced"]}, "expected cycles or all"),
        ({"rule": "fdas"}, "expected hmnr or bcs"),
        ({"rule": "bcs", "protocols": ["repeat"]}, "--induced-rule is for induced, which is not compared"),
        ({"scope": "all", "protocols": ["repeat"]}, "--induced-scope is for induced, which is not compared"),
        ({"log": "none", "protocols": ["coordinated"]}, "expected persistent or volatile"),
        ({"host": "flink"}, "expected simulated or spark"),
        ({"scale": "huge"}, "expected one of small, demo, paper"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_runs(wrong, words, tmp_path):
    with pytest.raises(RiprapError) as caught:
        compare(**wrong, out=tmp_path / "out", tell=lambda *_: pytest.fail("something ran"))
    assert words in str(caught.value)
    assert caught.value.exit_code == 2


def test_a_load_is_a_share_of_the_largest_rate(monkeypatch):
    monkeypatch.setattr("riprap_papers.compare.maximum._STEPS", 2)
    [case] = cases(
        "small", workloads=["nexmark-2"], protocols=["none"], load=0.5, failure=False, seconds=2.0, intervals=("700ms",)
    )
    [result] = results_of([case], 1)
    assert result.rate == pytest.approx(0.5 * maximum(case))
    assert result.lost == 0


def test_the_largest_rate_is_one_that_the_costs_allow(monkeypatch):
    monkeypatch.setattr("riprap_papers.compare.maximum._STEPS", 2)
    (rate,) = find_maximum("nexmark-2", protocols=["none"], interval="1s", seconds=3.0).values()
    assert 1e5 < rate < 1e8  # a row costs 0.05 µs in each element, a message 150 µs
