"""Yield prediction under real kills: the published experiment with a user-defined operator, through the runtime.

from riprap_papers.experiments.yield_kills import yield_kills
found = yield_kills(out="kills", kills=40, seed=1)
found["S2"].rmse       # percentage points; the model's process is killed and restarts from its latest checkpoint
found["S3"].rmse       # the same kills, and it restarts without state

The app of `apps/yield_prediction.py`, an element for each operator and shard, runs `SPEED` times as fast as event time.
The model's process is killed once in ten lots; its input during the outage is lost, everything else goes on. Each
scenario is one run with all kills, where the published one had a run for each: the effect of a kill is measured until
the next one. QM (prediction less truth) of every wafer that was predicted after the first kill is compared with that of
a run without faults; the difference is the prediction error.

Fault model: SIGKILL from outside. The outage is the time of detection, of starting a new process and of connecting it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from riprap.api.prove import Tell, prove
from riprap.apps import fab
from riprap.apps.yield_prediction import MODEL, SINK, build
from riprap.base.errors import UsageError
from riprap.base.quantities import Duration
from riprap.base.randomness import generator
from riprap.graph.annotations import Annotations
from riprap.graph.graph import Graph
from riprap.proof.oracle import expected_rows, found_rows
from riprap_papers.experiments.yield_crashes import SCENARIOS, Scenario

SPEED = 10  # seconds of event time in a second
CHECKPOINT = Duration(1_000_000 // SPEED)  # a second of event time
LOTS = 10  # from a kill to the next: more than the model needs to learn again
_LOT = fab.WAFERS_PER_LOT * fab.WAFER_US / 1e6  # seconds of event time
SHARDED = tuple(
    name for spec in build().operators
    if (name := spec.name) not in (MODEL, SINK, *(source.name for source in build().sources))
)  # fmt: skip


@dataclass(frozen=True)
class Killed:
    """One scenario."""

    kills: int  # that took place
    elements: int
    errors: np.ndarray  # percentage points, by wafer that was predicted
    missing: int  # wafers without a prediction
    lost: int  # tuples that did not reach the model
    away: float  # seconds from a kill until the model ran again, the median

    @property
    def rmse(self) -> float:
        return float(np.sqrt(np.mean(self.errors**2))) if len(self.errors) else 0.0

    @property
    def worst(self) -> float:
        return float(np.abs(self.errors).max(initial=0.0))

    def as_json(self) -> dict[str, Any]:
        quantiles = {str(q): float(np.percentile(np.abs(self.errors), q)) for q in (50, 90, 99) if len(self.errors)}
        return {
            "kills": self.kills, "elements": self.elements, "predictions": len(self.errors), "rmse": self.rmse,
            "quantiles": quantiles, "worst": self.worst, "wafers_not_predicted": self.missing,
            "tuples_lost": self.lost, "away_seconds": self.away,
        }  # fmt: skip


def kill_times(kills: int, seed: int) -> list[float]:
    """Times of the kills in seconds of the run: once in ten lots, at a random time within three of them."""
    if kills < 1:
        raise UsageError(f"{kills} kills are too few: ask for at least 1")
    draws = generator(seed, "yield", "kills")
    lots = LOTS * (1 + np.arange(kills)) + draws.uniform(0.0, 3.0, kills)
    return [round(float(lot * _LOT / SPEED), 3) for lot in lots]


def scenario_graph(scenario: Scenario) -> Graph:
    graph = build()
    annotations = Annotations(checkpoint_every=CHECKPOINT) if scenario == "S2" else Annotations()
    return graph.with_operator(replace(graph[MODEL], annotations=annotations))


def yield_kills(
    out: Path | str,
    *,
    kills: int = 40,
    seed: int = 1,
    shards: int = 1,
    tell: Tell = lambda entry, fault: None,
    warn: Callable[[str], None] = lambda text: None,
) -> dict[Scenario, Killed]:
    """`shards`: of every operator but sources, model and sink. Both runs and their proofs stay in `out`."""
    directory, times = Path(out), kill_times(kills, seed)
    directory.mkdir(parents=True, exist_ok=True)
    lots = LOTS * (kills + 2)
    inputs = {name: directory / f"{name}.parquet" for name in fab.generate(1, seed)}
    for name, table in fab.generate(lots, seed).items():
        pq.write_table(table, inputs[name])
    listed = [f'[[faults]]\nat = "{round(at * 1000)}ms"\nkind = "kill"\ntargets = ["{MODEL}"]\n' for at in times]
    (directory / "kills.toml").write_text("".join(listed))
    golden = expected_rows(build(), inputs)[SINK]
    found: dict[Scenario, Killed] = {}
    for scenario in SCENARIOS:
        proof = prove(
            scenario_graph(scenario), inputs, out=directory / scenario, seconds=lots * _LOT / SPEED,
            faults=directory / "kills.toml", parallelism=dict.fromkeys(SHARDED, shards) if shards > 1 else {},
            tell=tell, warn=warn,
        )  # fmt: skip
        summary = proof.summary
        rows = found_rows(Path(summary["sinks"][SINK]["path"]), golden.schema).rows
        away = [result.latency for result in proof.faults if result.latency is not None]
        errors, missing = prediction_errors(golden, rows, times[0])
        found[scenario] = Killed(
            len(away), len(summary["pes"]), errors, missing, _lost(summary), median(away) if away else 0.0
        )
    return found


def prediction_errors(golden: pa.Table, found: pa.Table, first: float) -> tuple[np.ndarray, int]:
    """Errors of wafers that started after the first kill (seconds of the run); and how many have no prediction."""
    after = int(first * SPEED * 1e6) // fab.WAFER_US
    sides = []
    for table in (golden, found):
        wafers, qm = (table.column(name).to_numpy() for name in ("wafer", "qm"))
        order = np.argsort(wafers, kind="stable")
        sides.append((wafers[order], qm[order]))
    (wafers, right), (theirs, given) = sides
    due = wafers - wafers[0] > after
    there = np.isin(wafers[due], theirs)
    at = np.searchsorted(theirs, wafers[due][there])
    return given[at] - right[due][there], int((~there).sum())


def _lost(summary: Mapping[str, Any]) -> int:
    return sum(
        int(counts["lost"]) for name, counts in summary["streams"].items() if name.split("→")[1].startswith(MODEL)
    )
