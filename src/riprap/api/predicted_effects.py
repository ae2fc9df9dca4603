"""The effects of a proof's faults: predicted by an assessment and the model, and measured."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from riprap.api.model import describe_app
from riprap.api.request import OutputScores, recorded_scores, score_functions
from riprap.base import files
from riprap.base.documents import read_json
from riprap.base.errors import DataError, UsageError
from riprap.base.shapes import shaped
from riprap.engine.inputs import keyed, read_file
from riprap.faults.scoring import Score
from riprap.graph.graph import Graph
from riprap.graph.order_keys import TS
from riprap.planner.assessment_file import AssessedApp, read_assessment
from riprap.planner.json_input import as_object
from riprap.proof.effects import ErrorSettings, InjectedFault, measured, sections
from riprap.proof.expected_effects import Modelled, effect_predictor, model_of, orders
from riprap.proof.oracle import Differing, SinkRows
from riprap.proof.prediction import Predictions
from riprap.proof.verdict import FaultResult, Proof


@dataclass(frozen=True)
class Assessed:
    """An assessment, and how it scored the output."""

    found: AssessedApp
    judging: ErrorSettings
    osf: Any  # output score functions, as in the request


@dataclass(frozen=True)
class _Scoring:
    """The entries of `request.json` that set how an assessment scores output."""

    section: int
    threshold: float
    percentile: float
    signed: bool
    errors: Literal["absolute", "over"]
    osf: str | Sequence[str] | Mapping[str, str] = ()


def read_assessed(directory: Path, graph: Graph, osf: OutputScores = ()) -> Assessed:
    """Reads the directory of an assessment; raises if it is of another app. `osf`: the user's own functions."""
    assessment = read_assessment(directory)
    if assessment.app != graph.name:
        raise UsageError(f"{directory} is an assessment of {assessment.app}, not of {graph.name}: give one of this app")
    path = files.real(directory if directory.is_dir() else directory.parent) / "request.json"
    if not files.exists(path):
        return Assessed(assessment, ErrorSettings(), osf)
    names = {field.name for field in fields(_Scoring)}
    stored = {name: value for name, value in as_object(read_json(path, own=True), str(path)).items() if name in names}
    try:
        asked = shaped(_Scoring, stored, str(path))
        if not (asked.section >= 1 and asked.threshold >= 0 and 0 < asked.percentile <= 100):
            raise DataError(f"{path}: section, threshold or percentile is out of range")
    except (DataError, UsageError) as error:
        raise DataError(f"{error}; it is not a request of this version of riprap: assess the app again") from None
    osf = osf or recorded_scores(asked.osf, directory)
    score_functions(graph, osf)  # raises before anything starts
    judging = ErrorSettings(
        asked.section, asked.threshold, asked.percentile / 100, asked.signed, asked.errors == "over"
    )
    return Assessed(assessment, judging, osf)


def with_effects(
    proof: Proof,
    graph: Graph,
    members: Mapping[str, tuple[str, ...]],
    assessed: Assessed,
    predicted: Predictions,
    scores: Mapping[str, Score],
    inputs: Mapping[str, Path],
    rate: float,
    rows: tuple[Mapping[str, pa.Table], Mapping[str, SinkRows], Mapping[str, Differing]],
) -> Proof:
    """The proof, with the predicted and the measured effect of each fault on the output.

    `members`: the operators of each element; `rate`: tuples a second of the longest source; `rows`: by sink, the
    expected rows, the found rows, and where they differ. `scores`: the user's own; if empty, those of the assessment.
    """
    expected, found, differing = rows
    instants = [_instants(graph, name, path) for name, path in inputs.items()]
    cut = sections(instants, assessed.judging.section, rate)
    functions = scores or score_functions(graph, assessed.osf)
    faults = sorted(proof.faults, key=lambda result: float("inf") if result.ran is None else result.ran)
    struck = [_struck(result) for result in faults]
    tables = {name: each.rows for name, each in found.items()}
    effects = measured(struck, cut, assessed.judging, functions, expected, tables, differing)
    lossless = {pe for pe, what in proof.summary["pes"].items() if what["delivery"] == "exactly once"}
    foresee = effect_predictor(
        graph, members, lossless, assessed.found, _model(graph, inputs, proof.seed),
        restart=predicted.restart, recovery=predicted.recovery,
    )  # fmt: skip
    ended = len(cut.clock) / rate
    ahead = [
        None if one is None else foresee(result.fault, _until_next(struck[number + 1 :], one, ended))
        for number, (result, one) in enumerate(zip(faults, struck, strict=True))
    ]
    results = tuple(
        replace(result, predicted_effect=before, effect=after)
        for result, before, after in zip(faults, ahead, effects, strict=True)
    )
    alone = [
        (r.fault.targets[0], r.predicted_effect, r.effect)
        for r in results
        if len(r.fault.targets) == 1 and r.predicted_effect
    ]
    return replace(proof, faults=results, orders=orders(alone))


def _model(graph: Graph, inputs: Mapping[str, Path], seed: int) -> Modelled:
    """Built at the first call, since it profiles the app."""
    made: list[Modelled] = []

    def modelled(operators: tuple[str, ...], outage: float, seconds: float) -> tuple[float, float]:
        if not made:
            made.append(model_of(describe_app(graph, inputs)[0], graph, seed))
        return made[0](operators, outage, seconds)

    return modelled


def _struck(result: FaultResult) -> InjectedFault | None:
    if result.ran is None or result.began is None:
        return None
    return InjectedFault(result.ran, None if result.running is None else result.ran + result.running - result.began)


def _until_next(later: Sequence[InjectedFault | None], one: InjectedFault, ended: float) -> float:
    """Seconds until the next fault starts or the input ends."""
    following = next((other.began for other in later if other is not None), ended)
    return max(following - one.began, 0.1)


def _instants(graph: Graph, source: str, path: Path) -> np.ndarray:
    spec = next(each for each in graph.sources if each.name == source)
    parts = [batch.column(TS).cast(pa.int64()).to_numpy() for batch in keyed(read_file(path), spec)]
    return np.concatenate(parts) if parts else np.zeros(1, np.int64)
