"""The request of an assessment, and the settings of its campaign.

Offsets are numbers of tuples, or shares of the stream: a fraction between 0 and 1. Output score functions are texts
(`sum(gain)`, or `module:function` for one of the user's own) or Python functions: one for an app with one sink,
`SINK=FUNCTION` for several, or a mapping from sinks to functions.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path

from riprap.apps.catalogue import load_function
from riprap.base.errors import UsageError, known
from riprap.base.quantities import Duration, parse_duration
from riprap.engine.inputs import count_rows
from riprap.faults.campaign_settings import (
    CampaignSettings,
    Rate,
    check_settings,
    counts_jitter_in_tuples,
    planned_targets,
)
from riprap.faults.models import parse_kind, state_after
from riprap.faults.score_functions import ScoreFunction, described
from riprap.faults.scoring import Score, default_score, parse_score
from riprap.faults.targets import chosen_targets
from riprap.graph.graph import Graph

_FUNCTION = re.compile(r"[\w.]+:\w+")
_CODE = re.compile(r"[\w.]+:")
OutputScores = Mapping[str, str | ScoreFunction] | Sequence[str] | str | ScoreFunction


@dataclass(frozen=True)
class Scale:
    """Defaults for the size of an assessment."""

    tuples: int  # of generated data
    offsets: tuple[float, ...]  # as shares of the stream
    outages: tuple[str, ...]
    reps: int
    golden: int


SCALES: Mapping[str, Scale] = {
    "demo": Scale(500_000, (0.2, 0.5, 0.8), ("0.5s", "2s", "8s", "16s"), 2, 20),
    "paper": Scale(5_000_000, (0.1, 0.3, 0.5, 0.7, 0.9), ("0.5s", "1s", "2s", "4s", "8s", "16s"), 5, 300),
}


@dataclass(frozen=True)
class AssessRequest:
    """What the user wants to assess; None: as in the scale. Texts are as on the command line."""

    app: str | Graph
    inputs: Mapping[str, Path]
    scale: str = "demo"
    fault: str = "loss"
    state: str = "planned"
    targets: str = "auto"
    offsets: Sequence[float] | None = None  # tuples, or shares of the stream
    outages: Sequence[str] | None = None
    rates: Sequence[str] = ("average", "peak")
    reps: int | None = None
    golden: int | None = None
    section: int = 5_000
    threshold: float = 0.03
    percentile: float = 90.0
    seed: int = 2
    osf: OutputScores = ()
    jitter: int | None = None
    plan: Path | None = None
    failover: str = "2s"
    signed: bool = False
    command: str = ""
    reassess: bool = True  # under the proposed plan, if none is given
    errors: str = "absolute"  # over: underestimates count as 0


def settings_of(graph: Graph, request: AssessRequest, tuples: int | None = None) -> CampaignSettings:
    """The request as settings of a campaign; raises if invalid. `tuples`: size of input that is not generated yet."""
    if request.scale not in SCALES:
        raise UsageError(f"scale {request.scale} is unknown; known: {known(SCALES, request.scale)}")
    scale = SCALES[request.scale]
    kind = parse_kind(request.fault)
    scores = _scores(graph, request.osf)
    state = state_after(kind, request.state)
    targets = tuple(
        target
        for name in chosen_targets(graph, request.targets, kind, scores, state)
        for target in planned_targets(graph, tuple(name.split("+")), state)
    )
    if tuples is None:
        tuples = sum(count_rows(path) for path in request.inputs.values())
    offsets = [_offset(offset, tuples) for offset in (scale.offsets if request.offsets is None else request.offsets)]
    rates: list[Rate] = []
    for text in request.rates:
        if text not in ("average", "peak"):
            raise UsageError(f"rate {text} is unknown; known: average, peak")
        rates.append("average" if text == "average" else "peak")
    reps = request.reps if request.reps is not None else scale.reps
    if request.errors not in ("absolute", "over"):
        raise UsageError(f"`errors={request.errors}` is unknown; known: absolute, over")
    bound = request.jitter if request.jitter is not None else 10
    in_tuples = counts_jitter_in_tuples(graph)
    parse_duration(request.failover)
    settings = CampaignSettings(
        targets=targets,
        offsets=tuple(sorted(set(offsets))),
        scores=scores,
        fault=kind,
        outages=tuple(sorted({parse_duration(text) for text in request.outages or scale.outages})),
        rates=tuple(dict.fromkeys(rates)),
        reps=reps,
        golden=request.golden if request.golden is not None else max(scale.golden, reps),
        section=request.section,
        threshold=request.threshold,
        percentile=request.percentile / 100,
        seed=request.seed,
        jitter_tuples=bound if in_tuples else None,
        jitter_time=None if in_tuples else Duration(bound * 2_000),
        signed=request.signed,
        errors="over" if request.errors == "over" else "absolute",
    )
    check_settings(settings, tuples)
    return settings


def _offset(given: float, tuples: int) -> int:
    """Tuples before a fault."""
    if isfinite(given) and given == int(given) and not (isinstance(given, float) and given == 1):
        return int(given)
    if not 0 < given < 1:
        raise UsageError(
            f"offset {given}: write a whole number of tuples, as in 500000, "
            "or a share of the stream between 0 and 1, as in 0.3"
        )
    return round(given * tuples)


def functions_of(graph: Graph, request: AssessRequest) -> dict[str, ScoreFunction]:
    """The user's own score functions, by sink: given as functions, or as `module:function`."""
    return {name: score for name, score in _scores_by_sink(graph, request.osf).items() if not isinstance(score, str)}


