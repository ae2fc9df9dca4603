"""`riprap plan`: the fewest backups for a recovery bound, or the best protection for a budget."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from riprap.base.errors import CheckFailed, PlanError, UsageError, known
from riprap.base.quantities import Duration, format_size, parse_duration, show_duration
from riprap.cli.outputs import output_file
from riprap.cli.plan_told import Asked, Told, held_as_executed, told_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from riprap.graph.graph import Graph
    from riprap.planner.backup_plan import BackupPlan
    from riprap.planner.tradeoff import Tradeoff


def command(
    target: Annotated[str, typer.Argument(metavar="APP|TOPOLOGY", help="An app, or a .json or .graphml topology.")],
    recovery: Annotated[str | None, typer.Option(help="Bound on recovery latency, as in 2s.")] = None,
    sink: Annotated[
        list[str] | None, typer.Option(help="A stricter bound for one sink: NAME=500ms. Repeatable.")
    ] = None,
    k: Annotated[int, typer.Option("--k", help="Simultaneous failures to tolerate.")] = 1,
    cost: Annotated[
        str, typer.Option(help="What a backup costs: count (one each) or bytes (from the file).")
    ] = "count",
    must: Annotated[str, typer.Option(help="Tasks that must keep a backup: A,B.")] = "",
    must_not: Annotated[str, typer.Option(help="Tasks that may not keep one: A,B.")] = "",
    algorithm: Annotated[str, typer.Option(help="exact, dag, tree, line, share or exhaust.")] = "exact",
    time_limit: Annotated[str, typer.Option(help="After this, the best plan so far, with its proven gap.")] = "10s",
    latency: Annotated[
        list[str] | None, typer.Option(help="T of an app's operators: 1s, or NAME=1s. Repeatable.")
    ] = None,
    profile: Annotated[
        Path | None, typer.Option(help="JSON with measured T, checkpoint intervals and bytes/s.")
    ] = None,
    average: Annotated[
        bool, typer.Option(help="T is half of the checkpoint interval, as it is on average, not all of it.")
    ] = False,
    mtbf: Annotated[
        list[str] | None,
        typer.Option(help="Time between failures, 1d or NAME=1d: gives the checkpoint interval. Repeatable."),
    ] = None,
    previous: Annotated[
        Path | None, typer.Option(help="An earlier plan: change as few of its backups as can be.")
    ] = None,
    check: Annotated[
        Path | None, typer.Option(help="Plan nothing: what a given plan's backups come to; exit 1 if too little.")
    ] = None,
    measured: Annotated[
        Path | None, typer.Option(help="With --check: the directory of a proof, to stand beside what is predicted.")
    ] = None,
    from_assessment: Annotated[
        list[Path] | None, typer.Option(help="Directory of an assessment: plan a budget. Repeatable.")
    ] = None,
    budget: Annotated[str, typer.Option(help="Extra cpu=CORES,memory=SIZE,storage=SIZE (per second).")] = "",
    reassess: Annotated[bool, typer.Option(help="Assess the chosen protection again.")] = False,
    out: Annotated[Path | None, typer.Option(help="Write the plan file that `riprap run` takes.")] = None,
    report: Annotated[Path | None, typer.Option(help="Write an HTML report with the drawing.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Where to keep backups so that recovery takes at most so long; or how to protect best for a budget."""
    output_file(out)
    output_file(report, "--report")
    bound = None if recovery is None else parse_duration(recovery)
    if measured is not None and check is None:
        raise UsageError("--measured stands beside what a plan predicts: give the plan with --check plan.toml")
    loaded = _load(target, latency or [], profile, average, mtbf or [], cost, needs_latency=not from_assessment)
    graph, topology = loaded.graph, loaded.topology
    if from_assessment:
        _plan_budget(graph, target, from_assessment, budget, bound, reassess, out, report, json)
        return
    if budget or reassess:
        raise UsageError("--budget and --reassess need an assessment: give its directory with --from-assessment")
    if bound is None:
        raise UsageError("a plan needs a bound: give --recovery 2s, or --from-assessment DIR to plan for a budget")
    if previous is not None and algorithm != "exact":
        raise UsageError("--previous works with --algorithm exact only")
    assert topology is not None
    from riprap.graph.plan import read_plan
    from riprap.planner.backup_plan import given_backups, plan_backups
    from riprap.planner.problem import problem

    restart = loaded.restart or Duration(0)
    if bound <= restart:
        raise PlanError(
            f"no plan recovers within {show_duration(bound)}: by the profile it takes {show_duration(restart)} until a "
            "process is there again and has its state; raise the bound"
        )
    asked = problem(
        topology,
        Duration(bound - restart),
        sinks={name: Duration(value - restart) for name, value in _sink_bounds(sink or []).items()},
        must=_names(must),
        must_not=_names(must_not),
        failures=k,
    )
    earlier = check or previous
    existing = None
    if earlier is not None:
        existing = tuple(name for name, kept in read_plan(earlier).operators.items() if kept.backup)
    if check is not None:
        plan = given_backups(asked, existing or ())
    else:
        limit = parse_duration(time_limit) / 1e6
        plan = plan_backups(asked, algorithm=algorithm, existing=existing, time_limit=limit)
        plan = held_as_executed(plan, loaded)
    written = _write(out, _plan_text(loaded, plan, bound)) + _write(report, _report(plan, target, recovery))
    told = told_of(plan, bound, loaded, measured)
    _show(plan, written, told, json)
    if told.missed:
        raise CheckFailed(f"{check} did not meet the bound in {measured}: {told.missed}")
    if plan.shortfall is not None:
        raise CheckFailed(f"{check} does not meet the bound: {plan.shortfall}")


