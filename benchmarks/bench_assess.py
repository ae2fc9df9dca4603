"""The campaign at paper scale, against as many passes of the hand-fused loop; and what a trial costs on longer streams.

1,500 injections and 300 golden runs over 5 million tuples, Spark started before, from a file on disk to the tables of
results: the recording of the stream and everything that trials share is counted. The fused loop runs on as many
threads as there are slots (it releases the interpreter lock), a number of passes that is then multiplied up to 1,800.
"""

import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks import bargain_peers as peers
from benchmarks.harness import Result, at_most, reported, seconds
from riprap.api.request import AssessRequest, settings_of
from riprap.apps import market, market_files
from riprap.apps.catalogue import load_app
from riprap.engine.inputs import read_file
from riprap.faults.campaign_settings import CampaignSettings, Target
from riprap.faults.divided import dividing_columns
from riprap.faults.golden import golden_run
from riprap.faults.models import Fault
from riprap.faults.recording import load, record
from riprap.faults.scoring import parse_score
from riprap.faults.trial_outputs import sink_reader
from riprap.faults.trials import Bench, replay
from riprap.spark.bounded import task_slots
from riprap.spark.campaign_job import run_campaign
from riprap.spark.session import session

TUPLES = 5_000_000
RUNS = 1_800  # injections and golden runs
PASSES = 40  # of the fused loop that are timed
LENGTHS = (1_000_000, 5_000_000, 20_000_000)


def run() -> Iterator[Result]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "market.arrow"
        table = market.generate(TUPLES, market.DEFAULT_SEED)
        market_files.write(table, path)
        yield from _paper_scale(table, path, Path(folder))
        del table
        yield from _longer_streams(Path(folder))


def _paper_scale(table: object, path: Path, folder: Path) -> Iterator[Result]:
    graph = load_app("bargain-discovery")
    spark = session()
    spark.range(0, 4, 1, 4).mapInArrow(lambda batches: batches, "id bigint").count()
    settings = settings_of(graph, AssessRequest(graph, {"Source": path}, "paper", state="kept"))
    result = run_campaign(graph, settings, {"Source": path}, folder / "campaign", spark=spark)
    coded, slots = peers.coded(table), task_slots(spark)
    peers.fused_loop(coded)
    with ThreadPoolExecutor(slots) as pool:
        fused = seconds(lambda: list(pool.map(lambda _: peers.fused_loop(coded), range(PASSES))))
    fused *= RUNS / PASSES
    how = f"1,500 injections, 300 golden runs, 5 M tuples, {slots} slots, Spark started before"
    yield at_most("assess.paper-scale", result.seconds, 60, how, "s")
    yield at_most("assess.against-fused-loop", result.seconds / fused, 0.8, f"{how}; 1,800 fused passes: {fused:.0f} s")


def _longer_streams(folder: Path) -> Iterator[Result]:
    graph = load_app("bargain-discovery")
    settings = CampaignSettings((Target(("TradeFilter",)),), (500_000,), {"Sink": "sum(gain)"})
    for tuples in LENGTHS:
        file = folder / f"market-{tuples}.arrow"
        market_files.write(market.generate(tuples, market.DEFAULT_SEED), file)
        record(graph, {"Source": read_file(file)}, dividing_columns(graph), folder / f"recorded-{tuples}")
        file.unlink()
        recording = load(graph, folder / f"recorded-{tuples}")
        score = parse_score("sum(gain)", graph.input_schemas("Sink")[0], "Sink")
        readers = [sink_reader(graph, "Sink", score, recording)]
        jitter = settings.jitter(0)
        golden = golden_run(graph, recording, readers, jitter, settings.offsets, divided=True)
        bench = Bench(graph, recording, readers, jitter, golden, True)
        start = recording.key_at(500_000)
        fault = Fault("loss", start, recording.key_at(508_800), start)
        replay(bench, ["TradeFilter"], fault)
        taken = min(seconds(lambda b=bench, f=fault: replay(b, ["TradeFilter"], f)) for _ in range(5))
        yield reported(
            f"assess.trial-{tuples // 1_000_000}M", taken * 1000, "ms", "8,800 tuples lost at TradeFilter; best of 5"
        )
