"""The report of a model: availability and tainted tuples of each technique."""

from collections.abc import Mapping, Sequence

from riprap.report.chart import ChartPoint, Series, chart
from riprap.report.page import facts, figure, note, page, section, table
from riprap.san.statistics import Estimate
from riprap.san.streaming.application import Application
from riprap.san.streaming.study import Answer


def model_report(
    application: Application,
    answers: Mapping[str, Mapping[float, Answer]],  # technique → source rate → answer
    settings: Mapping[str, str],
    notes: Sequence[str],
) -> str:
    """The report. `settings`: what was modelled; `notes`: what the reader has to know about the numbers."""
    best = max(answers, key=lambda name: _last(answers[name]).availability.mean)
    blocks = [facts(settings)]
    rates = list(next(iter(answers.values())))
    if len(rates) > 1:
        availability = [
            Series(name, [ChartPoint(rate, _unavailable(answer) * 100) for rate, answer in points.items()])
            for name, points in answers.items()
        ]
        wrong = [
            Series(name, [ChartPoint(rate, _tainted(answer)) for rate, answer in points.items()])
            for name, points in answers.items()
        ]
        blocks.append(
            section(
                "By source rate",
                figure(
                    chart(availability, x_label="tuples/s", y_label="unavailable, % of the time"),
                    "Time without correct output.",
                ),
                figure(
                    chart(wrong, x_label="tuples/s", y_label="tainted tuples"),
                    "Tainted tuples at all sinks, over the whole time.",
                ),
            )
        )
    rows = []
    for name, points in answers.items():
        for rate, answer in points.items():
            for sink, stored in answer.sinks.items():
                rows.append(
                    [
                        name,
                        f"{rate:,.0f}",
                        sink,
                        _interval(answer.availability, 5),
                        f"{answer.without_propagation.mean:.5f}",
                        _interval(stored.tainted, 0),
                        f"{stored.share.mean:.3%}",
                        f"{stored.fault_free.mean:,.0f}",
                        f"{answer.resources['instances']:g}",
                        f"{answer.resources['busy_cores']:.3g}",
                    ]
                )
    columns = (
        "technique",
        "tuples/s",
        "sink",
        "availability",
        "without error propagation",
        "tainted tuples",
        "share",
        "fault-free output",
        "instances",
        "busy cores",
    )
    blocks.append(section("All results", table(columns, rows, numbers=range(1, 10)), *(note(words) for words in notes)))
    operators = [
        [
            operator.name,
            operator.kind,
            ", ".join(f"{application.rates[operator.name, k]:,.1f}" for k in range(len(operator.inputs))),
            ", ".join(f"{port.seconds:.3g}" for port in operator.inputs),
            ", ".join(f"{sum(port.mean(j) for j in range(operator.outputs)):.4g}" for port in operator.inputs),
            ", ".join(f"{port.state:,}" for port in operator.inputs if port.state),
        ]
        for operator in application.operators
    ]
    heads = ("operator", "kind", "tuples/s in", "seconds per tuple", "selectivity", "state, tuples")
    blocks.append(section("Modelled operators", table(heads, operators, numbers=range(2, 6))))
    lead = f"{best} keeps {application.name} available {_last(answers[best]).availability.mean:.4%} of the time."
    return page(f"{application.name}: what faults do over time", blocks, lead=lead, footer="riprap model")


def _last(points: Mapping[float, Answer]) -> Answer:
    return points[max(points)]


def _unavailable(answer: Answer) -> float:
    return 1.0 - answer.availability.mean


def _tainted(answer: Answer) -> float:
    return sum(stored.tainted.mean for stored in answer.sinks.values())


def _interval(value: Estimate, digits: int) -> str:
    return f"{value.mean:,.{digits}f} ± {value.half_width:,.{digits}f}"
