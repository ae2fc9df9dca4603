"""The published re-deployment of Bargain Discovery, with real kills: the effect of a crash on the output, with and
without HA groups (section 4.5.4 of the dissertation).

Each case is a run on Spark in which one operator is killed once. The output is scored section by section against the
expected output (5,000 input tuples a section, as published), with the metrics of an assessment: R, the section up to
which 90 % of the erroneous ones lie, counted from the kill, and I, the sum of their squared errors.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from riprap.api.run import run
from riprap.apps.catalogue import load_app
from riprap.faults.quality_metrics import quality_impact, recovery_time, section_errors
from riprap.faults.scoring import Score, default_score, parse_score
from riprap.graph.graph import Graph
from riprap.graph.order_keys import SEQ
from riprap.proof.oracle import compare, expected_rows
from riprap_papers.published.assessment_tables import PLAN, REDEPLOYED

APP, SINK = "bargain-discovery", "Sink"
SECTION = 5_000  # input tuples
THRESHOLD, SHARE = 0.03, 0.9


@dataclass(frozen=True)
class FailoverOutcome:
    """One crash, without groups (`before`) or with them."""

    operator: str
    redeployed: bool
    impact: float  # I
    recovery: int  # R, sections
    lost: int  # missing output tuples
    doubled: int
    wrong: int
    failover: float | None  # seconds from the kill to the first tuple of the replica that took over
    published: tuple[int, float]  # R, I


def reproduce(
    market: Path, out: Path, *, operators: Sequence[str], rate: float, kill_at: float, spark: Any = None,
    failover: str = "smart", say: Callable[[str], None] = lambda text: None,
) -> Iterator[FailoverOutcome]:  # fmt: skip
    """Crash each operator twice: without groups, and with those of the published plan."""
    graph = load_app(APP)
    inputs = {source.name: market for source in graph.sources}
    expected = expected_rows(graph, inputs)[SINK]
    plan = out / "published-plan.toml"
    plan.write_text(PLAN)
    for operator in operators:
        for redeployed in (False, True):
            say(f"{operator} is killed {'with' if redeployed else 'without'} HA groups …")
            result = run(
                APP, inputs, out=out / f"{operator}-{'after' if redeployed else 'before'}", fuse="none", rate=rate,
                kill=f"{operator}@{kill_at:g}s", plan=plan if redeployed else None, failover=failover, spark=spark,
            )  # fmt: skip
            found, summary = result.sink(SINK), result.summary
            yield _outcome(graph, operator, redeployed, expected, found, summary, int(rate * kill_at))


def _outcome(
    graph: Graph, operator: str, redeployed: bool, expected: pa.Table, found: pa.Table, summary: Any, fault: int
) -> FailoverOutcome:
    schema = graph.input_schemas(SINK)[0]
    score = parse_score(default_score(schema), schema, SINK)
    last = max((int(t.column(SEQ).to_numpy().max()) for t in (expected, found) if t.num_rows), default=0)
    sections = last // SECTION + 1
    first = min(fault // SECTION, sections - 1)
    golden, faulty = (by_section(score, table, sections)[first:] for table in (expected, found))
    error = section_errors(faulty[None, :], golden[None, :]).error
    until = recovery_time(error, THRESHOLD, SHARE)
    verdict = compare(expected, found)
    took = [f["from_kill"] for group in summary["groups"].values() for f in group["failovers"] if f["from_kill"]]
    return FailoverOutcome(
        operator,
        redeployed,
        quality_impact(error, THRESHOLD, until),
        until,
        verdict.lost,
        verdict.doubled,
        verdict.wrong,
        max(took, default=None),
        REDEPLOYED[operator][redeployed],
    )


def by_section(score: Score, table: pa.Table, sections: int) -> np.ndarray:
    """The score of each section of the input: an output tuple belongs to the section of its trigger."""
    if not table.num_rows:
        return np.zeros(sections)
    (batch,) = table.combine_chunks().to_batches()
    section = batch.column(SEQ).to_numpy() // SECTION
    return score.by_section(score.values(batch), section, sections)


def as_json(outcome: FailoverOutcome) -> dict[str, Any]:
    return asdict(outcome)
