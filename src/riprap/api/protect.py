"""`protect`: from what the output of an app may suffer to the cheapest plan, its price, and the proof.

found = riprap.protect("shop:app", {"Clicks": "clicks.parquet"}, slo=riprap.Slo(recovery="5s", wrong="1%"))
found.kept                # whether every line of the objectives was kept in the proof
found.plan, found.price   # the plan that `run` takes, and what it costs for an hour
found.report              # the page

Five steps, each of which leaves a file in the directory; a step whose file is there is not repeated:

    measure    measured.json         rates, state, recoveries and costs, from short real runs
    assess     effects.json          what each failure does to each sink
    plan       round-N/plan.toml     the cheapest plan that keeps every line
    prove      round-N/kills-K.json  real kills under that plan; a line that was missed is planned for again
    report     protection.json, report.html, plan.toml
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from riprap.api.kill_runs import Counting
from riprap.api.measure import (
    Measurements,
    bare,
    extra_cost,
    measure_app,
    predicted_cost,
    with_samples,
)
from riprap.api.protection_proof import ProofRun, plan_of, prove_plan, read_run, write_run
from riprap.api.replayed_inputs import ReplayedInputs, replayed
from riprap.api.request import OutputScores, score_functions
from riprap.base import files
from riprap.base.documents import read_json
from riprap.base.errors import PlanError, UsageError
from riprap.base.owner import is_empty, owned
from riprap.base.quantities import Duration
from riprap.base.scratch import scratch
from riprap.engine.identity import content_digest
from riprap.faults.scoring import Score
from riprap.faults.sink_damage import DamageSettings, sink_damage
from riprap.graph.graph import Graph
from riprap.graph.order_keys import TS
from riprap.graph.plan_file import write_plan
from riprap.planner.cheapest import cheapest, conflict, curve, nearest, strictest
from riprap.planner.costs import Cost
from riprap.planner.measured import Measured, read_measured, write_measured
from riprap.planner.protection_problem import (
    CaseKey,
    Chosen,
    FailureCase,
    Line,
    Outcome,
    ProtectionProblem,
    with_proven,
)
from riprap.planner.recovery_times import recovery_time
from riprap.planner.sink_effects import AssessedEffects, SinkEffect, read_effects, write_effects
from riprap.planner.slo import Slo
from riprap.planner.technique_options import INTERVALS, running_price, technique_problem, uniform
from riprap.proof.kill_outcomes import accuracy, line_results, predicted, worse_cases
from riprap.proof.oracle import expected_rows
from riprap.proof.protection_results import Infeasible, Protection, ProtectionRound
from riprap.report.protect import protection_report
from riprap.runtime.planned import wrong_with
from riprap.spark.session import hosting_session

ROUNDS = 3  # of plans; each is proven
KILLS = 5  # of each element in a proof
_SHARE_OF_RUN = 0.3  # a checkpoint interval longer than this part of a run would not be seen in it
_TRIED = 10.0  # seconds of a run, whose output every score is tried on before anything starts
_FACTORS = (0.5, 1.0, 2.5)  # outages that are assessed, times the median

_ANOTHER = {
    "app": "app", "graph": "version of the app", "inputs": "input", "objectives": "file of objectives",
    "scores": "set of scores", "settings": "set of options",
}  # fmt: skip


@dataclass(frozen=True)
class ProtectSettings:
    """How thorough the steps are."""

    kills: int = KILLS
    speed: float | None = None
    longest: float = 40.0  # seconds of a run
    measure_kills: int = 8
    measure_seconds: float = 5.0
    checks: bool = True  # of the cost model, by further runs
    rounds: int = ROUNDS
    worst: bool = False  # plans guarantee the worst case, not the 95th percentile
    seed: int = 1


def protect_app(
    graph: Graph, inputs: Mapping[str, Path], slo: Slo, out: Path, *, scores: OutputScores = (),
    settings: ProtectSettings | None = None, spark: Any = None, master: str | None = None, command: str = "",
    tell: Callable[[int, str, float], None] = lambda step, what, left: None,
    warn: Callable[[str], None] = lambda text: None,
) -> Protection:  # fmt: skip
    """`tell` is called with the number of the step, what is done next, and the seconds left of the step."""
    graph.check_runs()
    settings = settings or ProtectSettings()
    given = score_functions(graph, scores) if scores else {}
    slo.check(graph, sorted(given))
    graph, out = bare(graph), files.real(out)
    _try_scores(graph, inputs, given, settings)
    with owned(out, "protection"):
        _claim(out, graph, inputs, slo, given, settings)
        replay = replayed(graph, inputs, out / "inputs", speed=settings.speed, longest=settings.longest)
        steps = _Steps(graph, slo, out, given, settings, replay, spark, master, tell, warn)
        return steps.run(command)


class _Steps:
    def __init__(
        self, graph: Graph, slo: Slo, out: Path, scores: Mapping[str, Score], settings: ProtectSettings,
        replay: ReplayedInputs, spark: Any, master: str | None, tell: Callable[[int, str, float], None],
        warn: Callable[[str], None],
    ) -> None:  # fmt: skip
        self.graph, self.slo, self.out, self.scores, self.settings = graph, slo, out, scores, settings
        self.replay, self.tell, self.warn, self._spark, self._master = replay, tell, warn, spark, master
        self.windows = {sink.name: slo.of(sink.name).window for sink in graph.sinks}

    def _session(self) -> Any:
        """Made when it is needed first: a finished protection needs none."""
        if self._spark is None:
            self._spark = hosting_session(len(self.graph.order), master=self._master)
        return self._spark

    def run(self, command: str) -> Protection:
        measurements = self._measured()
        effects = self._effects(measurements.measured)
        intervals = [every for every in INTERVALS if every / 1e6 <= _SHARE_OF_RUN * self.replay.seconds]
        counting = Counting(self.windows, self._due(), self.scores)
        proven: dict[CaseKey, FailureCase] = {}
        samples, measured = list(measurements.outcomes), measurements.measured
        rounds: list[ProtectionRound] = []
        infeasible: Infeasible | None = None
        for number in range(1, self.settings.rounds + 1):
            self.tell(3, "the cheapest plan", 1.0)
            problem = technique_problem(
                self.graph, measured, effects, self.slo, speed=self.replay.speed,
                intervals=intervals or INTERVALS[:1], worst=self.settings.worst,
            )  # fmt: skip
            problem = with_proven(problem, proven)
            best = cheapest(problem, self._refuses)
            if best is None:
                infeasible = self._infeasible(problem)
                break
            found = self._proof(number, problem, best, measured, effects, counting)
            rounds.append(found)
            samples += found.kills
            if found.kept:
                break
            proven |= worse_cases(self.graph, problem, best, found.kills)
            measured = with_samples(measured, samples, len(samples))
            if number < self.settings.rounds:
                missed = [line for line in found.lines if not line.kept]
                names = ", ".join(f"{line.line.name} of {line.line.sink}" for line in missed)
                self.warn(f"plan {number} missed {names}: planning again with what was measured")
        return self._report(problem, measured, effects, rounds, infeasible, command)

    def _measured(self) -> Measurements:
        path, kills = self.out / "measured.json", self.out / "measured-kills.json"
        if files.exists(path) and files.exists(kills):
            return Measurements(read_measured(path), read_run(kills).outcomes)
        files.remove_tree(self.out / "measuring")
        found = measure_app(
            self.graph, self.replay, self.out / "measuring", spark=self._session(), kills=self.settings.measure_kills,
            seconds=self.settings.measure_seconds, checks=self.settings.checks,
            say=lambda what, left: self.tell(1, what, left), warn=self.warn,
        )  # fmt: skip
        files.remove_tree(self.out / "measuring")
        write_run(ProofRun(found.outcomes, {}), kills)
        write_measured(found.measured, path)
        return found

    def _effects(self, measured: Measured) -> AssessedEffects:
        path = self.out / "effects.json"
        if files.exists(path):
            return read_effects(path)
        times = [recovery_time(measured, name, None, replayed=False).middle for name in measured.operators]
        middle = float(np.median(times)) * self.replay.speed
        settings = DamageSettings(
            [Duration(max(round(middle * factor), 1)) for factor in _FACTORS],
            [Duration(round(every * self.replay.speed)) for every in INTERVALS[::2]], self.windows, scores=self.scores,
        )  # fmt: skip
        begun = [0.0]

        def told(done: int, total: int) -> None:
            self.tell(2, f"{done} of {total} failures", begun[0])

        table, unknown, standing = sink_damage(
            self.graph, self.replay.recorded, settings, self.out / "recorded", tell=told
        )
        operators = {
            name: {
                age: [
                    (outage, {sink: tuple(SinkEffect(*level) for level in levels) for sink, levels in sinks.items()})
                    for outage, sinks in rows
                ]
                for age, rows in ages.items()
            }
            for name, ages in table.items()
        }
        for name, why in unknown.items():
            self.warn(f"{name} cannot be assessed, so it counts as doing all harm: {why}")
        effects = AssessedEffects(
            self.graph.name,
            operators,  # type: ignore[arg-type]
            frozenset(unknown),
            standing.ranks,
            tuple(standing.metrics),
        )
        write_effects(effects, path)
        files.remove_tree(self.out / "recorded")
        return effects

    def _due(self) -> dict[str, np.ndarray]:
        """By sink: the event times of the rows of a run without faults, beyond the end of the runs of a proof."""
        expected = expected_rows(self.graph, self.replay.recorded)
        return {name: np.sort(rows.column(TS).cast(pa.int64()).to_numpy()) for name, rows in expected.items()}

    def _refuses(self, chosen: Mapping[str, Chosen]) -> bool:
        return bool(wrong_with(self.graph, plan_of(self.graph, Outcome(chosen, 0, {}, {}))))

    def _infeasible(self, problem: ProtectionProblem) -> Infeasible:
        """Conflicts one after the other, until the rest can be met; nearest values with the lines of other conflicts
        left out."""
        groups: list[list[Line]] = []
        rest = problem
        while cheapest(rest, self._refuses) is None:
            groups.append(conflict(rest, self._refuses))
            if not groups[-1]:
                raise PlanError(f"no protection of {problem.app} can run, whatever it may suffer: check the app")
            for line in groups[-1]:
                rest = rest.with_line(line, None)
        found: dict[Line, tuple[int, int] | None] = {}
        for group in groups:
            alone = problem
            for line in (line for other in groups if other is not group for line in other):
                alone = alone.with_line(line, None)
            for line in group:
                value = nearest(alone, line, self._refuses)
                found[line] = None if value is None else (value[0], value[1].price)
        return Infeasible(tuple(found), found)

    def _proof(
        self, number: int, problem: ProtectionProblem, best: Outcome, measured: Measured, effects: AssessedEffects,
        counting: Counting,
    ) -> ProtectionRound:  # fmt: skip
        plan, place = plan_of(self.graph, best), self.out / f"round-{number}"
        text = write_plan(plan)
        if files.exists(place / "plan.toml") and files.read_text(place / "plan.toml") != text:
            files.remove_tree(place)  # of other measurements
        files.make(place)
        files.write_text(place / "plan.toml", text)
        ahead = predicted(self.graph, measured, effects, best, self.replay.speed)
        runs = prove_plan(
            self.graph, plan, self.replay, ahead, place, counting, times=self.settings.kills, session=self._session,
            seed=self.settings.seed, tell=lambda what, left: self.tell(4, what, left), warn=self.warn,
        )  # fmt: skip
        kills = tuple(one for run in runs for one in run.outcomes)
        running = {name: entry.running for name, entry in measured.operators.items()}
        costs = [extra_cost(run.costs, running) for run in runs]
        paid = Cost(*(float(np.median(part)) for part in zip(*costs, strict=True)))
        lines = tuple(line_results(self.graph, problem, best, kills))
        return ProtectionRound(
            plan, best, ahead, kills, lines, accuracy(ahead, kills), predicted_cost(measured, plan), paid
        )

    def _report(
        self, problem: ProtectionProblem, measured: Measured, effects: AssessedEffects,
        rounds: Sequence[ProtectionRound], infeasible: Infeasible | None, command: str,
    ) -> Protection:  # fmt: skip
        self.tell(5, "the page", 1.0)
        line, steps = None, list[tuple[int, int]]()
        if rounds and infeasible is None:
            line = strictest(problem, rounds[-1].outcome, self._refuses)
            steps = curve(problem, line, self._refuses) if line is not None else []
        alternatives: dict[str, int | None] = {}
        for name, alike in uniform(problem).items():
            cheap = cheapest(alike, self._refuses)
            alternatives[name] = None if cheap is None else cheap.price
        found = Protection(
            self.graph, self.slo, measured, effects, tuple(rounds), problem, self.replay.speed, self.replay.seconds,
            running_price(measured, self.slo.rates), alternatives, tuple(steps), line, infeasible, self.out,
            self.settings.worst,
        )  # fmt: skip
        if found.plan is not None:
            found.save(self.out / "plan.toml")
        files.write_text(self.out / "protection.json", json.dumps(found.to_json(), indent=2, ensure_ascii=False) + "\n")
        files.write_text(self.out / "report.html", protection_report(found, command))
        return found


def _try_scores(
    graph: Graph, inputs: Mapping[str, Path], scores: Mapping[str, Score], settings: ProtectSettings
) -> None:
    """Raises if the user's own function fails on the output of a part of the input."""
    if not scores:
        return
    with scratch("score") as place:
        replay = replayed(graph, inputs, place, speed=settings.speed, longest=_TRIED)
        for name, rows in expected_rows(graph, replay.run).items():
            if name in scores:
                for batch in rows.to_batches():
                    scores[name].over(scores[name].values(batch))


def _claim(
    out: Path,
    graph: Graph,
    inputs: Mapping[str, Path],
    slo: Slo,
    scores: Mapping[str, Score],
    settings: ProtectSettings,
) -> None:
    """Raises if the directory holds another protection."""
    asked = replace(slo, where="")
    about = {
        "app": graph.name,
        "graph": graph.fingerprint,
        "inputs": {name: content_digest(path) for name, path in inputs.items()},
        "objectives": blake2b(repr(asked).encode(), digest_size=8).hexdigest(),
        "scores": {name: score.text for name, score in scores.items()},
        "settings": asdict(settings),
    }
    path = out / "request.json"
    if not files.exists(path):
        if not is_empty(out):
            raise UsageError(f"{out} is not empty and holds no protection: give another directory with --out")
        files.write_text(path, json.dumps(about, indent=2) + "\n")
        return
    known = read_json(path, "request", own=True)
    for name, value in json.loads(json.dumps(about)).items():
        if not isinstance(known, dict) or known.get(name) != value:
            raise UsageError(
                f"{out} holds a protection of another {_ANOTHER[name]}: "
                "give another directory with --out, or remove this one"
            )
