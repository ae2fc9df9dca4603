"""`riprap reproduce`: repeats published experiments and compares the results."""

from typing import Annotated

import typer

from riprap.cli.arguments import Commands

app = Commands(
    help="Repeat published experiments and print our numbers beside the published ones.", no_args_is_help=True
)


@app.callback()
def _root() -> None:
    """Makes `reproduce` a group even with a single command."""


@app.command()
def ftc(
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Fewest backups for a recovery bound: lines, trees, SignalGuru, Twitter Sentiment, over the whole range of R."""
    from rich.table import Table

    from riprap.cli.console import ERR, OUT, print_json
    from riprap_papers.published.backup_tables import cases, reproduce, summary

    list(reproduce(cases()[0]))  # loads the solver, so that imports are not measured
    rows, summaries = [], []
    for case in cases():
        ERR.print(f"{case.name}: {case.topology.size} tasks, {len(case.topology.edges)} edges …", style="dim")
        results = list(reproduce(case))
        rows += results
        summaries.append(summary(results))
    if json:
        print_json({"rows": rows, "summaries": summaries})
        return
    table = Table(title="Backups above the proven optimum (all R together) and times")
    for name in (
        "case",
        "R",
        "proven",
        "exact, slowest",
        "exhaust",
        "dag above",
        "published",
        "share above",
        "published",
    ):
        table.add_column(name, justify="left" if name == "case" else "right")
    for line in summaries:
        published = line["published"]
        dag = published["dag_excess"]
        table.add_row(
            line["case"],
            str(line["bounds"]),
            f"{line['proven']}/{line['bounds']}",
            f"{line['slowest'] * 1000:.0f} ms",
            f"{published['exhaust'] * 1000:,.0f} ms",
            f"{line['dag_excess']:.1%}",
            "" if dag is None else f"{dag:.0%}",
            f"{line['share_excess']:.0%}",
            published["share_excess"],
        )
    OUT.print(table)
    OUT.print("Column exhaust and both columns called published are published numbers; all others were measured now.")
