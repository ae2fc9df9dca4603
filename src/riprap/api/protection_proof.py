"""The proof of a protection plan: every element is killed, at the worst moment and at random ones, and each recovery
and each damage is held against its prediction and against the objectives.

A kill has room for its recovery and for the damage that is predicted, up to a part of the run: of damage that fades
slowly, the end counts for the next kill.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from riprap.api.kill_runs import Counting, PlannedKill, run_with_kills
from riprap.api.replayed_inputs import ReplayedInputs
from riprap.base import files
from riprap.base.documents import read_json
from riprap.base.randomness import generator
from riprap.base.shapes import raising_misshapen
from riprap.graph.annotations import Annotations
from riprap.graph.graph import Graph
from riprap.graph.plan_file import Plan
from riprap.planner.costs import Cost
from riprap.planner.protection_problem import Outcome
from riprap.planner.sink_effects import SinkEffect
from riprap.proof.kill_outcomes import ElementPrediction, KillOutcome, outcome_json
from riprap.proof.oracle import expected_rows

SETTLE, REST = 3.0, 0.7  # seconds before the first kill, and after each recovery
_TAIL = 2.0  # seconds after the last one
_MOST_RUNS = 40
_KILLS_IN_A_RUN = 6  # at least, as long as each recovers within its part of the run


@dataclass(frozen=True)
class ProofRun:
    """What one run of a proof showed."""

    outcomes: tuple[KillOutcome, ...]
    costs: Mapping[str, Cost]  # by element


def plan_of(graph: Graph, outcome: Outcome) -> Plan:
    """Replaces the protection in the code."""
    operators = {
        name: Annotations(chosen.option.interval, backup=chosen.backup) for name, chosen in outcome.chosen.items()
    }
    return Plan(
        graph.name,
        {name: own for name, own in operators.items() if own != Annotations() or graph[name].annotations != own},
    )


def prove_plan(
    graph: Graph, plan: Plan, replay: ReplayedInputs, predictions: Mapping[str, ElementPrediction], directory: Path,
    counting: Counting, *, times: int, session: Callable[[], Any], seed: int = 1, tell: Callable[[str, float], None],
    warn: Callable[[str], None],
) -> list[ProofRun]:  # fmt: skip
    """Kills every element `times` times. Runs that a directory has from before are not repeated; `session` is called
    for others."""
    protected = plan.apply(graph)
    expected = expected_rows(protected, replay.run)
    waiting = [(name, bool(number % 2)) for number in range(times) for name in predictions]
    runs: list[ProofRun] = []
    tries: dict[str, int] = {}
    while waiting and len(runs) < _MOST_RUNS:
        path = directory / f"kills-{len(runs) + 1}.json"
        if files.exists(path):
            found = read_run(path)
        else:
            chosen = _packed(waiting, predictions, replay, generator(seed, "kills", len(runs)))
            left = sum(_room(predictions[name], replay) for name, _ in waiting) + 5.0
            tell(f"killing {len(waiting)} elements, one after the other", left)
            place = directory / f"run-{len(runs) + 1}"
            files.remove_tree(place)
            run = run_with_kills(
                graph, plan, replay, chosen, place, counting, spark=session(), expected=expected, warn=warn
            )
            files.remove_tree(place)
            costs = {name: Cost(**cost) for name, cost in run.summary["costs"].items()}
            found = ProofRun(run.outcomes, costs)
            write_run(found, path)
        runs.append(found)
        for one in found.outcomes:
            tries[one.operator] = tries.get(one.operator, 0) + 1
            done = next((entry for entry in waiting if entry[0] == one.operator), None)
            if done is not None and (one.recovery is not None or tries[one.operator] > 2 * times + 2):
                waiting.remove(done)
    return runs


def _room(prediction: ElementPrediction, replay: ReplayedInputs) -> float:
    """Seconds that a kill needs to itself."""
    lasts = max((levels[2].wrong_for for levels in prediction.damage.values() if levels[2].wrong), default=0)
    apart = min(lasts / 1e6 / replay.speed, (replay.seconds - SETTLE - _TAIL) / _KILLS_IN_A_RUN)
    return prediction.recovery.high / 1e6 + max(apart, 0.0) + REST


def _packed(
    waiting: Sequence[tuple[str, bool]], predictions: Mapping[str, ElementPrediction], replay: ReplayedInputs,
    draws: np.random.Generator,
) -> list[PlannedKill]:  # fmt: skip
    """As many of them as fit into a run."""
    at, end, chosen = SETTLE + float(draws.uniform(0.0, 1.0)), max(replay.seconds - _TAIL, SETTLE + 1.1), []
    for name, late in waiting:
        prediction = predictions[name]
        needs = _room(prediction, replay)
        if at + needs <= end:
            chosen.append(PlannedKill(name, at, late))
            at += needs + float(draws.uniform(0.0, 0.6))
    if not chosen:  # none fits: its damage, or its recovery, ends with the run
        chosen.append(PlannedKill(waiting[0][0], min(at, end - 1.0), waiting[0][1]))
    return chosen


# Files ---------------------------------------------------------------------------------------------------------------


def write_run(run: ProofRun, path: Path) -> None:
    costs = {name: cost._asdict() for name, cost in run.costs.items()}
    document = {"outcomes": [outcome_json(one) for one in run.outcomes], "costs": costs}
    files.write_text(path.with_suffix(".part"), json.dumps(document, indent=1) + "\n")
    files.rename(path.with_suffix(".part"), path)


def read_run(path: Path) -> ProofRun:
    document = read_json(path, "kills", own=True)
    with raising_misshapen(f"{path} has no kills of this version of riprap: delete it, and the proof is repeated"):
        outcomes = []
        for row in document["outcomes"]:
            hurt = {str(sink): SinkEffect(*map(int, effect)) for sink, effect in row["damage"].items()}
            outcomes.append(KillOutcome(**{**row, "damage": hurt}))
        costs = {str(name): Cost(**cost) for name, cost in document["costs"].items()}
        return ProofRun(tuple(outcomes), costs)
