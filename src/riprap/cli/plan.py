"""`riprap plan`: the fewest backups for a recovery bound, or the best protection for a budget."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from riprap.base.errors import CheckFailed, UsageError
from riprap.base.quantities import Duration, format_size, parse_duration, show_duration
from riprap.cli.output_paths import output_file

if TYPE_CHECKING:
    from collections.abc import Sequence

    from riprap.api.recovery_plan import RecoveryPlan
    from riprap.planner.backup_plan import BackupPlan
    from riprap.planner.tradeoff import Tradeoff


def command(
    target: Annotated[str, typer.Argument(metavar="APP|TOPOLOGY", help="An app, or a .json or .graphml topology.")],
    recovery: Annotated[str | None, typer.Option(help="Recovery bound, as in 2s.")] = None,
    sink: Annotated[
        list[str] | None, typer.Option(help="A stricter bound for one sink: NAME=500ms. Repeatable.")
    ] = None,
    k: Annotated[int, typer.Option("--k", help="Simultaneous failures to tolerate.", max=100)] = 1,
    cost: Annotated[
        str, typer.Option(help="What a backup costs: count (one each) or bytes (from the file).")
    ] = "count",
    must: Annotated[list[str] | None, typer.Option(help="Tasks that must have a backup: A,B. Repeatable.")] = None,
    must_not: Annotated[list[str] | None, typer.Option(help="Tasks that must not have one: A,B. Repeatable.")] = None,
    algorithm: Annotated[str, typer.Option(help="exact, dag, tree, line, share or exhaust.")] = "exact",
    time_limit: Annotated[str, typer.Option(help="Then return the best plan so far, with its proven gap.")] = "10s",
    latency: Annotated[
        list[str] | None, typer.Option(help="Reprocessing time T of operators: 1s, or NAME=1s. Repeatable.")
    ] = None,
    profile: Annotated[
        Path | None,
        typer.Option(help="A profile: measured T, intervals and bytes/s; for a budget, costs of techniques."),
    ] = None,
    average: Annotated[
        bool, typer.Option(help="Use the average T, half of the checkpoint interval, not the worst case.")
    ] = False,
    mtbf: Annotated[
        list[str] | None,
        typer.Option(help="Time between failures, 1d or NAME=1d: sets the checkpoint interval. Repeatable."),
    ] = None,
    previous: Annotated[
        Path | None, typer.Option(help="An earlier plan: change as few of its backups as possible.")
    ] = None,
    check: Annotated[
        Path | None, typer.Option(help="Plan nothing: check the backups of this plan; exit 1 if they miss the bound.")
    ] = None,
    measured: Annotated[
        Path | None, typer.Option(help="With --check: directory of a proof, to compare with the prediction.")
    ] = None,
    from_assessment: Annotated[
        list[Path] | None, typer.Option(help="Directory of an assessment: plan for a budget. Repeatable.")
    ] = None,
    budget: Annotated[
        str, typer.Option(help="Extra cpu=CORES,memory=SIZE,storage=SIZE,network=SIZE (per second).")
    ] = "",
    reassess: Annotated[bool, typer.Option(help="Assess the app again under the plan.")] = False,
    osf: Annotated[
        list[str] | None,
        typer.Option(help="With --reassess: your own score functions, as for `assess`. Repeatable."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Write a plan file for `riprap run`.")] = None,
    report: Annotated[Path | None, typer.Option(help="Write an HTML report.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Place the fewest backups that meet a recovery bound, or choose the best protection for a budget."""
    output_file(out)
    output_file(report, "--report")
    if from_assessment:
        bound = None if recovery is None else parse_duration(recovery)
        _plan_budget(target, from_assessment, budget, bound, profile, reassess, osf or [], out, report, json)
        return
    if budget or reassess or osf:
        raise UsageError("--budget, --reassess and --osf need an assessment: give its directory with --from-assessment")
    if recovery is None:
        raise UsageError("a plan needs a bound: give --recovery 2s, or --from-assessment DIR to plan for a budget")
    from riprap.api.recovery_plan import plan_recovery

    result = plan_recovery(
        target, recovery, sinks=_by_name(sink or [], "--sink"), failures=k, cost=cost, must=_names(must),
        must_not=_names(must_not), algorithm=algorithm, time_limit=time_limit,
        latency=_by_name(latency or [], "--latency", allow_default=True), profile=profile, average=average,
        mtbf=_by_name(mtbf or [], "--mtbf", allow_default=True), previous=previous, check=check, measured=measured,
    )  # fmt: skip
    written = _write(out, result.text) + _write(report, _report(result.plan, target, recovery))
    _show(result, written, json)
    if result.summary.missed:
        raise CheckFailed(f"{check} did not meet the bound in {measured}: {result.summary.missed}")
    if result.plan.shortfall is not None:
        raise CheckFailed(f"{check} does not meet the bound: {result.plan.shortfall}")


