"""The comparison of protocols: its grid, its measures, the simulated host with costs, the page."""

import contextlib
import json
import sys
from dataclasses import replace

import pytest

from riprap.api.compare import compare, find_maximum
from riprap.base.errors import UsageError
from riprap.cli.main import main as riprap
from riprap.compare.grid import cases
from riprap.compare.measures import STEP, Observation, Output, Result, measured
from riprap.compare.simulated_host import observed

SHORT = {"workloads": ["nexmark-2"], "rate": 300.0, "seconds": 4.0, "intervals": ("700ms",)}


def seen(outputs, killed_at=None, **more):
    numbers = dict.fromkeys(("checkpoints", "forced", "bytes", "gone_back", "lost", "repeated", "tuples"), 0)
    times = dict.fromkeys(("detect", "restart", "restore", "take_ms", "rollback"), 0.0)
    return Observation(outputs=outputs, seconds=30.0, killed_at=killed_at, **{**numbers, **times, **more})


def test_the_published_grid_has_116_configurations():
    found = cases("paper")
    assert len(found) == 3 * 116
    assert len({case.key for case in found}) == len(found)
    assert not any(case.workload == "nhop" and case.protocol == "coordinated" for case in found)


def test_recovery_is_over_when_the_latency_is_back_and_stays():
    calm = [Output(at / 10, 10, 0.1) for at in range(100)]  # 10 s
    late = [Output(12 + at / 10, 10, 2.0 - at * 0.05) for at in range(20)]
    luck = [Output(14.0, 10, 0.1), Output(14.31, 10, 1.0)]  # one step within the bound is none
    after = [Output(15 + at / 10, 10, 0.105) for at in range(100)]
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
    swinging = [Output(at / 10, 10, 0.1 if at % 10 < 8 else 1.0) for at in range(100)]
    after = [Output(12 + at / 10, 10, 0.1 if at % 10 < 8 else 1.0) for at in range(100)]
    result = measured(seen([*swinging, *after], killed_at=10.0))
    assert result.recovery_adaptive == pytest.approx(2.0, abs=2 * STEP)


def test_a_result_survives_its_file():
    result = measured(seen([Output(1.0, 3, 0.5)], killed_at=2.0))
    assert Result.from_json(json.loads(json.dumps(result.as_json()))) == result


@pytest.mark.parametrize("protocol", ["coordinated", "unaligned", "hybrid", "uncoordinated", "induced", "repeat"])
def test_a_simulated_case_is_exact_and_repeats_itself(protocol):
    [case] = cases("small", protocols=[protocol], **SHORT)
    first, again = measured(observed(case)), measured(observed(case))
    assert first == again
    assert (first.lost, first.repeated) == (0, 0)
    assert first.checkpoints > 3
    assert first.first_output > 0.6  # a restart takes 0.65 s
    assert 0 < first.rollback < 4.0
    assert (first.gone_back == 0) == (protocol == "repeat")
    calm = measured(observed(replace(case, failure=False)))
    assert calm.rollback is None
    assert calm.throughput == pytest.approx(230, rel=0.3)  # about half of the bids, and the hot auction is an even one


def test_what_volatile_logs_lose_is_lost_and_nothing_comes_twice():
    [case] = cases("small", protocols=["uncoordinated"], log="volatile", **SHORT)
    result = measured(observed(case))
    assert result.lost > 0
    assert result.repeated == 0


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
        ({"protocols": ["coördinated"]}, "no protocol is called coördinated"),
        ({"protocols": ["partial"]}, "compare with none"),
        ({"interval": "0s"}, "need a time between them"),
        ({"interval": "9s"}, "give --for 18s or more"),
        ({"windows": "huge"}, "expected large or small"),
        ({"workloads": ["nexmark-3"], "kill": "Fund"}, "did you mean Found?"),
        ({"protocols": ["coordinated"], "log": "volatile"}, "neither is compared"),
        ({"sinks": "lazy"}, "expected eager or committed"),
        ({"protocols": ["induced"], "log": "volatile", "sinks": "committed"}, "rows are lost"),
        ({"scope": "none", "protocols": ["induced"]}, "expected cycles or all"),
        ({"scale": "paper", "host": "spark"}, "use --scale demo"),
        ({"host": "flink"}, "expected simulated or spark"),
        ({"scale": "huge"}, "expected one of small, demo, paper"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_runs(wrong, words, tmp_path):
    with pytest.raises(UsageError) as caught:
        compare(**wrong, out=tmp_path / "out", tell=lambda *_: pytest.fail("something ran"))
    assert words in str(caught.value)
    assert caught.value.exit_code == 2


def test_the_largest_rate_is_one_that_the_costs_allow(monkeypatch):
    monkeypatch.setattr("riprap.api.compare._STEPS", 2)
    (rate,) = find_maximum("nexmark-2", protocols=["none"], interval="1s", seconds=3.0).values()
    assert 1e5 < rate < 1e8  # a row costs 0.05 µs in each element, a message 150 µs
