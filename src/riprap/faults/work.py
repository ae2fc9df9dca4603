"""The work of a campaign's tasks: functions from a job and a few numbers to rows of results.

Order: `profile_all`, which determines the targets that can be assessed; `prepare` (one task per entry of
`preparations`); `run_unit` for every unit; `run_golden` for every golden run, scored on the affected parts that the
units found.

Memory of a task: the recorded stream and the golden outputs are memory-mapped. A unit holds the engine's state, one
chunk of the replayed tuples (at most those between two checks, of keys that have not recovered) and the differences of
its trials: 32 bytes per output tuple that differs. A preparation holds one batch and the golden output, 32 bytes per
tuple.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa

from riprap.faults import store
from riprap.faults.campaign_settings import CampaignSettings, Outage, TargetProfile, outages_of, profile_targets, starts
from riprap.faults.divided import runs_by_key
from riprap.faults.golden import golden_run
from riprap.faults.golden_scores import GoldenScores
from riprap.faults.recording import Recording, load
from riprap.faults.score_functions import ScoreFunction
from riprap.faults.scored_parts import IndexedOutput, scored_unit
from riprap.faults.scoring import Score, parse_score
from riprap.faults.seeds import golden_outputs
from riprap.faults.trial_outputs import Difference, SinkReader, sink_reader
from riprap.faults.trials import TrialContext, replay
from riprap.graph.graph import Graph

GOLDEN = pa.schema(
    [
        ("sink", pa.string()),
        ("run", pa.int32()),
        ("sections", pa.list_(pa.float64())),  # score of every section
        ("scores", pa.list_(pa.float64())),  # score of the affected part of every unit, in the order of `units`
    ]
)


@dataclass(frozen=True)
class CampaignJob:
    """A campaign, as its tasks see it."""

    graph: Graph
    settings: CampaignSettings
    path: Path  # directory that its tasks share
    recorded: Path  # the recorded stream
    identity: str = ""  # of the campaign; another campaign may have used the same paths
    functions: Mapping[str, ScoreFunction] = field(default_factory=dict)  # by sink: the user's score functions

    @cached_property
    def recording(self) -> Recording:
        return load(self.graph, self.recorded)

    @cached_property
    def divided(self) -> bool:
        return runs_by_key(self.graph, self.settings.fault)

    @cached_property
    def scores(self) -> dict[str, Score]:
        return {
            sink: parse_score(text, self.graph.input_schemas(sink)[0], sink, self.functions.get(sink))
            for sink, text in self.settings.scores.items()
        }

    @cached_property
    def readers(self) -> list[SinkReader]:
        return [sink_reader(self.graph, sink, score, self.recording) for sink, score in self.scores.items()]

    @cached_property
    def profiles(self) -> list[TargetProfile]:
        return store.load_profiles(self.path, self.settings)

    @cached_property
    def contexts(self) -> list[TrialContext]:
        """One per repetition."""
        found = []
        for run in range(self.settings.reps):
            golden, index = store.load_golden(self.path, run, list(self.scores))
            jitter = self.settings.jitter(run)
            context = TrialContext(self.graph, self.recording, self.readers, jitter, golden, self.divided)
            context.__dict__["by_part"] = index
            found.append(context)
        return found

    @cached_property
    def indexed(self) -> "list[dict[str, IndexedOutput]]":
        """By repetition and sink."""
        section = self.settings.section
        return [
            {sink: IndexedOutput(rows, section) for sink, rows in context.golden.rows.items()}
            for context in self.contexts
        ]

    @cached_property
    def golden_scores(self) -> dict[str, GoldenScores]:
        """By sink; the first golden run of a process computes them."""
        return {}

    @property
    def sections(self) -> int:
        return -(-self.recording.tuples // self.settings.section)

    def outages(self, target: int, offset: int) -> list[Outage]:
        return outages_of(self.settings, self.recording, self.profiles[target], target, self.settings.offsets[offset])


# Preparation ----------------------------------------------------------------------------------------------------------


def preparations(settings: CampaignSettings) -> list[str]:
    return [*(f"golden {run}" for run in range(settings.reps)), "outputs"]


def profile_all(job: CampaignJob) -> None:
    """Records the input of each target, which determines whether it can be assessed."""
    store.save_profiles(job.path, profile_targets(job.graph, job.recording, job.settings))


def prepare(job: CampaignJob, what: str) -> None:
    """Makes one of the results that units share."""
    if what == "outputs":
        bound = job.settings.jitter_bound
        outputs = golden_outputs(job.graph, job.recording, job.readers, bound, divided=job.divided)
        store.save_outputs(job.path, outputs)
    else:
        run = int(what.split()[1])
        jitter, begin = job.settings.jitter(run), starts(job.settings, job.recording)
        golden = golden_run(job.graph, job.recording, job.readers, jitter, begin, divided=job.divided)
        context = TrialContext(job.graph, job.recording, job.readers, jitter, golden, job.divided)
        store.save_golden(job.path, run, golden, dict(context.by_part))


# Units ----------------------------------------------------------------------------------------------------------------


def run_unit(job: CampaignJob, target: int, offset: int) -> pa.RecordBatch:
    """All trials of one target at one offset, as rows of TRIALS."""
    outages = job.outages(target, offset)
    struck = job.settings.targets[target]
    ports = struck.struck(job.graph)
    differences: dict[tuple[int, int], Mapping[str, Difference]] = {}
    for number, outage in enumerate(outages):
        fault = outage.fault(job.graph, job.recording, job.settings)
        for rep, context in enumerate(job.contexts):
            differences[number, rep] = replay(context, ports, fault)
    golden = {sink: [context.golden.rows[sink] for context in job.contexts] for sink in job.scores}
    indexed = {sink: [by_sink[sink] for by_sink in job.indexed] for sink in job.scores}
    return scored_unit(struck, job.settings.fault, outages, differences, golden, indexed, job.scores)


# Golden runs ----------------------------------------------------------------------------------------------------------


def run_golden(
    job: CampaignJob, runs: Sequence[int], affected: Mapping[str, Sequence[np.ndarray]]
) -> Iterator[pa.RecordBatch]:
    """Golden runs, scored by section and on the affected part of every unit (by sink, in the order of `units`)."""
    outputs = store.load_outputs(job.path)
    for sink, score in job.scores.items():
        known = job.golden_scores.get(sink)
        if known is None or not known.fits(affected[sink]):
            settled, section = outputs.settled[sink], job.settings.section
            job.golden_scores[sink] = GoldenScores(score, settled, affected[sink], section, job.sections)
    for run in runs:
        unsettled = outputs.unsettled(job.graph, job.readers, job.settings.jitter(run))
        for sink in job.scores:
            sections, scores = job.golden_scores[sink].of(unsettled[sink])
            row = {"sink": sink, "run": run, "sections": sections, "scores": scores}
            yield pa.RecordBatch.from_pylist([row], schema=GOLDEN)
