"""The files that an assessment writes for the planner: `assessment.json` (see `riprap.planner.assessment_file`), and
`request.json`, with which the assessment can be repeated.

A target, alone or with others, has its own impact; any other operator has that of the target that it behaves like. An
assessment cannot know how often operators fail and assumes one failure a day for each: edit the file where you do.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from riprap.api.request import recorded_scores
from riprap.base import files
from riprap.base.documents import read_json
from riprap.base.errors import DataError
from riprap.base.quantities import Duration, format_duration
from riprap.base.shapes import shaped
from riprap.engine.inputs import keyed, read_file
from riprap.engine.profile import OperatorProfile, profile
from riprap.faults.campaign_summary import OutageSummary, TargetSummary
from riprap.faults.targets import TargetChoice
from riprap.graph.graph import Graph
from riprap.planner.json_input import as_object

FAILURES_PER_DAY = 1.0
_TEXT_BYTES = 8  # assumed size of a string


def write_impact(
    graph: Graph, inputs: Mapping[str, Path], placed: Iterable[TargetChoice], summaries: Iterable[TargetSummary],
    unassessable: Mapping[str, str], out: Path, resources: Mapping[str, Mapping[str, float]] | None = None,
) -> None:  # fmt: skip
    """Write `assessment.json` to `out`: the impact by outage and state; the resources of each operator, from a profile
    over the same input; and the operators that were not assessed, with the reason. `resources`: of each operator, if
    the app cannot be profiled.
    """
    impacts = _impacts(summaries)
    if resources is None:
        profiles = profile(graph, {s.name: keyed(read_file(inputs[s.name]), s) for s in graph.sources}).operators
        resources = {name: _resources(graph, row) for name, row in profiles.items()}
    operators, unassessed = {}, {}
    for place in placed:
        rows = impacts.get(place.operator) or impacts.get(place.like)
        if rows:
            operators[place.operator] = {
                "failures_per_day": FAILURES_PER_DAY,
                "impact": rows,
                **resources.get(place.operator, {}),
            }
        else:
            reason = unassessable.get(place.operator) or unassessable.get(place.like)
            unassessed[place.operator] = reason or place.reason
    content = {"app": graph.name, "operators": operators} | ({"unassessed": unassessed} if unassessed else {})
    files.write_text(out / "assessment.json", json.dumps(content, indent=2) + "\n")


def _impacts(summaries: Iterable[TargetSummary]) -> dict[str, list[dict[str, Any]]]:
    """By operator: the worst impact of each outage and state over rates and sinks, of failing alone if that was
    tried."""
    worst: dict[str, dict[tuple[str, Duration], OutageSummary]] = {}
    all_summaries = list(summaries)
    alone = {summary.target for summary in all_summaries}
    for summary in all_summaries:
        for name in summary.target.split("+"):
            if name != summary.target and name in alone:
                continue
            of_operator = worst.setdefault(name, {})
            for outage in summary.outages:
                known = of_operator.get((summary.outcome, outage.duration))
                if known is None or (outage.I, outage.R) > (known.I, known.R):
                    of_operator[summary.outcome, outage.duration] = outage
    return {
        name: [
            {
                "outage": format_duration(duration),
                **_left(outcome),
                "impact": max(0.0, float(outage.I)),
                **_quality_and_recovery(outage),
            }
            for (outcome, duration), outage in sorted(rows.items())
        ]
        for name, rows in worst.items()
    }


def _left(outcome: str) -> dict[str, str]:
    """How old the state is afterwards, and where tuples are lost."""
    if outcome == "fail-over":
        return {"state_age": "0s", "lost_at": "outputs"}
    return {"state_age": {"kept": "0s", "lost": "lost"}.get(outcome) or outcome[len("checkpoint(") : -1]}


def _quality_and_recovery(outage: OutageSummary) -> dict[str, Any]:
    """The quality score at the offset where it is farthest from 1, and the recovery time."""
    quality = float(outage.quality[int(np.argmax(np.abs(outage.quality - 1.0)))])
    return {"recovery": outage.R} | ({"quality": quality} if quality >= 0 and np.isfinite(quality) else {})


def _resources(graph: Graph, row: OperatorProfile) -> dict[str, float]:
    """Cores, bytes of state, bytes of a checkpoint, bytes/s of output."""
    width = sum(_width(f.type) for port in range(len(row.tuples_out)) for f in graph.physical(row.name, port))
    tuples_in, tuples_out = sum(row.tuples_in), sum(row.tuples_out)
    rate = sum(row.mean_rate)
    return {
        "cpu": row.seconds_per_tuple * rate,
        "memory": float(row.state_bytes),
        "state": float(row.state_bytes),
        "output": rate * (tuples_out / tuples_in if tuples_in else 0.0) * width,
    }


def _width(type_: pa.DataType) -> int:
    try:
        return max(1, type_.bit_width // 8)
    except ValueError:
        return _TEXT_BYTES


def write_request(request: Any, out: Path) -> None:
    """Write `request.json`, with which the assessment can be repeated under a plan."""
    names = [field.name for field in fields(request) if field.name not in ("app", "inputs", "plan", "command")]
    stored: dict[str, Any] = {name: getattr(request, name) for name in names}
    stored["osf"] = _texts(request.osf)
    stored["inputs"] = {name: str(path) for name, path in request.inputs.items()}
    files.write_text(out / "request.json", json.dumps(stored, indent=2) + "\n")


def _texts(osf: Any) -> Any:
    """Score functions as text; a user's function as its module and name."""
    if callable(osf):
        return f"{osf.__module__}:{osf.__qualname__}"
    if isinstance(osf, Mapping):
        return {sink: _texts(score) for sink, score in osf.items()}
    return osf if isinstance(osf, str) else [_texts(score) for score in osf]


def read_request(directory: Path, request_type: type[Any], graph: Graph, plan: Path, osf: Any = ()) -> Any:
    """The request of an earlier assessment, under a plan. `osf`: score functions, if the user gives them."""
    path = files.real(directory) / "request.json"
    names = {field.name for field in fields(request_type)}
    try:
        stored = {
            name: value for name, value in as_object(read_json(path, own=True), str(path)).items() if name in names
        }
        now = {"app": graph, "plan": plan, "command": "riprap plan --reassess"}
        request = shaped(request_type, stored | now, str(path))
    except DataError as error:
        raise DataError(f"{error}; the assessment cannot be repeated: run `riprap assess` again") from error
    return replace(request, osf=osf or recorded_scores(request.osf, directory))
