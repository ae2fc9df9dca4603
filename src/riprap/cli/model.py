"""`riprap model`: availability and wrong tuples over hours of faults, for any technique, before it is deployed."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from riprap.base.errors import UsageError
from riprap.cli.inputs import AppName, AsJson, InputPaths, PlanFile, Seed, Tuples, input_paths, planned_app
from riprap.cli.model_options import groups_of, hosts_of, rates_of
from riprap.cli.outputs import output_directory

if TYPE_CHECKING:
    from riprap.engine.profile import Profile
    from riprap.graph.graph import Graph
    from riprap.san.streaming.describe import Stability
    from riprap.san.streaming.scenario import Protection


def command(
    app: AppName,
    technique: Annotated[
        list[str] | None,
        typer.Option(
            "--technique",
            help="none, checkpoint, ha-group or full-replication, for every operator it can protect; "
            "give it several times to compare.",
            show_default="what code and plan say",
        ),
    ] = None,
    plan: PlanFile = None,
    profile: Annotated[
        Path | None, typer.Option("--profile", help="A profile (TOML) instead of measuring one.")
    ] = None,
    input: InputPaths = None,
    tuples: Tuples = 500_000,
    seed: Seed = 1,
    crash_rate: Annotated[float, typer.Option("--crash-rate", help="Crashes per second of each operator.")] = 0.0,
    sdc_rate: Annotated[
        float, typer.Option("--sdc-rate", help="Silent corruptions per second of each operator.")
    ] = 0.0,
    recovery: Annotated[str, typer.Option("--recovery", help="From a crash to running again.")] = "3.5s",
    hours: Annotated[float, typer.Option("--hours", help="Simulated time.")] = 2.0,
    rates: Annotated[
        str | None, typer.Option("--rates", help="Source tuples/s, comma-separated.", show_default="as recorded")
    ] = None,
    confidence: Annotated[str, typer.Option("--confidence", help="Of the intervals.")] = "95%",
    precision: Annotated[
        str, typer.Option("--precision", help="Stop when every interval's half-width is this share.")
    ] = "5%",
    runs: Annotated[str, typer.Option("--runs", help="At least and at most so many runs per point.")] = "200-5000",
    method: Annotated[
        str, typer.Option("--method", help="accelerated, or tokens: tuple by tuple, slowly.")
    ] = "accelerated",
    calibrate: Annotated[
        bool, typer.Option("--calibrate", help="Fit from the input how state gets right again after losses.")
    ] = False,
    master: Annotated[str | None, typer.Option("--master", help="Spark master.", show_default="embedded local")] = None,
    failover: Annotated[str, typer.Option("--failover", help="Until a replica of an HA group has taken over.")] = "1s",
    checkpoint_age: Annotated[
        str, typer.Option("--checkpoint-age", help="Between the last checkpoint and a crash.")
    ] = "1s",
    punctuation: Annotated[
        str, typer.Option("--punctuation", help="Under full replication: between clearings of the duplicate counters.")
    ] = "15s",
    crash_rate_of: Annotated[
        list[str] | None, typer.Option("--crash-rate-of", help="OPERATOR=RATE, for one with a crash rate of its own.")
    ] = None,
    sdc_rate_of: Annotated[
        list[str] | None, typer.Option("--sdc-rate-of", help="OPERATOR=RATE, the same for silent corruptions.")
    ] = None,
    host: Annotated[
        list[str] | None, typer.Option("--host", help="HOST=A,B@RATE: operators that a machine takes down together.")
    ] = None,
    group: Annotated[
        list[str] | None,
        typer.Option("--group", help="GROUP=A,B: with --technique ha-group, who is replicated together."),
    ] = None,
    poisson: Annotated[bool, typer.Option("--poisson", help="Source tuples come at random instead of evenly.")] = False,
    against: Annotated[
        Path | None, typer.Option("--against", help="An assessment's directory: do both rank the operators alike?")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Directory for model.html, network.svg and results.json.")
    ] = None,
    json: AsJson = False,
) -> None:
    """Predict what faults do to an app over time: availability, tainted tuples, resources."""
    from riprap.base.quantities import parse_duration, parse_number, parse_share, parse_whole
    from riprap.cli.console import print_json
    from riprap.cli.progress import spark_runner
    from riprap.san.statistics import Precision
    from riprap.san.streaming.describe import describe, with_poisson, with_rate
    from riprap.san.streaming.faults import Faults
    from riprap.san.streaming.scenario import Scenario
    from riprap.san.streaming.study import study

    # Whatever can be wrong with the question is found before anything is measured.
    output_directory(out)
    parse_number(str(hours), "--hours", least=1 / 3600, most=1e6)
    for option, rate in (("--crash-rate", crash_rate), ("--sdc-rate", sdc_rate)):
        parse_number(str(rate), option, most=1e6)
    low, _, high = runs.partition("-")
    most = 10_000_000
    wanted = Precision(
        parse_share(confidence, "--confidence"),
        parse_share(precision, "--precision"),
        parse_whole(low, "--runs", least=1, most=most),
        parse_whole(high or low, "--runs", least=1, most=most),
    )
    asked = _rates(rates)
    if method not in ("accelerated", "tokens"):
        raise UsageError(f"--method {method} is unknown; there are accelerated and tokens")
    graph = planned_app(app, plan)
    faults = Faults(
        crash_rate,
        sdc_rate,
        parse_duration(recovery) / 1e6,
        crash_rates=rates_of(crash_rate_of, "--crash-rate-of", graph),
        sdc_rates=rates_of(sdc_rate_of, "--sdc-rate-of", graph),
        hosts=hosts_of(host, graph),
    )
    settings = {
        "failover": parse_duration(failover) / 1e6,
        "age": parse_duration(checkpoint_age) / 1e6,
        "punctuation": parse_duration(punctuation) / 1e6,
    }
    assessed = _assessed(against, graph) if against is not None else None
    protections = _protections(graph, technique, settings, groups_of(group, settings["failover"], graph))
    measured = _profile(graph, profile, input, tuples, seed)
    stability = _calibration(graph, input, tuples, seed) if calibrate or assessed is not None else {}
    application = describe(graph, measured, stability=stability)
    if poisson:
        application = with_poisson(application)
    if assessed is not None:
        _print_agreement(application, assessed, seed, as_json=json)
        return
    asked = asked or [sum(each.arrivals.rate for each in application.operators if each.arrivals)]
    scenarios = {
        (name, rate): Scenario(with_rate(application, rate), protection, faults, hours * 3600)
        for name, protection in protections.items()
        for rate in asked
    }
    with spark_runner(master, f"modelling {graph.name}", quiet=json) as runner:
        labelled = {f"{name} at {rate:g}": scenario for (name, rate), scenario in scenarios.items()}
        found = study(labelled, wanted, runner, method=method, seed=seed)  # type: ignore[arg-type]
    answers = dict(zip(scenarios, found.values(), strict=True))
    rows = [{"technique": name, "rate": rate, **asdict(answer)} for (name, rate), answer in answers.items()]
    result = {
        "app": graph.name,
        "hours": hours,
        "crash_rate": crash_rate,
        "sdc_rate": sdc_rate,
        "recovery_seconds": faults.recovery,
        "confidence": wanted.confidence,
        "method": method,
        "seed": seed,
        "calibration": [
            {"operator": name, "port": port, **asdict(fitted)} for (name, port), fitted in stability.items()
        ],
        "answers": rows,
    }
    if out is not None:
        _write(out, application, answers, scenarios, result)
    if json:
        print_json(result)
    else:
        _print(result, answers)


def _profile(graph: "Graph", given: Path | None, input: list[str] | None, tuples: int, seed: int) -> "Profile":
    """The profile of a file, or one measured now."""
    from riprap.engine.inputs import keyed, read_file
    from riprap.engine.profile import profile
    from riprap.san.streaming.describe import read_profile

    if given is not None:
        return read_profile(given)
    paths = input_paths(graph, input, tuples, seed)
    return profile(graph, {source.name: keyed(read_file(paths[source.name]), source) for source in graph.sources})


def _calibration(graph: "Graph", input: list[str] | None, tuples: int, seed: int) -> "dict[tuple[str, int], Stability]":
    from riprap.engine.inputs import keyed, read_file
    from riprap.san.streaming.calibrate import calibrate

    paths = input_paths(graph, input, tuples, seed)
    return calibrate(
        graph, {source.name: keyed(read_file(paths[source.name]), source) for source in graph.sources}, seed
    )


def _protections(
    graph: "Graph",
    techniques: list[str] | None,
    settings: dict[str, float],
    groups: "tuple[Protection, ...]",
) -> "dict[str, tuple[Protection, ...]]":
    """By technique, or what the annotations say."""
    from riprap.san.streaming.describe import protections
    from riprap.san.streaming.scenario import Protection
    from riprap.san.streaming.techniques import technique

    if not techniques:
        planned = protections(graph, settings["failover"])
        return {"as planned": (*planned, *groups)}
    inner = tuple(spec.name for spec in graph.operators if spec.kind not in ("source", "sink"))
    found = {}
    for name in techniques:
        known = technique(name)
        own = {key: value for key, value in settings.items() if key in known.SETTINGS}
        found[known.NAME] = groups if name == "ha-group" and groups else (Protection(name, inner, own),)
    return found


def _assessed(directory: Path, graph: "Graph") -> "tuple[dict[str, float], float, bool]":
    """I of each operator under the longest outage assessed, that outage in seconds, and whether state is kept."""
    from riprap.base.quantities import Duration
    from riprap.planner.assessment import LOST, read_assessment

    found = read_assessment(directory)
    if found.app != graph.name:
        raise UsageError(f"--against {directory} is an assessment of {found.app}, not of {graph.name}")
    kept = all(Duration(0) in each.impact for each in found.operators.values())
    age = Duration(0) if kept else LOST
    rows = {name: each.impact.get(age) or next(iter(each.impact.values())) for name, each in found.operators.items()}
    impact = {name: own[-1][1] for name, own in rows.items() if name in graph}
    return impact, max(own[-1][0] for own in rows.values()) / 1e6, kept


def _print_agreement(
    application: Any, assessed: "tuple[dict[str, float], float, bool]", seed: int, *, as_json: bool
) -> None:
    from rich.table import Table

    from riprap.cli.console import OUT, print_json
    from riprap.san.streaming.against import agreement

    impact, outage, kept = assessed
    found = agreement(application, impact, outage, state_kept=kept, seed=seed)
    if as_json:
        operators = {name: {"tainted": found.tainted[name], "I": found.impact[name]} for name in found.impact}
        print_json({"outage_seconds": outage, "operators": operators, "rank_correlation": found.correlation})
        return
    table = Table(box=None, title=f"One outage of {outage:g} s of each operator", title_justify="left")
    for heading in ("operator", "tainted tuples (model)", "I (assessment)"):
        table.add_column(heading, justify="left" if heading == "operator" else "right")
    for name in sorted(found.impact, key=lambda name: -found.impact[name]):
        table.add_row(name, f"{found.tainted[name]:,.0f}", f"{found.impact[name]:.2f}")
    OUT.print(table)
    rank = "all operators are alike in one of the two" if found.correlation is None else f"{found.correlation:.2f}"
    OUT.print(f"rank correlation (Spearman): {rank}", markup=False)


def _rates(text: str | None) -> list[float]:
    if text is None:
        return []
    from riprap.base.quantities import parse_number

    return [parse_number(part, "--rates", least=0.001, most=1e12) for part in text.split(",")]


def _write(out: Path, application: Any, answers: Any, scenarios: Any, result: dict[str, Any]) -> None:
    import json

    from riprap.report.model import model_report
    from riprap.san.drawing import draw
    from riprap.san.streaming.template import build

    by_technique: dict[str, dict[float, Any]] = {}
    for (name, rate), answer in answers.items():
        by_technique.setdefault(name, {})[rate] = answer
    settings = {
        "simulated": f"{result['hours']:g} h",
        "crashes": f"{result['crash_rate']:g}/s",
        "corruptions": f"{result['sdc_rate']:g}/s",
        "recovery": f"{result['recovery_seconds']:g} s",
    }
    notes = ["A tainted tuple may be wrong; how wrong is not modelled."]
    if not result["calibration"]:
        notes.append(
            "Not calibrated: a loss is taken to cost the whole state. Use --calibrate to fit it from recorded data."
        )
    first = next(iter(scenarios.values()))
    try:
        out.mkdir(parents=True, exist_ok=True)
        (out / "model.html").write_text(model_report(application, by_technique, settings, notes))
        (out / "network.svg").write_text(draw(build(first.deployment(), first.faults)))
        (out / "results.json").write_text(json.dumps(result, indent=2) + "\n")
    except OSError as error:
        raise UsageError(f"cannot write to {out}: {error.strerror}") from error


def _print(result: dict[str, Any], answers: Any) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from riprap.cli.console import OUT

    title = f"{result['app']} over {result['hours']:g} h: crashes {result['crash_rate']:g}/s, "
    title += f"corruptions {result['sdc_rate']:g}/s"
    table = Table(title=title, box=SIMPLE_HEAD, pad_edge=False)
    several = any(len(answer.sinks) > 1 for answer in answers.values())
    for heading in (
        "technique",
        "tuples/s",
        *(["sink"] if several else []),
        "availability",
        "tainted",
        "share",
        "copies",
    ):
        table.add_column(heading, justify="left" if heading in ("technique", "sink") else "right", no_wrap=True)
    for (name, rate), answer in answers.items():
        for sink, stored in answer.sinks.items():
            table.add_row(
                name,
                f"{rate:,.0f}",
                *([sink] if several else []),
                f"{answer.availability.mean:.4f} ±{answer.availability.half_width:.4f}",
                f"{stored.tainted.mean:,.0f} ±{stored.tainted.half_width:,.0f}",
                f"{stored.share.mean:.2%}",
                f"{answer.resources['instances']:g}",
            )
    OUT.print(table)
