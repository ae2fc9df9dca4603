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
from riprap.faults.models import STRIKES_ONCE
from riprap.faults.recording import Recording, load
from riprap.faults.score_functions import ScoreFunction
from riprap.faults.scoring import OutputScore, Score, in_sums, parse_score
from riprap.faults.seeds import golden_outputs
from riprap.faults.trial_outputs import Difference, OutputRows, SinkReader, among, sink_reader
from riprap.faults.trials import TrialContext, replay
from riprap.graph.graph import Graph

TRIALS = pa.schema(
    [
        ("sink", pa.string()),
        ("target", pa.string()),
        ("state", pa.string()),  # of the target afterwards; "fail-over": another replica has it
        ("offset", pa.int64()),
        ("end", pa.int64()),  # position at which the target runs again
        ("outage_us", pa.int64()),
        ("rate", pa.string()),
        ("tuples", pa.int64()),  # lost (or otherwise affected) at the target
        ("rep", pa.int32()),
        ("faulty", pa.float64()),  # score of the affected part
        ("golden", pa.float64()),  # its score in the golden run with the same jitter
        ("missing", pa.int64()),  # golden outputs that are missing or different
        ("extra", pa.int64()),  # outputs that replace them or are additional
        ("sections", pa.list_(pa.int32())),  # sections that differ, and their scores
        ("section_faulty", pa.list_(pa.float64())),
        ("section_golden", pa.list_(pa.float64())),
        ("affected", pa.list_(pa.int64())),  # once per unit and sink: identities of the affected part
    ]
)
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
    def indexed(self) -> "list[dict[str, _Indexed]]":
        """By repetition and sink."""
        section = self.settings.section
        return [
            {sink: _Indexed(rows, section) for sink, rows in context.golden.rows.items()} for context in self.contexts
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
    rows: list[dict[str, object]] = []
    for sink, score in job.scores.items():
        golden = [context.golden.rows[sink] for context in job.contexts]
        longest = len(outages) - 1
        # Faults that affect one tuple have no longest one: each affects a different part.
        touching = range(len(outages)) if job.settings.fault in STRIKES_ONCE else [longest]
        affected = np.unique(
            np.concatenate(
                [
                    differences[number, rep][sink].identities(golden[rep])
                    for number in touching
                    for rep in range(len(golden))
                ]
            )
        )
        for rep in range(len(golden)):
            part = _ScoredPart(job.indexed[rep][sink], affected, score)
            for number, outage in enumerate(outages):
                row = part.scored(differences[number, rep][sink]) | {
                    "sink": sink,
                    "target": struck.name,
                    "state": struck.outcome,
                    "offset": outage.offset,
                    "end": outage.end,
                    "outage_us": outage.duration,
                    "rate": outage.rate,
                    "tuples": outage.tuples,
                    "rep": rep,
                }
                if number == longest and rep == 0:
                    row["affected"] = affected.view(np.int64)
                rows.append(row)
    return pa.RecordBatch.from_pylist(rows, schema=TRIALS)


class _Indexed:
    """A golden output, indexed by section and by identity; made once per process."""

    def __init__(self, rows: OutputRows, section: int) -> None:
        self.rows, self.section = rows, section
        self.sections = rows.position // section
        self.by_section = np.argsort(self.sections, kind="stable")
        self.begins = np.searchsorted(self.sections[self.by_section], np.arange(self.sections.max(initial=0) + 2))
        self.by_identity = np.argsort(rows.identity, kind="stable")
        self.identities = rows.identity[self.by_identity]

        self._totals: tuple[np.ndarray, np.ndarray] | None = None

    def totals(self, score: OutputScore, wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Sums and counts of these sections, under the score that the rows were read with."""
        if self._totals is None:
            self._totals = score.totals(self.rows.value, self.sections, len(self.begins) - 1)
        inside = wanted < len(self.begins) - 1
        at = np.where(inside, wanted, 0)
        sums, counts = self._totals
        return np.where(inside, sums[at], 0.0), np.where(inside, counts[at], 0)

    def with_identities(self, wanted: np.ndarray) -> np.ndarray:
        """Rows with these identities."""
        first = np.searchsorted(self.identities, wanted)
        count = np.searchsorted(self.identities, wanted, side="right") - first
        within = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
        return self.by_identity[np.repeat(first, count) + within]

    def in_sections(self, wanted: np.ndarray) -> np.ndarray:
        known = wanted[wanted < len(self.begins) - 1]
        ranges = [self.by_section[self.begins[s] : self.begins[s + 1]] for s in known.tolist()]
        return np.concatenate([np.empty(0, np.int64), *ranges])


class _ScoredPart:
    """Scores of differences to one golden output: over the affected part, and in the sections that differ."""

    def __init__(self, indexed: _Indexed, affected: np.ndarray, score: Score) -> None:
        self.indexed, self.golden, self.affected, self.score = indexed, indexed.rows, affected, score
        self.section = indexed.section
        self.inside = indexed.with_identities(affected)
        self.golden_score = score.over(self.golden.value[self.inside])

    def scored(self, difference: Difference) -> dict[str, object]:
        removed = np.zeros(self.golden.size, bool)
        removed[difference.removed] = True
        added = difference.added
        unchanged = self.inside[~removed[self.inside]]
        added_values = added.value[among(self.affected, added.identity)]
        removed_sections = self.indexed.sections[difference.removed]
        added_sections = added.position // self.section
        differing = np.unique(np.concatenate([removed_sections, added_sections]))
        faulty, golden_sections = self._sections(difference, differing, removed_sections, added_sections)
        return {
            "faulty": self.score.over(np.concatenate([self.golden.value[unchanged], added_values])),
            "golden": self.golden_score,
            "missing": len(difference.removed),
            "extra": added.size,
            "sections": differing,
            "section_faulty": faulty,
            "section_golden": golden_sections,
        }

    def _sections(
        self, difference: Difference, differing: np.ndarray, removed_sections: np.ndarray, added_sections: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Faulty and golden scores of sections that differ, from the sections of removed and added rows."""
        count, score, golden = len(differing), self.score, self.golden
        at_removed, at_added = np.searchsorted(differing, removed_sections), np.searchsorted(differing, added_sections)
        if in_sums(score):
            less = score.totals(golden.value[difference.removed], at_removed, count)
            more = score.totals(difference.added.value, at_added, count)
            base = self.indexed.totals(score, differing)
            sums, counts = (b - a + c for b, a, c in zip(base, less, more, strict=True))
            return score.of_totals(sums, counts), score.of_totals(*base)
        rows = self.indexed.in_sections(differing)
        unchanged = rows[~np.isin(rows, difference.removed)]
        values = np.concatenate([golden.value[unchanged], difference.added.value])
        places = np.concatenate([np.searchsorted(differing, self.indexed.sections[unchanged]), at_added])
        golden_places = np.searchsorted(differing, self.indexed.sections[rows])
        return score.by_section(values, places, count), score.by_section(golden.value[rows], golden_places, count)


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
