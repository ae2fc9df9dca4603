"""`riprap reproduce assess`: repeats the published assessment of Bargain Discovery."""

import sys
from pathlib import Path
from typing import Annotated

import typer


def command(
    scale: Annotated[str, typer.Option(help="paper: the published experiment. demo: a quick look.")] = "paper",
    seed: Annotated[int, typer.Option(help="Seed of the data and of the jitter.")] = 2,
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
    if json:
        print_json({"scale": scale, "seed": seed, "rows": to_json(results), "page": str(page)})
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
    OUT.print(f"page: {page}", markup=False)
