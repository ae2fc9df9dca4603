"""Campaigns over jobs that our engine cannot run: faults in Spark's own plan.

Trials are plans with a filter in front of an operator, several in one Spark job. The directory and the tables are those
of other campaigns (`campaign_job`), so that reports and plans read both:

    DIR/campaign.json      the identity
    DIR/recorded/          the recorded rows by source, sorted by time; `time.npy`
    DIR/chunks/            the same, one file for each micro-batch, where Spark refuses a batch
    DIR/waves/NAME/        Parquet: profile-…, output-…, in the end trials-000 and golden

An output is matched with the golden one by the content of rows. A row's position is that of its time; without a time,
that of the micro-batch. There is no arrival jitter: repetition k shifts the outage by up to the bound of the jitter.

State that a failure loses is input that the operator has not seen; what it emitted before the outage remains.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from riprap.base import files
from riprap.base.clock import SYSTEM_CLOCK, Clock
from riprap.base.errors import UsageError
from riprap.base.owner import owned
from riprap.base.randomness import generator
from riprap.faults.campaign_settings import (
    CampaignSettings,
    NothingToAssess,
    Outage,
    Target,
    TargetProfile,
    check_settings,
    outages_of,
    units,
)
from riprap.faults.score_functions import ScoreFunction
from riprap.faults.scored_parts import TRIALS, IndexedOutput, scored_unit
from riprap.faults.scoring import Score, parse_score
from riprap.faults.sealed import seal, sound
from riprap.faults.trial_outputs import Difference, OutputRows, difference, joined, no_rows
from riprap.faults.work import GOLDEN
from riprap.spark.campaign_job import CampaignResult, Tell, Warn, claim
from riprap.spark.catalyst import Catalyst, Plan, identity, output, type_name
from riprap.spark.jobs.captured_job import CapturedSource
from riprap.spark.plan_operators import PlanOperators
from riprap.spark.plan_recordings import sorted_recording
from riprap.spark.plan_rewriting import Place, PlanFault, PlanPiece, PlanRewriter, canonical, hash_of, varying
from riprap.spark.plan_runs import (
    BATCH,
    TimedRecording,
    cut_chunks,
    needs_stream,
    read_rows,
    run_batch,
    run_stream,
)

FAULTS = ("loss", "duplicate")
_PER_JOB = {True: 12, False: 6}  # trials in one job: as a batch, as a stream
_SECOND = 1_000_000  # microseconds
_TRIAL, _TIME, _IDENTITY, _CONTENT = "_trial", "_time", "_identity", "_content"


def run_plan_campaign(
    operators: PlanOperators,
    settings: CampaignSettings,
    inputs: Mapping[str, Path],
    path: Path,
    *,
    functions: Mapping[str, ScoreFunction] | None = None,
    tell: Tell | None = None,
    warn: Warn | None = None,
    clock: Clock = SYSTEM_CLOCK,
) -> CampaignResult:
    """Run a campaign, or the rest of it."""
    begun = clock.monotonic()
    if settings.fault not in FAULTS:
        raise UsageError(
            f"fault model {settings.fault} needs operators that our engine runs, and the trials of "
            f"{operators.job.name} run in Spark's own plan: choose {' or '.join(FAULTS)}"
        )
    path = files.real(path)
    with owned(path, "campaign"):
        claim(path, operators.graph, settings, inputs)
        campaign = _PlanCampaign(operators, settings, path, functions or {}, inputs, tell)
        check_settings(settings, campaign.recording.tuples)
        chosen, unassessable = campaign.assessable()
        for name, reason in unassessable.items():
            if warn is not None:
                warn(f"{name} cannot be assessed: {reason}")
        trials, golden = campaign.run(chosen)
        return CampaignResult(
            chosen, unassessable, trials, golden, campaign.recording.tuples, path, campaign.resumed, campaign.waves,
            clock.monotonic() - begun, False, "spark", campaign.resources(),
        )  # fmt: skip


@dataclass(frozen=True)
class _Places:
    """The rows that reach a target, in order."""

    time: np.ndarray  # int64
    hash: np.ndarray  # int64

    def at(self, index: int) -> Place:
        return Place(int(self.time[index]), int(self.hash[index]))


@dataclass(frozen=True)
class _Trial:
    number: int
    target: int
    offset: int  # index
    outage: int
    rep: int
    fault: PlanFault


@dataclass
class _PlanCampaign:
    operators: PlanOperators
    requested: CampaignSettings
    path: Path
    functions: Mapping[str, ScoreFunction]
    inputs: Mapping[str, Path]
    tell: Tell | None
    resumed: int = 0
    waves: int = 0
    total: int = 1
    _pieces: dict[str, PlanPiece] = field(default_factory=dict)

    @property
    def spark(self) -> SparkSession:
        session: SparkSession = self.operators.job.spark
        return session

    @cached_property
    def recording(self) -> TimedRecording:
        return sorted_recording(self.operators, self.inputs, self.path / "recorded")

    @cached_property
    def catalyst(self) -> Catalyst:
        return Catalyst(self.spark)

    # Plans ------------------------------------------------------------------------------------------------------------

    @cached_property
    def _batch(self) -> PlanRewriter:
        return PlanRewriter(self.operators, self.catalyst, self._table, batch=True)

    @cached_property
    def _stream(self) -> PlanRewriter:
        return PlanRewriter(self.operators, self.catalyst, self._chunks, batch=False)

    def _table(self, source: CapturedSource) -> DataFrame:
        return self.spark.read.parquet(str(self.recording.path / source.name))

    def _chunks(self, source: CapturedSource) -> DataFrame:
        chunks = self.path / "chunks" / source.name
        if not files.exists(chunks):
            files.make(chunks.parent)
            cut_chunks(self.recording, source.name, chunks)
        schema = self._table(source).schema
        return self.spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(chunks))

    def _rewriter(self, sink: str) -> PlanRewriter:
        return self._stream if self._streams(sink) else self._batch

    def _streams(self, sink: str) -> bool:
        return needs_stream(self.operators.sinks[sink])

    def _piece(self, sink: str) -> PlanPiece:
        if sink not in self._pieces:
            self._pieces[sink] = self._rewriter(sink).query(sink)
        return self._pieces[sink]

    # Waves ------------------------------------------------------------------------------------------------------------

    def _wave(self, name: str, sink: str, frames: Sequence[DataFrame]) -> pa.Table:
        self.waves += 1
        path = self.path / "waves" / name
        files.refuse_links(self.path)
        if sound(path):
            self.resumed += 1
        else:
            files.remove_tree(path)
            if self._streams(sink):
                run_stream(self.spark, frames, path, self.operators.sinks[sink])
            else:
                run_batch(self.spark, frames, path)
            seal(path)
        if self.tell is not None:
            self.tell(name.partition("-")[0].replace("output", "trials"), self.waves, max(self.waves, self.total))
        return read_rows(path)

    # Profile ----------------------------------------------------------------------------------------------------------

    @cached_property
    def places(self) -> dict[str, _Places]:
        """By target: the places of the rows that reach it."""
        found: dict[str, _Places] = {}
        for sink in sorted(self.operators.sinks, key=self._streams):  # batches first
            frames: list[DataFrame] = []
            numbers: list[int] = []
            for number, target in enumerate(self.requested.targets):
                if target.name in found or target.name in {self.requested.targets[n].name for n in numbers}:
                    continue
                for frame in self._reaching(sink, target):
                    frames.append(frame.select(F.lit(number).alias(_TRIAL), "time", "hash"))
                    numbers.append(number)
            if frames:
                rows = self._wave(f"profile-{sink}", sink, frames)
                for number in dict.fromkeys(numbers):
                    found[self.requested.targets[number].name] = _sorted_places(rows, number)
        return found

    def _reaching(self, sink: str, target: Target) -> Iterator[DataFrame]:
        rewriter = self._rewriter(sink)
        entries = rewriter.entries(self._piece(sink), target.operators)
        sources = {source.name for source in self.operators.sources}
        if len(target.operators) == 1 and target.operators[0] in sources:
            entries = entries[:1]  # all its consumers receive the same rows
        for entry in entries:
            frame = rewriter.places(entry)
            if frame is not None:
                yield frame

    @cached_property
    def profiles(self) -> dict[str, TargetProfile]:
        time = self.recording.time
        length = max(1, int(time[-1]) - int(time[0])) / _SECOND
        rate = len(time) / length
        _, in_second = np.unique(time // _SECOND, return_counts=True)
        peak = float(in_second.max(initial=0))
        profiles = {}
        for target in self.requested.targets:
            places = self.places.get(target.name, _Places(np.empty(0, np.int64), np.empty(0, np.int64)))
            positions = self.recording.positions(places.time)
            if len(self.operators.sources) == 1 and target.name == self.operators.sources[0].name:
                positions = np.arange(len(positions))  # also where times are equal
            profiles[target.name] = TargetProfile(target, positions, rate, peak)
        return profiles

    def assessable(self) -> tuple[CampaignSettings, dict[str, str]]:
        """The settings with the targets that can be assessed; and the reason for each other target."""
        reasons: dict[str, str] = {}
        for index, target in enumerate(self.requested.targets):
            try:
                if target.name not in self.places:
                    raise UsageError(_no_time(self.operators, target))
                for offset in self.requested.offsets:
                    self._outages_at(self.requested, target, index, offset)
            except UsageError as error:
                reasons[target.name] = str(error)
        targets = tuple(target for target in self.requested.targets if target.name not in reasons)
        if not targets:
            raise NothingToAssess(f"no operator can be assessed: {'; '.join(dict.fromkeys(reasons.values()))}")
        return replace(self.requested, targets=targets), reasons

    # Trials -----------------------------------------------------------------------------------------------------------

    def run(self, settings: CampaignSettings) -> tuple[pa.Table, pa.Table]:
        todo = list(self._trials(settings))
        reached = {sink: [trial for trial in todo if self._reaches(settings, trial, sink)] for sink in settings.scores}
        sizes = {sink: _PER_JOB[not self._streams(sink)] for sink in settings.scores}
        self.total = self.waves + sum(1 + -(-len(reached[sink]) // sizes[sink]) for sink in settings.scores)
        golden: dict[str, OutputRows] = {}
        faulty: dict[str, dict[int, OutputRows]] = {}
        for sink, score in self._scores(settings).items():
            golden[sink] = self._outputs(sink, score, f"output-{sink}-golden", [])[-1]
            faulty[sink] = {}
            for at in range(0, len(reached[sink]), sizes[sink]):
                chosen = reached[sink][at : at + sizes[sink]]
                faulty[sink] |= self._outputs(sink, score, f"output-{sink}-{at:05d}", chosen)
        trials = self._scored(settings, todo, golden, faulty)
        table = pa.Table.from_batches(trials, TRIALS)
        runs = pa.Table.from_pylist(list(self._golden_rows(settings, table, golden)), GOLDEN)
        for name, rows in {"trials-000": table, "golden": runs}.items():
            work = self.path / "waves" / name
            files.make(work)
            with files.open_file(work / "part-0.parquet", "wb") as file:
                pq.write_table(rows, file)
        return table.drop_columns(["affected"]), runs

    def _scores(self, settings: CampaignSettings) -> dict[str, Score]:
        graph = self.operators.graph
        return {
            sink: parse_score(text, graph.input_schemas(sink)[0], sink, self.functions.get(sink))
            for sink, text in settings.scores.items()
        }

    def _trials(self, settings: CampaignSettings) -> Iterator[_Trial]:
        number = 0
        for target, offset in units(settings):
            for at, outage in enumerate(self._outages(settings, target, offset)):
                for rep in range(settings.reps):
                    yield _Trial(number, target, offset, at, rep, self._fault(settings, target, outage, rep))
                    number += 1

    def _outages(self, settings: CampaignSettings, target: int, offset: int) -> list[Outage]:
        return self._outages_at(settings, settings.targets[target], target, settings.offsets[offset])

    def _outages_at(self, settings: CampaignSettings, target: Target, index: int, offset: int) -> list[Outage]:
        profile = replace(self.profiles[target.name], target=target)
        return outages_of(settings, self.recording, profile, index, offset)

    def _fault(self, settings: CampaignSettings, target: int, outage: Outage, rep: int) -> PlanFault:
        chosen = settings.targets[target]
        places, positions = self.places[chosen.name], self.profiles[chosen.name].inputs
        shift = 0
        if rep:
            chance = generator(settings.seed, "shift", chosen.name, outage.offset, rep)
            shift = int(chance.integers(0, (settings.jitter_tuples or 10) + 1))
        last = len(positions) - 1
        first = min(int(np.searchsorted(positions, outage.offset)) + shift, last)
        start, end = places.at(first), places.at(min(first + outage.tuples, last))
        if chosen.fails_over:
            time, count = self.recording.time, self.recording.tuples - 1
            start, end = (Place(int(time[min(at + shift, count)]), -(2**63)) for at in (outage.offset, outage.end))
        restored = None
        if chosen.state.kind == "lost":
            restored = Place(-(2**62), 0)
        elif chosen.state.kind == "checkpoint":
            restored = Place(start.time - chosen.state.age, -(2**63))
        return PlanFault(
            chosen.operators, start, end, restored, settings.fault == "duplicate", behind=chosen.fails_over
        )

    def _reaches(self, settings: CampaignSettings, trial: _Trial, sink: str) -> bool:
        return any(sink in self.operators.graph.reachable(name) for name in settings.targets[trial.target].operators)

    def _outputs(self, sink: str, score: Score, name: str, trials: Sequence[_Trial]) -> dict[int, OutputRows]:
        """The output at a sink of each trial, by its number; without trials the golden one, as −1."""
        rewriter, piece = self._rewriter(sink), self._piece(sink)
        plans: dict[int, Plan] = {trial.number: rewriter.with_fault(piece, trial.fault) for trial in trials}
        frames = [self._rows(sink, piece, number, plan) for number, plan in (plans or {-1: piece.plan}).items()]
        table = self._wave(name, sink, frames)
        numbers = table[_TRIAL].to_numpy()
        return {
            number: self._output_rows(sink, score, table.filter(pa.array(numbers == number)))
            for number in plans or [-1]
        }

    def _rows(self, sink: str, piece: PlanPiece, number: int, plan: Plan) -> DataFrame:
        frame, columns = self.catalyst.frame(plan), self.operators.sinks[sink].plan.columns
        changing = varying(self.operators.sinks[sink].plan, self.operators)
        by_id = {identity(each): each for each in output(plan)}
        plain = [
            (canonical(self.catalyst.column(by_id[c.id]), type_name(by_id[c.id])), c) for c in columns if c.id in by_id
        ]
        stored: dict[str, Any] = {}
        for column in columns:
            if column.type is not None and _storable(column.type):
                stored.setdefault(column.name, self.catalyst.column(by_id[column.id]).alias(column.name))
        time = F.col(piece.time) if piece.time is not None else F.lit(None).cast("bigint")
        return frame.select(
            F.lit(number).alias(_TRIAL),
            time.alias(_TIME),
            hash_of([value for value, column in plain if column.id not in changing]).alias(_IDENTITY),
            hash_of([value for value, _ in plain]).alias(_CONTENT),
            *stored.values(),
        )

    def _output_rows(self, sink: str, score: Score, table: pa.Table) -> OutputRows:
        if not table.num_rows:
            return no_rows(score)
        schema = self.operators.graph.input_schemas(sink)[0]
        kept = [field for field in schema if field.name in table.column_names]
        batch = table.select([f.name for f in kept]).cast(pa.schema(kept)).combine_chunks().to_batches()
        values = score.values(batch[0]) if kept else score.values(pa.RecordBatch.from_pylist([{}] * table.num_rows))
        last = self.recording.tuples - 1
        if BATCH in table.column_names:
            default = self.recording.batch_positions(table[BATCH].to_numpy())
        else:
            default = np.full(table.num_rows, last)
        times = table[_TIME]
        known = times.is_valid().to_numpy(zero_copy_only=False)
        positions = np.where(known, self.recording.positions(times.fill_null(0).to_numpy()), default).astype(np.int64)
        identities, contents = (table[name].to_numpy().view(np.uint64) for name in (_IDENTITY, _CONTENT))
        order = np.lexsort((contents, identities, positions))
        return OutputRows(positions, identities, contents, values).rows(order)

    def _scored(
        self, settings: CampaignSettings, todo: Sequence[_Trial], golden: Mapping[str, OutputRows],
        faulty: Mapping[str, Mapping[int, OutputRows]],
    ) -> Iterator[pa.RecordBatch]:  # fmt: skip
        scores = self._scores(settings)
        indexed = {sink: [IndexedOutput(rows, settings.section)] * settings.reps for sink, rows in golden.items()}
        repeated = {sink: [rows] * settings.reps for sink, rows in golden.items()}
        by_unit: dict[tuple[int, int], dict[tuple[int, int], dict[str, Difference]]] = {}
        for trial in todo:
            unit = by_unit.setdefault((trial.target, trial.offset), {})
            state = settings.targets[trial.target].state.kind
            unit[trial.outage, trial.rep] = {
                sink: matched(
                    rows, _since(settings.offsets[trial.offset], state, rows, faulty[sink].get(trial.number, rows))
                )
                for sink, rows in golden.items()
            }
        for (target, offset), differences in by_unit.items():
            outages = self._outages(settings, target, offset)
            yield scored_unit(settings.targets[target], settings.fault, outages, differences, repeated, indexed, scores)

    def _golden_rows(
        self, settings: CampaignSettings, trials: pa.Table, golden: Mapping[str, OutputRows]
    ) -> Iterator[dict[str, Any]]:
        """All golden runs are equal: there is no jitter."""
        count = -(-self.recording.tuples // settings.section)
        found = {
            (row["sink"], row["target"], row["state"], row["offset"]): row["golden"]
            for row in trials.select(["sink", "target", "state", "offset", "golden"]).to_pylist()
        }
        for sink, score in self._scores(settings).items():
            sections = score.by_section(golden[sink].value, golden[sink].position // settings.section, count)
            chosen = [(settings.targets[t], settings.offsets[o]) for t, o in units(settings)]
            parts = [found[sink, target.name, target.outcome, offset] for target, offset in chosen]
            for run in range(settings.golden):
                yield {"sink": sink, "run": run, "sections": sections, "scores": parts}

    # Resources --------------------------------------------------------------------------------------------------------

    def resources(self) -> dict[str, dict[str, float]]:
        """Estimates of each operator without a profile: from the rows that reach it, or that reach the operator in
        front of it. State is at most all of the input.
        """
        graph = self.operators.graph
        length = max(1, int(self.recording.time[-1]) - int(self.recording.time[0])) / _SECOND
        rows = {name: len(places.time) for target, places in self.places.items() for name in target.split("+")}
        found = {}
        for spec in graph:
            if not spec.outputs:
                continue
            upstream = graph.upstream(spec.name)
            count = rows.setdefault(spec.name, rows[upstream[0]] if upstream else self.recording.tuples)
            width = 8.0 * max(1, len(graph.schema(spec.name).names))
            held = count * width if any(spec.stateful) else 0.0
            rate = count / length
            found[spec.name] = {"cpu": rate * _CORE_SECONDS, "memory": held, "state": held, "output": rate * width}
        return found


_CORE_SECONDS = 2e-6  # a typical cost of a row in an operator of Spark


def matched(golden: OutputRows, faulty: OutputRows) -> Difference:
    """The difference of two outputs by the content of their rows, each as often as it occurs."""
    swapped = difference(_swapped(golden), np.arange(golden.size), _swapped(faulty))
    return Difference(swapped.removed, _swapped(swapped.added))


def _swapped(rows: OutputRows) -> OutputRows:
    return rows._replace(identity=rows.content, content=rows.identity)


def _since(offset: int, state: str, golden: OutputRows, faulty: OutputRows) -> OutputRows:
    """With lost state, the faulty output from the outage on: what was emitted before remains."""
    if state == "kept":
        return faulty
    before, after = golden.position < offset, faulty.position >= offset
    return joined([golden.rows(np.flatnonzero(before)), faulty.rows(np.flatnonzero(after))])


def _sorted_places(rows: pa.Table, number: int) -> _Places:
    own = rows.filter(pa.array(rows[_TRIAL].to_numpy() == number))
    own = own.filter(own["time"].is_valid())
    time, hashes = own["time"].to_numpy(), own["hash"].to_numpy()
    order = np.lexsort((hashes, time))
    return _Places(time[order], hashes[order])


def _storable(type_: pa.DataType) -> bool:
    return not (pa.types.is_nested(type_) or pa.types.is_binary(type_))


def _no_time(operators: PlanOperators, target: Target) -> str:
    line = next((operators.by_name[name].line for name in target.operators if operators.by_name[name].line), "")
    return (
        f"its input has no time column, so no outage can be placed in it{f' ({line})' if line else ''}; "
        "it behaves like the operator in front of it"
    )
