"""Campaigns on Spark: the whole way, going on after an interruption, and what a user can get wrong."""

import json
import pickle
import shutil
from pathlib import Path

import pytest

from riprap.api.assess import run_request
from riprap.api.request import AssessRequest, settings_of
from riprap.apps import bargain_discovery, market, market_files
from riprap.base.errors import DataError, UsageError
from riprap.faults import work
from riprap.faults.campaign_settings import units
from riprap.faults.trials import rerun
from riprap.spark import campaign_job as on_spark

GRAPH = bargain_discovery.build()


@pytest.fixture(scope="module", autouse=True)
def _several_waves():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(on_spark, "_PER_SLOT", 3)
        yield


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    path = tmp_path_factory.mktemp("market") / "market.arrow"
    market_files.write(market.generate(60_000, 2), path)
    return {"Source": path}


def request(inputs, **options):
    asked = {
        "outages": ["0.5s", "2s"],
        "offsets": [20_000, 40_000],
        "reps": 2,
        "golden": 6,
        "reassess": False,
        "state": "kept",
    } | options
    return AssessRequest(GRAPH, inputs, **asked)


@pytest.fixture(scope="module")
def assessment(inputs, spark, tmp_path_factory):
    out = tmp_path_factory.mktemp("out") / "assessment"
    return run_request(request(inputs), out, spark=spark)


def test_counts_and_json(assessment):
    found = assessment.to_json()
    json.dumps(found, allow_nan=False)
    assert set(found) == {"operators", "campaign", "order", "report"}
    for order in found["order"]["Sink"].values():
        assert {place["target"] for place in order["places"]} == set(found["operators"])
    assert found["campaign"]["trials"] == 5 * 2 * 4 * 2
    assert assessment.result.golden.num_rows == 6
    for metrics in found["operators"].values():
        assert set(metrics) == {"C", "D", "R", "I", "verdict", "route"}
        assert metrics["D"][1] in ("A", "R")


def test_quote_filter_only_silences(assessment):
    metrics = assessment.to_json()["operators"]["QuoteFilter"]
    assert metrics["C"] == pytest.approx(-1.0)
    assert metrics["D"] == [0.0, "A"]
    assert metrics["verdict"] == "restart"


def test_frames(assessment):
    assert assessment.operators.count() == 5
    assert assessment.trials.count() == 80
    assert assessment.golden.count() == 6
    assert "<svg" in assessment._repr_html_()


def test_trials_on_spark_are_those_of_a_whole_re_run(assessment, inputs):
    settings = settings_of(GRAPH, request(inputs))
    path = assessment.result.path
    job = work.CampaignJob(GRAPH, settings, path / "shared", path / "recorded")
    target, offset = next(iter(units(settings)))
    longest = job.outages(target, offset)[-1]
    fault = longest.fault(GRAPH, job.recording, settings)
    slow = rerun(job.contexts[1], settings.targets[target].operators, fault)["Sink"]
    row = next(
        row
        for row in assessment.result.trials.to_pylist()
        if (row["target"], row["offset"], row["rep"], row["tuples"]) == ("Source", 20_000, 1, longest.tuples)
    )
    assert (row["missing"], row["extra"]) == (len(slow.removed), slow.added.size)


def test_an_interrupted_campaign_goes_on(inputs, spark, tmp_path, assessment):
    out = tmp_path / "again"
    shutil.copytree(assessment.result.path.parent, out)
    for wave in ("golden", "trials-001"):
        shutil.rmtree(out / "campaign" / "waves" / wave)
    (out / "campaign" / "waves" / "trials-001").mkdir()  # as a job leaves it that was killed
    settings = settings_of(GRAPH, request(inputs))
    again = on_spark.run_campaign(GRAPH, settings, inputs, out / "campaign", spark=spark)
    assert again.resumed == again.waves - 2
    assert again.trials.sort_by([("target", "ascending")]).num_rows == assessment.result.trials.num_rows
    assert again.trials.to_pylist() == assessment.result.trials.to_pylist()
    assert sorted(map(repr, again.golden.to_pylist())) == sorted(map(repr, assessment.result.golden.to_pylist()))