def _load(
    target: str,
    latency: list[str],
    profile: Path | None,
    average: bool,
    mtbf: list[str],
    cost: str,
    *,
    needs_latency: bool,
) -> Asked:
    from riprap.planner.files import Estimate, TaskProfile, read_profile, read_recovery, read_topology

    if cost not in ("count", "bytes"):
        raise UsageError(f"--cost {cost}: choose one of {known(('count', 'bytes'), cost)}")
    if target.endswith((".json", ".graphml")):
        if latency or profile or mtbf:
            raise UsageError("--latency, --mtbf and --profile are for apps: a topology file has T in it")
        read = read_topology(Path(target), "average" if average else "worst")
        if cost == "bytes" and read.cost is None:
            raise UsageError(f"{target} gives its tasks no cost: add one per task, or plan with --cost count")
        return Asked(None, replace(read, cost=None) if cost == "count" else read)
    from riprap.apps.catalogue import load_app
    from riprap.planner.from_graph import topology_of

    graph = load_app(target)
    if not needs_latency:
        return Asked(graph, None)
    known_profiles = read_profile(profile) if profile else {}
    recovery = read_recovery(profile) if profile else {}
    durable = recovery.get("durable")
    intervals = _intervals(mtbf, graph, durable)
    for name in [operator.name for operator in graph] if durable is not None else ():
        own = known_profiles.get(name, TaskProfile())
        known_profiles[name] = replace(own, checkpoint=intervals.get(name, own.checkpoint), durable=durable)
    otherwise: Duration | None = None
    for item in latency:
        if "=" in item:
            name, value = _named_duration(item, "--latency")
            known_profiles[name] = replace(known_profiles.get(name, TaskProfile()), latency=value)
        else:
            otherwise = parse_duration(item)
    estimate: Estimate = "average" if average else "worst"
    topology = topology_of(graph, known_profiles, otherwise=otherwise, estimate=estimate, by_bytes=cost == "bytes")
    return Asked(graph, topology, known_profiles, intervals, recovery.get("restart"), durable)


def _intervals(mtbf: list[str], graph: "Graph", durable: Duration | None) -> dict[str, Duration]:
    """The best interval between checkpoints of operators that have none of their own, by how often they fail."""
    from riprap.planner.files import optimal_interval

    if not mtbf:
        return {}
    if durable is None:
        raise UsageError(
            "--mtbf gives an interval where it is known how long a checkpoint takes: give the --profile that "
            "`riprap profile --recovery --out` wrote"
        )
    between: dict[str, Duration] = {}
    for item in mtbf:
        name, value = _named_duration(item, "--mtbf") if "=" in item else ("", parse_duration(item))
        if name and name not in graph:
            raise UsageError(f"--mtbf {item}: {graph.name} has {known([op.name for op in graph], name)}")
        if value <= 0:
            raise UsageError(f"--mtbf {item}: give the time between two failures, as in 1d")
        for each in [name] if name else [op.name for op in graph if op.name not in between]:
            between[each] = value
    own = {operator.name for operator in graph if operator.annotations.checkpoint_every is not None}
    return {name: optimal_interval(value, durable) for name, value in between.items() if name not in own}


def _named_duration(item: str, option: str) -> tuple[str, Duration]:
    name, equals, value = item.partition("=")
    if not equals or not name:
        raise UsageError(f"{option} {item}: expected NAME=DURATION, as in Sink=500ms")
    return name, parse_duration(value)


def _sink_bounds(items: list[str]) -> dict[str, Duration]:
    bounds: dict[str, Duration] = {}
    for name, bound in (_named_duration(item, "--sink") for item in items):
        if name in bounds:
            raise UsageError(f"--sink gives {name} two bounds: give it one")
        bounds[name] = bound
    return bounds


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _plan_text(asked: Asked, plan: "BackupPlan", bound: Duration) -> str:
    from riprap.graph.annotations import Annotations
    from riprap.graph.plan import Plan, write_plan
    from riprap.planner.from_graph import plan_with_backups

    if asked.graph is not None:
        return write_plan(plan_with_backups(asked.graph, set(plan.names), bound, asked.intervals))
    backups = {name: Annotations(backup=True) for name in plan.names}
    return write_plan(Plan(plan.asked.topology.name, backups, bound))


