"""`riprap graph`: draws an app as text or SVG, or explains it in words."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from riprap.cli.app_options import AppName, AsJson, PlanFile, planned_app
from riprap.cli.output_paths import output_file

if TYPE_CHECKING:
    from riprap.graph.graph import Graph


def command(
    app: AppName,
    plan: PlanFile = None,
    svg: Annotated[Path | None, typer.Option("--svg", help="Write a drawing (SVG) to this file.")] = None,
    explain: Annotated[
        bool,
        typer.Option(
            "--explain",
            help="Explain the state of each operator, how keys divide the app, and which operators run as one loop.",
        ),
    ] = False,
    json: AsJson = False,
) -> None:
    """Draw an app: its operators, streams and protection."""
    from riprap.apps.catalogue import is_job
    from riprap.base.errors import UsageError
    from riprap.cli.console import ERR, OUT, print_json
    from riprap.cli.job_table import print_job
    from riprap.graph.drawing import draw, draw_text
    from riprap.graph.pictures import picture

    output_file(svg, "--svg")
    if explain and is_job(app) and plan is None:
        print_job(app, json=json)
        return
    graph = planned_app(app, plan)
    nodes, edges = picture(graph)
    if svg is not None:
        try:
            svg.write_text(draw(nodes, edges, title=graph.name))
        except OSError as error:
            raise UsageError(f"cannot write {svg}: {error.strerror}") from error
        ERR.print(f"wrote {svg}")
    if json:
        print_json(_described(graph))
    elif explain:
        _explain(graph)
    elif svg is None:
        OUT.print(draw_text(nodes, edges, OUT.width), soft_wrap=True)


def _described(graph: "Graph") -> dict[str, Any]:
    from riprap.graph.partitioning import key_partitioning

    division = key_partitioning(graph)
    return {
        "app": graph.name,
        "operators": {
            spec.name: {
                "kind": spec.kind,
                "does": spec.describe(),
                "stateful": list(spec.stateful),
                "partition_keys": [None if key is None else list(key) for key in spec.partition_keys],
                "parallelism": spec.parallelism,
                "protection": spec.annotations.describe(),
                "outputs": [
                    [f"{field.name} {field.type}" for field in graph.physical(spec.name, port)]
                    for port in range(spec.outputs)
                ],
            }
            for spec in graph
        },
        "streams": [
            {"id": s.id, "partitioning": s.partitioning, "feedback": s.feedback is not None} for s in graph.streams
        ],
        "division": {
            "columns": {name: None if c is None else list(c) for name, c in division.columns.items()},
            "reason": division.reason,
        },
    }


def _explain(graph: "Graph") -> None:
    from rich.table import Table

    from riprap.cli.console import OUT
    from riprap.engine.engine import Engine
    from riprap.graph.partitioning import key_partitioning

    table = Table(title=graph.name, title_justify="left")
    for heading in ("operator", "does", "state", "output", "protection"):
        table.add_column(heading, no_wrap=heading == "operator")
    for spec in graph:
        columns = [", ".join(graph.schema(spec.name, port).names) for port in range(spec.outputs)]
        protection = ", ".join(spec.annotations.describe())
        table.add_row(spec.name, f"{spec.kind}: {spec.describe()}", _state(spec), "\n".join(columns), protection)
    OUT.print(table)
    division = key_partitioning(graph)
    by = {name: columns for name, columns in division.columns.items() if columns}
    if by:
        keys = "; ".join(f"{name} by {', '.join(columns or ())}" for name, columns in by.items())
        OUT.print(f"Divided by key: {keys}, because {division.reason}.")
    else:
        how = "Divided in any way" if division.divisible else "Not divided"
        OUT.print(f"{how}, because {division.reason}.")
    OUT.print("Runs in these pieces:")
    for piece in Engine(graph).pieces:
        OUT.print(f"  {piece}")


def _state(spec: Any) -> str:
    words = []
    for port, (stateful, key) in enumerate(zip(spec.stateful, spec.partition_keys, strict=True)):
        if stateful:
            window = spec.windows[port]
            by = f" by {', '.join(key)}" if key else ""
            words.append((f"port {port}: " if spec.inputs > 1 else "") + f"{window}{by}")
    return "\n".join(words) or "none"