def _by_name(items: list[str], option: str, *, allow_default: bool = False) -> dict[str, str]:
    """NAME=DURATION, each name once; a value without a name, where that is allowed, is under ""."""
    by_name: dict[str, str] = {}
    for item in items:
        name, equals, value = item.rpartition("=")
        if not (equals and name) and not (allow_default and not equals):
            raise UsageError(f"{option} {item}: expected NAME=DURATION, as in Sink=500ms")
        if name in by_name:
            raise UsageError(f"{option}: {name or 'a value for all others'} is given twice: give it once")
        by_name[name] = value
    return by_name


def _names(items: list[str] | None) -> list[str]:
    return [name.strip() for text in items or () for name in text.split(",") if name.strip()]


def _path_text(tasks: "Sequence[str]", most: int = 12) -> str:
    """A path; of a long one only the end, which makes the last task slow."""
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


def _show(result: "RecoveryPlan", written: list[str], json: bool) -> None:
    from rich.table import Table

    from riprap.cli.console import ERR, OUT, print_json
    from riprap.planner.backup_plan import PREDICTION

    if json:
        print_json(result.to_json() | {"written": written})
        return
    plan = result.plan
    topology = plan.problem.topology
    OUT.print(plan.verdict)
    OUT.print(
        f"Worst recovery {plan.worst} of "
        f"{show_duration(int(plan.problem.bound.max()))} allowed, by {_path_text(plan.critical)}.",
        soft_wrap=True,
    )
    for sentence in result.summary.sentences:
        OUT.print(sentence, soft_wrap=True)
    for source, target in plan.cut_edges:
        OUT.print(f"The stream {source} → {target} closes a cycle; the backup at {source} cuts it.")
    if plan.change is not None:
        added, removed = ", ".join(plan.change.added) or "none", ", ".join(plan.change.removed) or "none"
        OUT.print(f"Compared with the earlier plan: added {added}; removed {removed}.", soft_wrap=True)
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
    target: str, directories: list[Path], budget: str, bound: Duration | None, profile: Path | None, reassess: bool,
    osf: list[str], out: Path | None, report: Path | None, json: bool,
) -> None:  # fmt: skip
    from riprap.api.plan import plan_budget, reassessed
    from riprap.apps.catalogue import load_app
    from riprap.cli.console import ERR
    from riprap.graph.plan_file import write_plan
    from riprap.report.budget_report import budget_report

    if target.endswith((".json", ".graphml")):
        raise UsageError("--from-assessment plans for an app, not for a topology file: give the app that was assessed")
    graph = load_app(target)
    result = plan_budget(graph, directories, budget, bound, profile=profile)
    written = _write(out, write_plan(result.plan))
    page = budget_report(graph, result.curve, command=f"riprap plan {target} --from-assessment {directories[0]}")
    written += _write(report, page)
    measured = {}
    if reassess:
        if not json:
            ERR.print("assessing again under the plan …")
        measured = reassessed(graph, result.plan, directories[0], osf)
    _show_budget(result.curve, written, measured, json)


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
        f"Extra resources: {used.cpu:.3g} cores, {format_size(round(used.memory))} of memory, "
        f"{format_size(round(used.storage))}/s of storage and {format_size(round(used.network))}/s of network; "
        f"worst recovery {show_duration(best.protection.worst)}.",
        soft_wrap=True,
    )
    OUT.print("\nWhat each step of the budget buys:")
    for number, step in enumerate(curve.steps):
        knee = "  ← knee" if number == curve.knee else ""
        OUT.print(f"{step.share:6.1%}  {step.buys}{knee}", soft_wrap=True)
    if measured:
        OUT.print("\nAssessed again under the plan (quality impact of one failure):")
        again = Table("operator", "before", "after", box=None)
        for name, row in measured.items():
            again.add_row(name, f"{row['before']:.2f}", f"{row['after']:.2f}")
        OUT.print(again)
    ERR.print(SUM_NOTE, style="dim")
    for path in written:
        ERR.print(f"wrote {path}", style="dim", soft_wrap=True)
