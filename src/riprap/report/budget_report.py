"""The report of a budget plan: the chosen protection, the curve with its knee, and what each step buys."""

from riprap.base.quantities import format_size, show_duration
from riprap.graph.drawing import Edge, Node, Shape, draw
from riprap.graph.graph import Graph
from riprap.planner.budget import BudgetPlan
from riprap.planner.tradeoff import SUM_NOTE, Tradeoff
from riprap.report import page as p
from riprap.report.chart import ChartPoint, Series, chart

_FILL = {"restart": None, "checkpoint": "#8ecae6", "ha_group": "#f2a65a"}


def budget_report(graph: Graph, curve: Tradeoff, *, command: str = "") -> str:
    best = curve.steps[-1]
    used = best.protection.resources
    facts = {
        "expected loss a day": f"{best.protection.loss:.4g}",
        "of the budget": f"{best.share:.0%}",
        "extra CPU": f"{used.cpu:.3g} cores",
        "extra memory": format_size(round(used.memory)),
        "storage": f"{format_size(round(used.storage))}/s",
        "network": f"{format_size(round(used.network))}/s",
        "recovery, worst case": show_duration(best.protection.worst),
    }
    points = [
        ChartPoint(step.share * 100, step.protection.loss, step.buys, "knee" if number == curve.knee else "")
        for number, step in enumerate(curve.steps)
    ]
    curve_chart = chart(
        [Series("expected loss", points, steps=True)], x_label="share of the budget, %", y_label="expected loss a day"
    )
    rows = [
        [f"{step.share:.1%}", f"{step.protection.loss:.4g}", step.buys + (" ← knee" if number == curve.knee else "")]
        for number, step in enumerate(curve.steps)
    ]
    return p.page(
        f"Protection for {graph.name}",
        [
            p.facts(facts),
            p.note(SUM_NOTE),
            p.section("Chosen protection", p.figure(draw(*_drawing(graph, best.protection), title=graph.name))),
            p.section("Budget against loss", p.figure(curve_chart)),
            p.section(
                "What each step buys",
                p.table(["budget", "loss a day", "buys"], rows, numbers=(0, 1), long=(2,), hot=(curve.knee,)),
            ),
        ],
        lead=f"With {best.share:.0%} of the budget the expected loss is {best.protection.loss:.4g} a day.",
        footer=command,
    )


def _drawing(graph: Graph, protection: BudgetPlan) -> tuple[list[Node], list[Edge]]:
    nodes = []
    for operator in graph:
        option = protection.chosen.get(operator.name)
        words = option.describe() if option is not None else "not assessed"
        backup = "backup" if operator.name in protection.backups else ""
        shape: Shape = (
            "source" if not graph.inputs(operator.name) else "sink" if not graph.outputs(operator.name) else "box"
        )
        fill = _FILL[option.technique] if option is not None else None
        nodes.append(Node(operator.name, operator.name, words, shape, fill, backup))
    edges = [
        Edge(stream.source, stream.target, style="dashed" if stream.feedback is not None else "solid")
        for stream in graph.streams
    ]
    return nodes, edges