def score_functions(graph: Graph, osf: OutputScores) -> dict[str, Score]:
    """The score function of each sink; without any, every sink has its default."""
    return {
        name: parse_score(given if isinstance(given, str) else described(given), graph.input_schemas(name)[0], name,
                          None if isinstance(given, str) else given)
        for name, given in _scores_by_sink(graph, osf).items()
    }  # fmt: skip


def recorded_scores(osf: str | Sequence[str] | Mapping[str, str], directory: Path) -> OutputScores:
    """The score functions in the files of an assessment; raises if one names code, which only the user may do."""
    texts = [osf] if isinstance(osf, str) else [*(osf.values() if isinstance(osf, Mapping) else osf)]
    for text in texts:
        if _CODE.match(text.rpartition("=")[2]):
            raise UsageError(
                f"{directory} was assessed with the function {text}, and code is never loaded from a directory: "
                f"give it again with `osf={text}`"
            )
    return osf


def _scores(graph: Graph, osf: OutputScores) -> dict[str, str]:
    """The output score function of each assessed sink as text; for a function, with a digest of its code."""
    scores: dict[str, str] = {}
    for name, given in _scores_by_sink(graph, osf).items():
        function = None if isinstance(given, str) else given
        scores[name] = given if isinstance(given, str) else described(given)
        parse_score(scores[name], graph.input_schemas(name)[0], name, function)
    return scores


def _scores_by_sink(graph: Graph, osf: OutputScores) -> dict[str, str | ScoreFunction]:
    """Texts or functions, by sink; without any, every sink has its default."""
    names = [sink.name for sink in graph.sinks]
    if not names:
        raise UsageError(f"app {graph.name} has no sink, so there is no output to score; add stream.sink(name)")
    given: dict[str, str | ScoreFunction] = {}
    if isinstance(osf, Mapping):
        for name in osf:
            if name not in names:
                raise UsageError(
                    f"osf names {name}, which is not a sink of {graph.name}; the sinks are {known(names, str(name))}"
                )
        given = dict(osf)
    else:
        for each in [osf] if isinstance(osf, str) or callable(osf) else osf:
            name, equals, function = each.partition("=") if isinstance(each, str) else ("", "", each)
            if not equals or name not in names:
                if len(names) > 1:
                    raise UsageError(f"`osf={each}`: write SINK=FUNCTION; the sinks are {known(names, name)}")
                name, function = names[0], each
            given[name] = function
    for name, function in given.items():
        if isinstance(function, str):
            given[name] = load_function(function) if _FUNCTION.fullmatch(function) else function
        elif not callable(function):
            raise UsageError(f"the output score function of {name} is {function!r}; write sum(gain), or a function")
    return given or {name: default_score(graph.input_schemas(name)[0]) for name in names}
