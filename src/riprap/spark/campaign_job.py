"""Campaigns on Spark: the work of `riprap.faults.work`, mapped over a cluster in waves.

A wave is one job of a few tasks per slot (a task alone costs 35 to 60 ms); its rows are committed as Parquet before
the next one starts. An interrupted campaign continues after the last committed wave, which is sealed
(`riprap.faults.sealed`). DataFrame API only, so it also runs over Connect. Driver and executors must see the same
files.

Everything except `campaign.json` follows from the inputs: damaged files are detected and computed again.

    DIR/campaign.json      the identity: a hash of app and settings, digests of the inputs, settings in words
    DIR/recorded/          the recorded stream
    DIR/shared/            golden runs and profiles, mapped by all tasks (`riprap.faults.store`)
    DIR/waves/NAME/        Parquet: profile, prepare, trials-000 …, golden
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from riprap.base import files
from riprap.base.clock import SYSTEM_CLOCK, Clock
from riprap.base.errors import UsageError
from riprap.base.owner import OWNER, is_empty, owned
from riprap.engine.compiling import ROWS
from riprap.engine.identity import content_digest
from riprap.engine.inputs import file_schema, read_file
from riprap.faults import store, work
from riprap.faults.campaign_settings import CampaignSettings, assessable, check_settings, units
from riprap.faults.divided import dividing_columns
from riprap.faults.gated import golden_engine
from riprap.faults.recording import load, record
from riprap.faults.score_functions import ScoreFunction
from riprap.faults.scored_parts import TRIALS
from riprap.faults.sealed import seal, sound
from riprap.graph.graph import Graph
from riprap.spark.bounded import keep_loaded, task_slots
from riprap.spark.job_progress import with_progress
from riprap.spark.modules import for_worker
from riprap.spark.session import session

Tell = Callable[[str, int, int], None]  # the wave, tasks done, tasks in total
Warn = Callable[[str], None]
Route = Literal["compiled", "spark"]  # by our engine; by faults in Spark's own plan
_PER_SLOT = 8  # tasks of a wave per slot, so that a long one does not leave the other slots idle
_WAVES = "waves"
_PREPARED = pa.schema([("what", pa.string())])


@dataclass(frozen=True)
class CampaignResult:
    """The tables of a campaign, and how they were obtained."""

    settings: CampaignSettings  # with the targets that were assessed
    unassessable: Mapping[str, str]  # targets that no fault can be injected into, and why
    trials: pa.Table  # scored_parts.TRIALS
    golden: pa.Table  # work.GOLDEN
    tuples: int  # of the recorded stream
    path: Path
    resumed: int  # waves that were complete before
    waves: int
    seconds: float  # in this call
    divided: bool  # whether trials ran key by key
    route: Route = "compiled"  # how the trials ran
    resources: Mapping[str, Mapping[str, float]] | None = None  # by operator, if no profile can tell


def run_campaign(
    graph: Graph,
    settings: CampaignSettings,
    inputs: Mapping[str, Path],
    path: Path,
    *,
    functions: Mapping[str, ScoreFunction] | None = None,
    recorded: Path | None = None,
    spark: SparkSession | None = None,
    tell: Tell | None = None,
    warn: Warn | None = None,
    clock: Clock = SYSTEM_CLOCK,
) -> CampaignResult:
    """Run a campaign, or the rest of it. `recorded`: an existing recording of the same input. `functions`: the user's
    own score functions, by sink, which the texts of the settings describe.

    One run of the app finds the targets that no fault can be injected into; they are reported with `warn` before
    anything else is done, and left out.
    """
    begun = clock.monotonic()
    path = files.real(path)
    for file in inputs.values():
        file_schema(file)  # report a missing or invalid file before anything is written
    with owned(path, "campaign"):
        new = is_empty(path)
        try:
            return _run(
                graph, settings, inputs, path, functions or {}, recorded, session(spark), tell, warn, clock, begun
            )
        except UsageError:
            if new and not files.exists(path / _WAVES / "prepare"):  # refused: nothing here may block the next attempt
                for name in set(files.names(path)) - {OWNER}:
                    files.remove_tree(path / name)
            raise


def _run(
    graph: Graph, settings: CampaignSettings, inputs: Mapping[str, Path], path: Path, functions: Mapping[str,
    ScoreFunction],
    recorded: Path | None, spark: SparkSession, tell: Tell | None, warn: Warn | None, clock: Clock, begun: float,
) -> CampaignResult:  # fmt: skip
    identity = claim(path, graph, settings, inputs)
    recorded = recorded or path / "recorded"
    if not sound(recorded):
        record(graph, {name: read_file(file) for name, file in inputs.items()}, dividing_columns(graph), recorded)
    recording = load(graph, recorded)
    check_settings(settings, recording.tuples)
    files.make(path / "shared")
    if recording.tuples > ROWS:  # so that tasks need not compile it
        golden_engine(graph, settings.jitter(0)).compile_first()
    requested = work.CampaignJob(graph, settings, path / "shared", recorded, identity, functions)
    campaign = _Campaign(spark, path / _WAVES, tell)
    campaign.profile(requested)
    chosen, unassessable = assessable(graph, recording, settings, requested.profiles)
    for name, reason in unassessable.items():
        if warn is not None:
            warn(f"{name} cannot be assessed: {reason}")
    job = replace(requested, settings=chosen, identity=f"{identity} without {sorted(unassessable)}")
    trials, golden = campaign.run(job)
    return CampaignResult(
        chosen,
        unassessable,
        trials,
        golden,
        recording.tuples,
        path,
        campaign.resumed,
        campaign.waves,
        clock.monotonic() - begun,
        job.divided,
    )


def trials_frame(result: CampaignResult, spark: SparkSession | None = None) -> DataFrame:
    """All trials as a DataFrame, without the columns that only the summary needs."""
    frame = session(spark).read.parquet(*map(str, sorted((result.path / _WAVES).glob("trials-*"))))
    return frame.drop("affected")


def golden_frame(result: CampaignResult, spark: SparkSession | None = None) -> DataFrame:
    return session(spark).read.parquet(str(result.path / _WAVES / "golden"))


def rows_frame(rows: pa.Table, spark: SparkSession | None = None) -> DataFrame:
    """A small table as a DataFrame."""
    return session(spark).createDataFrame(rows.to_pylist(), from_arrow_schema(rows.schema))


# The identity of a directory ------------------------------------------------------------------------------------------


def claim(path: Path, graph: Graph, settings: CampaignSettings, inputs: Mapping[str, Path]) -> str:
    """Claim the directory for this campaign, or check that it belongs to it. Different campaigns differ in text."""
    described = {"app": graph.name, "settings": json.loads(json.dumps(asdict(settings), default=str))}
    text = graph.fingerprint + json.dumps(described, sort_keys=True)
    identity = blake2b(text.encode(), digest_size=16).hexdigest()
    digests = {name: content_digest(file) for name, file in inputs.items()}
    about = path / "campaign.json"
    if files.exists(about):
        try:
            known = json.loads(files.read_text(about))
        except (OSError, ValueError, RecursionError):
            known = None
        if not isinstance(known, dict) or known.get("identity") != identity:
            raise UsageError(
                f"{path} holds a different campaign: give another directory with `out`, or remove this one"
            )
        before = known.get("inputs")
        if before != digests:
            before = before if isinstance(before, dict) else {}
            changed = [f"{inputs[name]} ({name})" for name in digests if before.get(name) != digests[name]]
            raise UsageError(
                f"{path} holds a campaign over other data: {', '.join(changed) or 'its input'} has changed since; "
                "give another directory with `out`, or remove this one"
            )
        return f"{identity} {digests}"
    if not is_empty(path):
        raise UsageError(f"{path} is not empty and holds no campaign: give an empty or a new directory with `out`")
    work_file = about.with_suffix(".part")
    files.write_text(work_file, json.dumps({"identity": identity, "inputs": digests, **described}, indent=2))
    files.rename(work_file, about)
    return f"{identity} {digests}"


# Waves ----------------------------------------------------------------------------------------------------------------


class _Campaign:
    def __init__(self, spark: SparkSession, path: Path, tell: Tell | None) -> None:
        self.spark, self.path, self.tell = spark, path, tell
        self.slots = task_slots(spark)
        self.resumed = self.waves = self.done = 0
        self.total = 1

    def profile(self, job: work.CampaignJob) -> None:
        if not store.profiled(job.path):
            files.remove_tree(self.path / "profile")
        self._wave("profile", partial_task(_profile, replace(job), None), 1, _PREPARED)

    def run(self, job: work.CampaignJob) -> tuple[pa.Table, pa.Table]:
        settings, shipped = job.settings, replace(job)  # without anything mapped in this process
        preparations, todo = work.preparations(settings), list(units(settings))
        chunks = min(settings.golden, _PER_SLOT * self.slots)
        runs = [list(range(chunk, settings.golden, chunks)) for chunk in range(chunks)]
        self.total += len(preparations) + len(todo) + len(runs)
        if not store.prepared(job.path, settings):
            files.remove_tree(self.path / "prepare")
        self._wave("prepare", partial_task(_prepare, shipped, preparations), len(preparations), _PREPARED)
        waves = -(-len(todo) // (_PER_SLOT * self.slots))
        trials = []
        for number in range(waves):
            chosen = todo[number::waves]  # waves of about the same size
            task = partial_task(_run_units, shipped, chosen)
            trials.append(self._wave(f"trials-{number:03d}", task, len(chosen), TRIALS))
        table = pa.concat_tables(trials)
        affected = _affected(table, job.path / "affected.arrow")
        golden = self._wave("golden", partial_task(_run_golden, shipped, (runs, affected)), len(runs), work.GOLDEN)
        return table.drop_columns(["affected"]), golden

    def _wave(
        self, name: str, task: Callable[..., Iterator[pa.RecordBatch]], count: int, schema: pa.Schema
    ) -> pa.Table:
        self.waves += 1
        path = self.path / name
        files.refuse_links(self.path)  # Spark and Arrow would follow them
        if sound(path):
            self.resumed += 1
        else:
            frame = self.spark.range(0, count, 1, count).mapInArrow(task, from_arrow_schema(schema))

            def action() -> None:
                frame.write.mode("overwrite").parquet(str(path))

            files.remove_tree(path)
            with_progress(self.spark, action, lambda done, _: self._progress(name, min(done, count)))
            seal(path)
        self.done += count
        self._progress(name, 0)
        return pq.read_table(path, schema=schema)

    def _progress(self, name: str, done: int) -> None:
        if self.tell is not None:
            self.tell(name, self.done + done, self.total)


def _affected(trials: pa.Table, path: Path) -> Path:
    """Write the affected parts for the golden runs to a file: shipping them with the tasks would be slow."""
    found = trials.filter(trials["affected"].is_valid()).select(["sink", "target", "state", "offset", "affected"])
    with files.open_file(path, "wb") as file, pa.ipc.new_file(file, found.schema) as writer:
        writer.write_table(found)
    return path


def partial_task(run: Callable[..., Iterator[pa.RecordBatch]], job: work.CampaignJob, tasks: Any) -> Callable[..., Any]:
    """A function for `mapInArrow` that runs the tasks with the given numbers."""

    def task(ids: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        keep_loaded()
        for batch in ids:
            for number in batch.column(0).to_pylist():
                yield from run(_cached_job(job), tasks, number)

    return for_worker(task)


_JOBS: dict[tuple[Path, Path], work.CampaignJob] = {}


def _cached_job(job: work.CampaignJob) -> work.CampaignJob:
    """The job with the files that this process has already mapped: Python workers run many tasks."""
    key = (job.path, job.recorded)
    known = _JOBS.get(key)
    if known is None or known.identity != job.identity:
        _JOBS.clear()
        _JOBS[key] = known = job
    return known


def _profile(job: work.CampaignJob, tasks: None, number: int) -> Iterator[pa.RecordBatch]:
    work.profile_all(job)
    yield pa.RecordBatch.from_pylist([{"what": "profile"}], schema=_PREPARED)


def _prepare(job: work.CampaignJob, tasks: Sequence[str], number: int) -> Iterator[pa.RecordBatch]:
    work.prepare(job, tasks[number])
    yield pa.RecordBatch.from_pylist([{"what": tasks[number]}], schema=_PREPARED)


def _run_units(job: work.CampaignJob, tasks: Sequence[tuple[int, int]], number: int) -> Iterator[pa.RecordBatch]:
    yield work.run_unit(job, *tasks[number])


def _run_golden(
    job: work.CampaignJob, tasks: tuple[Sequence[Sequence[int]], Path], number: int
) -> Iterator[pa.RecordBatch]:
    runs, path = tasks
    yield from work.run_golden(job, runs[number], _read_affected(job, path))


@lru_cache(maxsize=1)
def _affected_rows(path: Path, written: int) -> list[dict[str, Any]]:
    table = pa.ipc.open_file(files.mapped(path)).read_all()
    identities = [row.values.to_numpy().view(np.uint64) for row in table["affected"]]
    keys = table.select(["sink", "target", "state", "offset"]).to_pylist()
    return [key | {"affected": part} for key, part in zip(keys, identities, strict=True)]


def _read_affected(job: work.CampaignJob, path: Path) -> dict[str, list[np.ndarray]]:
    """The affected parts by sink, in the order of the units."""
    settings = job.settings
    found = {
        (row["sink"], row["target"], row["state"], row["offset"]): row["affected"]
        for row in _affected_rows(path, files.status(path).st_mtime_ns)
    }
    ordered = [(settings.targets[t], settings.offsets[o]) for t, o in units(settings)]
    return {sink: [found[sink, t.name, t.outcome, offset] for t, offset in ordered] for sink in settings.scores}