def _way(tasks: "Sequence[str]", most: int = 12) -> str:
    """Its end, where it is long: there it is what makes the last task slow."""
    return " → ".join(["…", *tasks[-most:]] if len(tasks) > most else tasks)


def _report(plan: "BackupPlan", target: str, recovery: str | None) -> str:
    from riprap.report.plan_report import plan_report

    return plan_report(plan, command=f"riprap plan {target} --recovery {recovery}")


def _write(path: Path | None, text: str) -> list[str]:
    if path is None:
        return []
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from error
    return [str(path)]


def _show(plan: "BackupPlan", written: list[str], told: Told, json: bool) -> None:
    from rich.table import Table

    from riprap.cli.console import ERR, OUT, print_json
    from riprap.planner.backup_plan import PREDICTION

    if json:
        print_json(plan.to_json() | {"written": written} | told.as_json())
        return
    topology = plan.asked.topology
    OUT.print(plan.verdict)
    OUT.print(
        f"Worst recovery {plan.worst} of "
        f"{show_duration(int(plan.asked.bound.max()))} allowed, by {_way(plan.critical)}.",
        soft_wrap=True,
    )
    for sentence in told.sentences:
        OUT.print(sentence, soft_wrap=True)
    for source, target in plan.cut_edges:
        OUT.print(f"The stream {source} → {target} leads back; the backup at {source} cuts it.")
    if plan.change is not None:
        added, removed = ", ".join(plan.change.added) or "none", ", ".join(plan.change.removed) or "none"
        OUT.print(f"Against the earlier plan: added {added}; removed {removed}.", soft_wrap=True)
    if topology.size <= 60:
        from riprap.graph.drawing import draw_text
        from riprap.report.plan_report import drawing

        OUT.print()
        OUT.print(draw_text(*drawing(plan), OUT.width), soft_wrap=True)
    elif plan.names:
        table = Table("backup at", "T", "L", box=None)
        for name in plan.names[:40]:
            task = topology.index(name)
            table.add_row(name, show_duration(Duration(int(topology.latency[task]))), plan.recovery_of(task))
        OUT.print(table)
        if len(plan.names) > 40:
            OUT.print(f"… and {len(plan.names) - 40} more; --json and --report list all of them.")
    ERR.print(PREDICTION, style="dim")
    for path in written:
        ERR.print(f"wrote {path}", style="dim", soft_wrap=True)


def _plan_budget(
    graph: "Graph | None", target: str, directories: list[Path], budget: str, bound: Duration | None, reassess: bool,
    out: Path | None, report: Path | None, json: bool,
) -> None:  # fmt: skip
    from riprap.api.plan import plan_budget, reassessed
    from riprap.cli.console import ERR
    from riprap.graph.plan import write_plan
    from riprap.report.budget_report import budget_report

    if graph is None:
        raise UsageError("--from-assessment plans for an app, not for a topology file: give the app that was assessed")
    found = plan_budget(graph, directories, budget, bound)
    written = _write(out, write_plan(found.plan))
    page = budget_report(graph, found.curve, command=f"riprap plan {target} --from-assessment {directories[0]}")
    written += _write(report, page)
    measured = {}
    if reassess:
        if not json:
            ERR.print("assessing again under the plan …")
        measured = reassessed(graph, found.plan, directories[0])
    _show_budget(found.curve, written, measured, json)


def _show_budget(curve: "Tradeoff", written: list[str], measured: dict[str, dict[str, float]], json: bool) -> None:
    from rich.table import Table

    from riprap.cli.console import ERR, OUT, print_json
    from riprap.planner.tradeoff import SUM_NOTE, to_json

    if json:
        print_json(to_json(curve) | {"written": written} | ({"reassessed": measured} if measured else {}))
        return
    best = curve.steps[-1]
    OUT.print(f"Expected loss {best.protection.loss:.4g} a day with {best.share:.0%} of the budget.")
    table = Table("operator", "protection", "backup", box=None)
    for name, option in best.protection.chosen.items():
        table.add_row(name, option.describe(), "backup" if name in best.protection.backups else "")
    OUT.print(table)
    used = best.protection.resources
    OUT.print(
        f"It takes {used.cpu:.3g} cores, {format_size(round(used.memory))} of memory and "
        f"{format_size(round(used.storage))}/s of storage more; "
        f"worst recovery {show_duration(best.protection.worst)}."
    )
    OUT.print("\nWhat each step of the budget buys:")
    for number, step in enumerate(curve.steps):
        knee = "  ← knee" if number == curve.knee else ""
        OUT.print(f"{step.share:6.1%}  {step.buys}{knee}", soft_wrap=True)
    if measured:
        OUT.print("\nAssessed again with all of it in place (quality impact of one failure):")
        again = Table("operator", "before", "after", box=None)
        for name, row in measured.items():
            again.add_row(name, f"{row['before']:.2f}", f"{row['after']:.2f}")
        OUT.print(again)
    ERR.print(SUM_NOTE, style="dim")
    for path in written:
        ERR.print(f"wrote {path}", style="dim", soft_wrap=True)
