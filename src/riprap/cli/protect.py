"""`riprap protect`: from what the output of an app may suffer to the cheapest plan, its price, and the proof."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from riprap.cli.app_options import AppName, AsJson, InputPaths, Seed, Tuples, input_paths

if TYPE_CHECKING:
    from riprap.proof.protection_results import Protection

_STEPS = ("measure", "assess", "plan", "prove", "report")


def command(
    app: AppName,
    slo: Annotated[Path | None, typer.Option(help="What the output may suffer (TOML).", show_default=False)] = None,
    input: InputPaths = None,
    score: Annotated[
        list[str] | None,
        typer.Option(help="Score of a sink's output: SINK=sum(gain), SINK=module:function.", show_default=False),
    ] = None,
    kills: Annotated[int, typer.Option(help="Kills of each element in the proof.", min=1, max=1000)] = 5,
    speed: Annotated[
        float | None, typer.Option(help="Seconds of data per second.", show_default="1 where that fits")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Shorter measurements, and one kill of each element.")] = False,
    worst: Annotated[bool, typer.Option("--worst", help="Guarantee the worst case, not the 95th percentile.")] = False,
    tuples: Tuples = 200_000,
    seed: Seed = 1,
    master: Annotated[str | None, typer.Option(help="Spark master.", show_default="local, sized for the run")] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Its directory.", show_default="protection-APP")] = None,
    json: AsJson = False,
) -> None:
    """Measure, assess, plan and prove: the cheapest protection that keeps every line of your objectives.

    Run it again with the same --out to go on after an interruption.
    """
    import sys

    from riprap.api.protect import ProtectSettings, protect_app
    from riprap.api.request import score_functions
    from riprap.apps.catalogue import load_app
    from riprap.base.errors import UsageError
    from riprap.cli.console import ERR, print_json
    from riprap.planner.slo import read_slo

    if slo is None:
        raise UsageError("what may your output suffer? write it to a file and give it with --slo slo.toml")
    objectives = read_slo(slo)
    graph = load_app(app)
    scores = tuple(score or ())
    scored = _scored(graph, scores)
    objectives.check(graph, scored)
    score_functions(graph, scores) if scores else None
    paths = input_paths(graph, input, tuples, seed)
    chosen = ProtectSettings(kills, speed, worst=worst, seed=seed)
    if quick:
        chosen = ProtectSettings(1, speed, 24.0, 4, 2.5, checks=False, worst=worst, seed=seed)
    directory = out or Path(f"protection-{graph.name}")
    said = [""]

    def tell(step: int, what: str, left: float) -> None:
        text = f"{step}/{len(_STEPS)} {_STEPS[step - 1]}: {what}"
        if json or text == said[0]:
            return
        said[0] = text
        about = f"; about {left:.0f} s left of this step" if left >= 2 else ""
        if step != 2 or ERR.is_terminal:
            ERR.print(f"{text}{about}", soft_wrap=True)

    try:
        found = protect_app(
            graph, paths, objectives, directory, scores=scores, settings=chosen, master=master,
            command=" ".join(["riprap", *sys.argv[1:]]), tell=tell,
            warn=lambda text: ERR.print(text, style="yellow", soft_wrap=True),
        )  # fmt: skip
    except KeyboardInterrupt:
        ERR.print(f"interrupted; the same command goes on from here: --out {directory}", soft_wrap=True)
        raise typer.Exit(130) from None
    if json:
        print_json(found.to_json())
    else:
        _print(found)
    if not found.kept:
        raise typer.Exit(1)


def _scored(graph: object, scores: tuple[str, ...]) -> list[str]:
    sinks = [sink.name for sink in graph.sinks]  # type: ignore[attr-defined]
    named = [text.partition("=")[0] for text in scores if "=" in text]
    return [name for name in sinks if name in named] or (sinks if scores and len(sinks) == 1 else [])


def _print(found: "Protection") -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from riprap.cli.console import OUT
    from riprap.report.protect import line_words, money, value, verdict

    if found.infeasible is not None:
        for line, near in found.infeasible.nearest.items():
            closest = "no value can be met" if near is None else f"{value(line, near[0])} for {money(near[1])} an hour"
            asked = value(line, found.problem.lines[line])
            OUT.print(f"{line_words(line)}: you asked for {asked}; nearest: {closest}", soft_wrap=True)
    if found.last is not None:
        table = Table(box=SIMPLE_HEAD, pad_edge=False)
        for name in ("objective", "asked", "predicted", "measured", ""):
            table.add_column(name, justify="left" if name in ("objective", "") else "right")
        for one in found.last.lines:
            table.add_row(
                line_words(one.line), value(one.line, one.limit), value(one.line, one.predicted),
                value(one.line, one.measured), "kept" if one.kept else "missed",
            )  # fmt: skip
        OUT.print(table)
        for name, own in found.last.outcome.chosen.items():
            words = [] if own.option.technique == "none" else [own.option.describe()]
            if words or own.backup:
                OUT.print(f"{name}: {', '.join([*words, *(['backup'] if own.backup else [])])}", soft_wrap=True)
        prices = [price for price in found.alternatives.values() if price is not None]
        least = f"; the same for every operator: {money(min(prices))}" if prices else ""
        OUT.print(f"price an hour: {money(found.price)}{least}", soft_wrap=True)
    OUT.print(verdict(found), soft_wrap=True)
    OUT.print(f"page: {found.report}", soft_wrap=True)
    if found.plan is not None:
        OUT.print(f"plan: {found.directory / 'plan.toml'}", soft_wrap=True)