def test_what_is_damaged_or_planted_is_made_again_and_runs_nothing(inputs, spark, tmp_path, assessment):
    """Every file below the campaign is replaced by a pickle that would make a file, and so are those of old names."""
    out, ran = tmp_path / "again", tmp_path / "ran"
    shutil.copytree(assessment.result.path.parent, out)
    evil = pickle.dumps(Evil(ran))
    planted = [path for path in out.rglob("*") if path.is_file() and path.name != "campaign.json"]
    planted += [
        out / "campaign" / "shared" / name for name in ("outputs.pickle", "golden-0/run.pickle", "profile.json")
    ]
    for path in planted:
        path.write_bytes(evil)
    settings = settings_of(GRAPH, request(inputs))
    again = on_spark.run_campaign(GRAPH, settings, inputs, out / "campaign", spark=spark)
    assert again.resumed == 0
    assert again.trials.to_pylist() == assessment.result.trials.to_pylist()
    assert not ran.exists()


class Evil:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


@pytest.mark.parametrize("text", ["", "[]", "null", "{}", "[" * 100_000, '{"identity": 3}', "\xff"])
def test_a_campaign_that_cannot_be_read_is_a_different_one(inputs, spark, tmp_path, text):
    (tmp_path / "campaign.json").write_text(text, encoding="latin-1")
    with pytest.raises(UsageError, match="holds a different campaign"):
        on_spark.run_campaign(GRAPH, settings_of(GRAPH, request(inputs)), inputs, tmp_path, spark=spark)


def test_data_that_was_made_again_is_other_data(inputs, spark, tmp_path, assessment):
    """Of the same name and size."""
    other = tmp_path / "market.arrow"
    shutil.copy(inputs["Source"], other)
    with other.open("r+b") as file:
        file.seek(other.stat().st_size // 2)
        byte = file.read(1)
        file.seek(-1, 1)
        file.write(bytes([byte[0] ^ 1]))
    with pytest.raises(UsageError, match=r"holds a campaign over other data: .*market.arrow \(Source\) has changed"):
        run_request(request({"Source": other}), assessment.result.path.parent, spark=spark)


def test_another_campaign_is_not_mixed_in(inputs, spark, assessment):
    with pytest.raises(UsageError, match="holds a different campaign"):
        run_request(request(inputs, reps=1), assessment.result.path.parent, spark=spark)


def test_a_plan_brings_before_and_after(inputs, spark, tmp_path):
    plan = tmp_path / "plan.toml"
    plan.write_text(
        'app = "bargain-discovery"\n'
        + "".join(f'[operators.{n}]\nha_group = "g"\n' for n in ("TradeFilter", "Aggregator", "VWAP"))
        + '[operators.BargainIndex]\ncheckpoint = "1s"\n[ha_groups.g]\nreplicas = 2\n'
    )
    asked = request(inputs, targets="TradeFilter,BargainIndex", plan=plan, failover="0.5s", golden=2)
    found = run_request(asked, tmp_path / "out", spark=spark)
    assert set(found.protected) == {"TradeFilter", "Aggregator", "VWAP", "BargainIndex"}
    before = {s.target: s.paired.I for s in found.summaries}
    assert before["TradeFilter"] > found.protected["TradeFilter"].paired.I
    assert found.protected["TradeFilter"].decisive.duration == 500_000
    text = found.report.read_text()
    shown = text[text.index("Before and after") :]
    for name in ("TradeFilter", "Aggregator", "BargainIndex"):
        assert name in shown
    assert "HA group g" in shown
    assert "checkpoint every 1s" in shown


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"osf": ["sum(gian)"]}, "does not fit sink Sink.*gian"),
        ({"osf": ["median(gain)"]}, "median"),
        ({"offsets": [60_000]}, "offset 60,000 is beyond the stream, which has 60,000 tuples"),
        ({"outages": ["10m"]}, "an outage of 10m at .* rate costs"),
        ({"fault": "explode"}, "fault model explode is unknown"),
        ({"fault": "duplicate", "state": "lost"}, "leave `state` out"),
        ({"golden": 1}, "`golden=1` is less than `reps=2`"),
        ({"rates": ["median"]}, "rate median is unknown"),
    ],
)
def test_what_cannot_be_gets_a_sentence(inputs, spark, tmp_path, options, words):
    with pytest.raises(UsageError, match=words):
        run_request(request(inputs, **options), tmp_path / "out", spark=spark)


def test_bad_input_files(spark, tmp_path):
    broken = tmp_path / "broken.parquet"
    broken.write_text("nothing of the kind")
    with pytest.raises(DataError, match="cannot read"):
        run_request(request({"Source": broken}), tmp_path / "out", spark=spark)
    other = tmp_path / "other.arrow"
    market_files.write(market.generate(1_000, 1).drop_columns(["price"]), other)
    with pytest.raises(DataError, match="has no column price"):
        run_request(request({"Source": other}, offsets=[100]), tmp_path / "out2", spark=spark)
