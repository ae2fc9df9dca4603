"""The options that commands share for naming an app, its plan and its input."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from riprap.base.errors import UsageError, known

if TYPE_CHECKING:
    from riprap.graph.graph import Graph

AppName = Annotated[
    str, typer.Argument(help="A bundled app, module:attribute, or a PySpark job: job.py:query.", show_default=False)
]
InputPaths = Annotated[
    list[str] | None,
    typer.Option(
        "--input", help="A Parquet or Arrow file: PATH, or SOURCE=PATH for each source.", show_default="generated"
    ),
]
PlanFile = Annotated[Path | None, typer.Option("--plan", help="A plan (TOML) that overrides the code's annotations.")]
Tuples = Annotated[int, typer.Option("--tuples", help="Without --input: how many tuples to generate.", min=1)]
Seed = Annotated[int, typer.Option("--seed", help="Without --input: seed of the generated data.", min=0)]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def planned_app(name: str, plan: str | Path | None) -> "Graph":
    """The app, with the plan applied if there is one."""
    from riprap.apps.catalogue import is_job, load_app
    from riprap.graph.plan_file import read_plan

    if is_job(name) and Path(name.partition(":")[0]).is_file():
        from riprap.cli.console import ERR

        ERR.print(f"reading {name} with Spark; none of its queries starts", style="dim", soft_wrap=True)
    graph = load_app(name)
    return read_plan(plan).apply(graph) if plan is not None else graph


def input_paths(
    graph: "Graph", given: list[str] | None, tuples: int, seed: int, *, assessed: bool = False
) -> dict[str, Path]:
    """An input file for each source: the named ones, or generated ones. Unless it is `assessed`, the app is to run."""
    if not assessed:
        graph.check_runs()
    if is_of_job(graph):
        return _job_inputs(graph, given or [])
    if not given:
        from riprap.apps.samples import cache_directory, sample_inputs

        return dict(sample_inputs(graph, tuples, seed, cache_directory()))
    names = [source.name for source in graph.sources]
    paths = _named_paths(names, given)
    for name in names:
        if name not in paths:
            raise UsageError(f"--input: no file for source {name}; write --input {name}=PATH")
    from riprap.engine.input_check import check_input

    for source in graph.sources:
        if not (
            paths[source.name] / "stream.json"
        ).exists():  # only `run` reads persistent streams, and checks them itself
            check_input(paths[source.name], source)
    return paths


def _named_paths(names: list[str], given: list[str]) -> dict[str, Path]:
    """The paths of `--input`, by source."""
    paths: dict[str, Path] = {}
    for text in given:
        name, equals, path = text.partition("=")
        if not equals or name not in names:
            if len(names) > 1 or (equals and not Path(text).exists()):
                raise UsageError(f"--input {text}: write SOURCE=PATH; the sources are {known(names, name)}")
            name, path = names[0], text
        if name in paths:
            raise UsageError(f"--input: source {name} is given twice")
        paths[name] = Path(path.removeprefix("stream:"))
    return paths


def is_of_job(graph: "Graph") -> bool:
    """Whether the app is that of an existing PySpark job, whose sources have recordings."""
    return any(source.recorded is not None for source in graph.sources)


def _job_inputs(graph: "Graph", given: list[str]) -> dict[str, Path]:
    """The recordings of a job's sources in the order of event time; says on stderr what they are like."""
    from riprap.api.job_inputs import prepared_inputs
    from riprap.cli.console import ERR

    found = prepared_inputs(graph, _named_paths([source.name for source in graph.sources], given))
    for sentence in found.sentences:
        ERR.print(sentence, soft_wrap=True)
    return dict(found.paths)
