"""`riprap reproduce assess`: repeats the published assessment of Bargain Discovery."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer


def command(
    scale: Annotated[str, typer.Option(help="paper: the published experiment. demo: a quick look.")] = "paper",
    seed: Annotated[int, typer.Option(help="Seed of the data and of the jitter.")] = 2,
    seeds: Annotated[int, typer.Option(help="Over how many seeds of the data the statements are counted.")] = 20,
    master: Annotated[str | None, typer.Option(help="Spark master.", show_default="embedded local")] = None,
    out: Annotated[Path, typer.Option(help="Directory for the report and its data.")] = Path("reproduce-assess"),
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Table 4.2 and figures 4.11, 4.12, 4.14 and 4.15: published numbers beside ours, in one report."""
    from rich.table import Table

    from riprap.api.assess import run_request
    from riprap.api.request import SCALES, AssessRequest, settings_of
    from riprap.apps.catalogue import load_app
    from riprap.base.errors import UsageError, known
    from riprap.cli.app_options import input_paths
    from riprap.cli.console import ERR, OUT, print_json
    from riprap.spark.session import session
    from riprap_papers.published.assessment_tables import PLAN, rows
    from riprap_papers.report.assess_reproduction import reproduction_page, to_json

    if scale not in SCALES:
        raise UsageError(f"--scale {scale} is unknown; known: {known(SCALES, scale)}")
    if not 0 <= seeds <= 1_000:
        raise UsageError(f"--seeds {seeds}: expected a number from 0 to 1000")
    graph = load_app("bargain-discovery")
    try:
        out.mkdir(parents=True, exist_ok=True)
        plan = out / "published-plan.toml"
        plan.write_text(PLAN)
    except OSError as error:
        raise UsageError(f"cannot write to {out}: {error.strerror}") from error
    words = " ".join(["riprap", *sys.argv[1:]])
    inputs = input_paths(graph, None, SCALES[scale].tuples, seed)
    request = AssessRequest(graph, inputs, scale, state="kept", seed=seed, plan=plan, command=words)
    settings_of(graph, request)
    if not json:
        ERR.print(
            f"bargain-discovery over {SCALES[scale].tuples:,} tuples, before and after re-deployment …", style="dim"
        )
    assessment = run_request(request, out / "assessment", spark=session(master=master))
    results = rows(assessment.summaries, assessment.protected, assessment.order["Sink"])
    page = out / "assess.html"
    page.write_text(reproduction_page(assessment.content, results, command=words))
    counted = _counted(seeds, show=not json)
    if json:
        found = {"scale": scale, "seed": seed, "rows": to_json(results), "seeds": counted, "page": str(page)}
        print_json(found)
        return
    table = Table(box=None)
    for name in ("", "", "published", "ours"):
        table.add_column(name, overflow="fold")
    for row in results:
        shown = [
            f"{value:.4g}" if isinstance(value, float | int) else value or "" for value in (row.published, row.ours)
        ]
        table.add_row(f"{row.table}: {row.case}", row.metric, *shown)
    OUT.print(table)
    for words, number in counted.get("statements", {}).items():
        OUT.print(f"{number:>3} of {seeds} seeds: {words}", markup=False, soft_wrap=True)
    if counted:
        OUT.print(f"median over {seeds} seeds: {counted['median']:g} of {len(counted['statements'])} statements hold")
    OUT.print(f"page: {page}", markup=False)


def _counted(seeds: int, *, show: bool) -> dict[str, Any]:
    """How many statements hold for the data of seeds 1, 2 …; and for how many of them each does."""
    from statistics import median

    from riprap.cli.console import ERR
    from riprap_papers.experiments.assessed_seeds import TUPLES, assessed_seed

    held: dict[int, dict[str, bool]] = {}
    for seed in range(1, seeds + 1):
        held[seed] = dict(assessed_seed(seed).held)
        if show:
            ERR.print(f"seed {seed}, {TUPLES:,} tuples: {sum(held[seed].values())} statements hold", style="dim")
    if not held:
        return {}
    return {
        "median": median(sum(each.values()) for each in held.values()),
        "by_seed": {seed: sum(each.values()) for seed, each in held.items()},
        "statements": {words: sum(each[words] for each in held.values()) for words in held[1]},
    }
