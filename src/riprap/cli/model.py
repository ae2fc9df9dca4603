"""`riprap model`: predicts availability and tainted tuples over hours of faults, before a technique is deployed."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from riprap.base.errors import UsageError
from riprap.cli.app_options import AppName, AsJson, InputPaths, PlanFile, Seed, Tuples, input_paths, planned_app
from riprap.cli.model_options import groups_of, hosts_of, hosts_of_layout, rates_of
from riprap.cli.output_paths import output_directory

if TYPE_CHECKING:
    from riprap.api.model import AssessedImpact, Prediction
    from riprap.san.streaming.application import Application


def command(
    app: AppName,
    technique: Annotated[
        list[str] | None,
        typer.Option(
            "--technique",
            help="none, checkpoint, ha-group or full-replication, for every operator it can protect. "
            "Repeat to compare.",
            show_default="as in code and plan",
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
    recovery: Annotated[str, typer.Option("--recovery", help="Time from a crash until it runs again.")] = "3.5s",
    hours: Annotated[float, typer.Option("--hours", help="Simulated time.")] = 2.0,
    rates: Annotated[
        str | None, typer.Option("--rates", help="Source tuples/s, comma-separated.", show_default="as recorded")
    ] = None,
    confidence: Annotated[str, typer.Option("--confidence", help="Confidence level of the intervals.")] = "95%",
    precision: Annotated[
        str, typer.Option("--precision", help="Stop when the relative half-width of every interval is this.")
    ] = "5%",
    runs: Annotated[str, typer.Option("--runs", help="Fewest and most runs per point.")] = "200-5000",
    method: Annotated[
        str, typer.Option("--method", help="accelerated, or tokens: every tuple, slowly.")
    ] = "accelerated",
    calibrate: Annotated[
        bool, typer.Option("--calibrate", help="Fit from the input how state recovers after losses.")
    ] = False,
    master: Annotated[str | None, typer.Option("--master", help="Spark master.", show_default="embedded local")] = None,
    failover: Annotated[str, typer.Option("--failover", help="Time in which an HA group fails over.")] = "1s",
    checkpoint_age: Annotated[
        str, typer.Option("--checkpoint-age", help="Time between the last checkpoint and a crash.")
    ] = "1s",
    punctuation: Annotated[
        str, typer.Option("--punctuation", help="Full replication: time between resets of the duplicate counters.")
    ] = "15s",
    crash_rate_of: Annotated[
        list[str] | None, typer.Option("--crash-rate-of", help="OPERATOR=RATE: crash rate of one operator.")
    ] = None,
    sdc_rate_of: Annotated[
        list[str] | None, typer.Option("--sdc-rate-of", help="OPERATOR=RATE: silent corruption rate of one operator.")
    ] = None,
    host: Annotated[
        list[str] | None, typer.Option("--host", help="HOST=A,B@RATE: operators of one machine, which fail together.")
    ] = None,
    hosts: Annotated[
        str | None,
        typer.Option("--hosts", help="FUSE@RATE: the operators of each element of `run --fuse FUSE` fail together."),
    ] = None,
    group: Annotated[
        list[str] | None,
        typer.Option("--group", help="GROUP=A,B: with --technique ha-group, operators replicated together."),
    ] = None,
    poisson: Annotated[bool, typer.Option("--poisson", help="Source tuples arrive at random, not evenly.")] = False,
    against: Annotated[
        Path | None, typer.Option("--against", help="Directory of an assessment: compare its ranking of the operators.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Directory for model.html, network.svg and results.json.")
    ] = None,
    json: AsJson = False,
) -> None:
    """Predict what faults do to an app over time: availability, tainted tuples, resources."""
    from riprap.api.model import assessed_impact, describe_app, model, protections_of
    from riprap.base.quantities import parse_duration, parse_number, parse_share, parse_whole
    from riprap.cli.console import print_json
    from riprap.cli.progress import spark_runner
    from riprap.san.statistics import Precision
    from riprap.san.streaming.describe import read_profile, with_poisson
    from riprap.san.streaming.failures import Faults

    # Invalid arguments are refused before anything is measured.
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
    source_rates = _rates(rates)
    if method not in ("accelerated", "tokens"):
        raise UsageError(f"--method {method} is unknown; known: accelerated, tokens")
    graph = planned_app(app, plan)
    faults = Faults(
        crash_rate,
        sdc_rate,
        parse_duration(recovery) / 1e6,
        crash_rates=rates_of(crash_rate_of, "--crash-rate-of", graph),
        sdc_rates=rates_of(sdc_rate_of, "--sdc-rate-of", graph),
        hosts=hosts_of(host, graph) + hosts_of_layout(hosts, graph),
    )
    settings = {
        "failover": parse_duration(failover) / 1e6,
        "age": parse_duration(checkpoint_age) / 1e6,
        "punctuation": parse_duration(punctuation) / 1e6,
    }
    assessed = assessed_impact(against, graph) if against is not None else None
    protected = protections_of(graph, technique or (), settings, groups_of(group, settings["failover"], graph))
    measured = read_profile(profile) if profile is not None else None
    fitted = calibrate or assessed is not None
    inputs = input_paths(graph, input, tuples, seed) if profile is None or fitted else {}
    application, stability = describe_app(graph, inputs, measured=measured, calibrated=fitted, seed=seed)
    if poisson:
        application = with_poisson(application)
    if assessed is not None:
        _print_agreement(application, assessed, seed, as_json=json)
        return
    with spark_runner(master, f"modelling {graph.name}", quiet=json) as runner:
        found = model(
            graph, application, protected, faults, hours, runner,
            rates=source_rates, precision=wanted, method=method, seed=seed, stability=stability,  # type: ignore[arg-type]
        )  # fmt: skip
    if out is not None:
        found.write(out)
    if json:
        print_json(found.as_json())
    else:
        _print(found)


def _print_agreement(application: "Application", assessed: "AssessedImpact", seed: int, *, as_json: bool) -> None:
    from rich.table import Table

    from riprap.cli.console import OUT, print_json
    from riprap.san.streaming.against import agreement

    outage = assessed.outage
    found = agreement(application, assessed.impact, outage, state_kept=assessed.state_kept, seed=seed)
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
    rank = (
        "undefined, all operators are equal in one of the rankings"
        if found.correlation is None
        else f"{found.correlation:.2f}"
    )
    OUT.print(f"rank correlation (Spearman): {rank}", markup=False)


def _rates(text: str | None) -> list[float]:
    if text is None:
        return []
    from riprap.base.quantities import parse_number

    return [parse_number(part, "--rates", least=0.001, most=1e12) for part in text.split(",")]


def _print(found: "Prediction") -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from riprap.cli.console import OUT

    answers, faults = found.answers, found.faults
    title = f"{found.app} over {found.hours:g} h: crashes {faults.crash_rate:g}/s, "
    title += f"corruptions {faults.sdc_rate:g}/s"
    table = Table(title=title, box=SIMPLE_HEAD, pad_edge=False)
    several = any(len(answer.sinks) > 1 for answer in answers.values())
    for heading in (
        "technique",
        "tuples/s",
        *(["sink"] if several else []),
        "availability",
        "tainted",
        "share",
        "instances",
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
