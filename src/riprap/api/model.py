"""`model`: predicts what faults do to an app over hours, for any technique, before it is deployed.

from riprap.api.model import describe_app, model, protections_of
application, _ = describe_app(graph, {"Source": "market.parquet"})
prediction = model(graph, application, protections_of(graph, ["checkpoint"]), Faults(1e-4, 0.0, 3.5), 2.0, runner)
prediction.as_json()["answers"]     # availability, tainted tuples and resources, by technique and rate
prediction.write(Path("model"))     # a report, the network, and the same numbers
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from riprap.base import files
from riprap.base.errors import UsageError
from riprap.base.quantities import Duration
from riprap.base.tabular import Tabular
from riprap.engine.inputs import keyed, read_file
from riprap.engine.profile import Profile, profile
from riprap.graph.graph import Graph
from riprap.planner.assessment_file import LOST, read_assessment
from riprap.report.model import model_report
from riprap.san.replicate import Runner
from riprap.san.san_drawing import draw
from riprap.san.statistics import Precision
from riprap.san.streaming.application import Application
from riprap.san.streaming.calibrate import calibrate
from riprap.san.streaming.describe import Stability, describe, protections, with_rate
from riprap.san.streaming.failures import Faults
from riprap.san.streaming.scenario import Method, ModelProtection, ModelScenario
from riprap.san.streaming.study import Answer, study
from riprap.san.streaming.techniques import technique
from riprap.san.streaming.template import build

Inputs = Mapping[str, str | os.PathLike[str]]  # by source
Stabilities = Mapping[tuple[str, int], Stability]  # by operator and port


@dataclass(frozen=True)
class Prediction(Tabular):
    """Answers by technique and rate, with the settings of the model."""

    app: str
    application: Application
    faults: Faults
    hours: float
    precision: Precision
    method: Method
    seed: int
    stability: Stabilities
    scenarios: Mapping[tuple[str, float], ModelScenario]
    answers: Mapping[tuple[str, float], Answer]

    def as_json(self) -> dict[str, Any]:
        return {
            "app": self.app,
            "hours": self.hours,
            "crash_rate": self.faults.crash_rate,
            "sdc_rate": self.faults.sdc_rate,
            "recovery_seconds": self.faults.recovery,
            "confidence": self.precision.confidence,
            "method": self.method,
            "seed": self.seed,
            "calibration": [
                {"operator": name, "port": port, **asdict(fitted)} for (name, port), fitted in self.stability.items()
            ],
            "answers": [
                {"technique": name, "rate": rate, **asdict(answer)} for (name, rate), answer in self.answers.items()
            ],
        }

    def rows(self) -> list[dict[str, Any]]:
        """Availability and the share of tainted tuples at each sink, by technique and rate."""
        return [
            {
                "technique": name,
                "rate": rate,
                "availability": answer.availability.mean,
                "sink": sink,
                "tainted": own.share.mean,
            }
            for (name, rate), answer in self.answers.items()
            for sink, own in answer.sinks.items()
        ]

    def save(self, out: Path | str) -> None:
        """`model.html`, `network.svg` and `results.json` in a directory."""
        self.write(Path(out))

    def write(self, out: Path) -> None:
        """`model.html`, `network.svg` and `results.json` into a directory."""
        by_technique: dict[str, dict[float, Any]] = {}
        for (name, rate), answer in self.answers.items():
            by_technique.setdefault(name, {})[rate] = answer
        settings = {
            "simulated": f"{self.hours:g} h",
            "crashes": f"{self.faults.crash_rate:g}/s",
            "corruptions": f"{self.faults.sdc_rate:g}/s",
            "recovery": f"{self.faults.recovery:g} s",
        }
        notes = ["A tainted tuple may be wrong; how wrong is not modelled."]
        if not self.stability:
            notes.append(
                "Not calibrated: a loss is assumed to cost the whole state. Use `calibrate` to fit it to the input."
            )
        first = next(iter(self.scenarios.values()))
        try:
            out = files.real(out)
            files.make(out)
            files.write_text(out / "model.html", model_report(self.application, by_technique, settings, notes))
            files.write_text(out / "network.svg", draw(build(first.deployment(), first.faults)))
            files.write_text(out / "results.json", json.dumps(self.as_json(), indent=2) + "\n")
        except OSError as error:
            raise UsageError(f"cannot write to {out}: {error.strerror}") from error


def model(
    graph: Graph,
    application: Application,
    protected: Mapping[str, tuple[ModelProtection, ...]],
    faults: Faults,
    hours: float,
    runner: Runner,
    *,
    rates: Sequence[float] = (),
    precision: Precision | None = None,
    method: Method = "accelerated",
    seed: int = 1,
    stability: Stabilities | None = None,
) -> Prediction:
    """Every protection at every source rate (tuples/s); by default at the recorded rate."""
    wanted = precision or Precision()
    rates = rates or [sum(operator.arrivals.rate for operator in application.operators if operator.arrivals)]
    scenarios = {
        (name, rate): ModelScenario(with_rate(application, rate), protection, faults, hours * 3600)
        for name, protection in protected.items()
        for rate in rates
    }
    labelled = {f"{name} at {rate:g}": scenario for (name, rate), scenario in scenarios.items()}
    results = study(labelled, wanted, runner, method=method, seed=seed)
    answers = dict(zip(scenarios, results.values(), strict=True))
    return Prediction(
        graph.name, application, faults, hours, wanted, method, seed, dict(stability or {}), scenarios, answers
    )


def describe_app(
    graph: Graph, inputs: Inputs, *, measured: Profile | None = None, calibrated: bool = False, seed: int = 1
) -> tuple[Application, Stabilities]:
    """An app as the model sees it, from a profile (given, or measured on the inputs), and the fitted parameters."""
    seen = measured
    if seen is None:
        seen = profile(graph, {s.name: keyed(read_file(Path(inputs[s.name])), s) for s in graph.sources})
    stability: Stabilities = {}
    if calibrated:
        stability = calibrate(graph, {s.name: keyed(read_file(Path(inputs[s.name])), s) for s in graph.sources}, seed)
    return describe(graph, seen, stability=stability), stability


def protections_of(
    graph: Graph,
    techniques: Sequence[str] = (),
    settings: Mapping[str, float] | None = None,
    groups: tuple[ModelProtection, ...] = (),
) -> dict[str, tuple[ModelProtection, ...]]:
    """By technique, for every operator that it can protect; without techniques, as annotated.

    `settings`: seconds of `failover`, `age` and `punctuation`; each technique uses those that it needs.
    """
    seconds = {"failover": 1.0, **(settings or {})}
    if not techniques:
        return {"as planned": (*protections(graph, seconds["failover"]), *groups)}
    inner = tuple(spec.name for spec in graph.operators if spec.kind not in ("source", "sink"))
    by_technique = {}
    for name in techniques:
        known = technique(name)
        own = {key: value for key, value in seconds.items() if key in known.SETTINGS}
        by_technique[known.NAME] = groups if name == "ha-group" and groups else (ModelProtection(name, inner, own),)
    return by_technique


@dataclass(frozen=True)
class AssessedImpact:
    """What an assessment found for each operator under its longest outage."""

    impact: Mapping[str, float] = field(default_factory=dict)
    outage: float = 0.0  # seconds
    state_kept: bool = False


def assessed_impact(directory: Path, graph: Graph) -> AssessedImpact:
    """The impacts in an assessment's directory; raises if it is of another app."""
    assessment = read_assessment(directory)
    if assessment.app != graph.name:
        raise UsageError(f"`against={directory}` is an assessment of {assessment.app}, not of {graph.name}")
    kept = all(Duration(0) in operator.impact for operator in assessment.operators.values())
    age = Duration(0) if kept else LOST
    rows = {name: op.impact.get(age) or next(iter(op.impact.values())) for name, op in assessment.operators.items()}
    impact = {name: own[-1][1] for name, own in rows.items() if name in graph}
    return AssessedImpact(impact, max(own[-1][0] for own in rows.values()) / 1e6, kept)
