"""The report of a backup plan: the verdict, the drawing, the tasks."""

import numpy as np

from riprap.base.quantities import Duration, show_duration
from riprap.graph.drawing import Edge, Node, draw
from riprap.planner.backup_plan import PREDICTION, BackupPlan
from riprap.report import page as p

LARGEST_DRAWING = 400  # tasks; a larger drawing is unreadable
BACKUP_COLOUR = "#f2a65a"


def plan_report(plan: BackupPlan, *, command: str = "") -> str:
    asked, topology = plan.problem, plan.problem.topology
    bound = int(asked.bound.max())
    blocks = [
        p.facts(
            {
                "backups": f"{len(plan.names)} of {topology.size}",
                "recovery, worst case": plan.worst,
                "bound": _time(bound),
                "proven": "optimal" if plan.solution.optimal else f"gap ≤ {plan.solution.gap:.1%}",
                "planned in": f"{plan.seconds * 1000:.0f} ms",
            }
        ),
        p.note(PREDICTION),
    ]
    if plan.cut_edges:
        cut = ", ".join(f"{source} → {target}" for source, target in plan.cut_edges)
        blocks.append(p.note(f"Streams that close a cycle are cut by a backup at their source: {cut}."))
    if topology.size <= LARGEST_DRAWING:
        blocks.append(p.section("The graph", p.figure(draw(*drawing(plan), title=topology.name), _caption(plan))))
    else:
        blocks.append(p.note(f"{topology.size:,} tasks are too many to draw; the table lists the slowest."))
    blocks.append(p.section("The tasks", *_tasks(plan)))
    return p.page(f"Plan for {topology.name}", blocks, lead=plan.verdict, footer=command)


def drawing(plan: BackupPlan) -> tuple[list[Node], list[Edge]]:
    """Backups are filled and have a badge; the critical path is emphasised; cut streams are dashed."""
    topology = plan.problem.topology
    feeds, fed = np.zeros(topology.size, bool), np.zeros(topology.size, bool)
    forward = topology.forward
    feeds[forward[:, 0]], fed[forward[:, 1]] = True, True
    nodes = []
    for task, name in enumerate(topology.tasks):
        backup = bool(plan.solution.backups[task])
        time, late = _time(int(topology.latency[task])), plan.recovery_of(task)
        nodes.append(
            Node(
                name,
                name,
                f"T {time} · L {late}",
                "source" if not fed[task] else "sink" if not feeds[task] else "box",
                BACKUP_COLOUR if backup else None,
                "backup" if backup else "",
                f"{name}: reprocesses its input in {time}, recovers within {late}"
                + ("; has a backup of its output" if backup else ""),
            )
        )
    hot = set(zip(plan.critical, plan.critical[1:], strict=False))
    edges = []
    for (a, b), cut in zip(topology.edges.tolist(), topology.cuts.tolist(), strict=True):
        source, target = topology.tasks[a], topology.tasks[b]
        has_backup = bool(plan.solution.backups[a])
        edges.append(
            Edge(
                source,
                target,
                style="dashed" if cut else "solid",
                emphasis=(source, target) in hot,
                tooltip=f"{source} → {target}: "
                + ("read from the backup at once" if has_backup else f"{source} must recover first"),
            )
        )
    return nodes, edges


def _caption(plan: BackupPlan) -> str:
    path = " → ".join(plan.critical)
    if len(plan.critical) < 2:
        return f"Filled tasks have a backup of their output. The slowest recovery is that of {path} alone."
    return f"Filled tasks have a backup of their output. The slowest recovery, emphasised: {path}."


def _tasks(plan: BackupPlan) -> list[str]:
    topology = plan.problem.topology
    order = np.argsort(-plan.effect.latency, kind="stable")[:LARGEST_DRAWING].tolist()
    on_path = set(plan.effect.critical)
    rows = [
        [
            topology.tasks[task],
            _time(int(topology.latency[task])),
            plan.recovery_of(task),
            _time(int(plan.problem.bound[task])),
            "backup" if plan.solution.backups[task] else "",
        ]
        for task in order
    ]
    columns = ["task", "T, reprocesses in", "L, recovers in", "bound", "backup"]
    hot = [number for number, task in enumerate(order) if task in on_path]
    return [
        p.text("Slowest first; the critical path is highlighted."),
        p.table(columns, rows, numbers=(1, 2, 3), hot=hot),
    ]


def _time(microseconds: int) -> str:
    return show_duration(Duration(microseconds))
