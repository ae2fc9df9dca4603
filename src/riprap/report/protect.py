"""The page of `riprap protect`: what was asked for, line by line; the plan and its price; the graph; what each
operator's loss does; and how well the predictions held."""

from collections.abc import Iterable, Sequence
from statistics import median

from riprap.base.quantities import LONGEST, format_size, show_duration
from riprap.graph.drawing import Edge, Node, Shape, draw
from riprap.graph.plan_file import write_plan
from riprap.graph.specs import Sink, Source
from riprap.planner.protection_problem import AVAILABILITY, Line
from riprap.planner.sink_effects import SinkEffect
from riprap.planner.slo import PPM, shown
from riprap.proof.kill_outcomes import LineResult
from riprap.proof.protection_results import Protection, ProtectionRound
from riprap.report import page as p

_TITLES = {
    "recovery": "time until up to date", "wrong": "rows missing or wrong", "wrong_for": "time until right again",
    "exactly_once": "exactly once", "score_at_least": "score at least", AVAILABILITY: "time behind",
}  # fmt: skip
_MONTH = 730.0  # hours
_PARTS = ("detection", "restart", "restore", "catch_up")


def protection_report(found: Protection, command: str = "") -> str:
    last = found.last
    blocks = [p.facts(_facts(found))]
    if found.infeasible is not None:
        blocks.append(p.section("What is in the way", *_infeasible(found)))
    if last is not None:
        blocks.append(p.section("What you asked for", _lines(last.lines, worst=found.worst)))
        blocks.append(p.section("The price", *_price(found, last)))
        blocks.append(p.section("The graph", p.figure(draw(*_drawing(found, last), title=found.graph.name), _CAPTION)))
    blocks.append(p.section("What the loss of each operator does", p.text(_WHAT), _losses(found)))
    if found.effects.metrics:
        blocks.append(p.section("For researchers", p.text(_METRICS), _researchers(found)))
    if last is not None:
        blocks.append(p.section("Predicted and measured", *_predicted(found, last)))
        blocks.append(p.section("The plan", p.text("Run it with `riprap run APP --fuse none --plan plan.toml`."),
                                p.code(write_plan(last.plan))))  # fmt: skip
    return p.page(f"Protection of {found.graph.name}", blocks, lead=verdict(found), footer=_footer(found, command))


def verdict(found: Protection) -> str:
    """The outcome in a sentence or two."""
    if found.infeasible is not None:
        names = " and ".join(line_words(line) for line in found.infeasible.lines) or "the objectives"
        after = f" after {_count(len(found.rounds), 'proof')}" if found.rounds else ""
        be = "is" if len(found.infeasible.lines) == 1 else "are"
        return f"These objectives cannot be met{after}: {names} {be} in the way."
    last = found.last
    assert last is not None
    kills, lines = sum(one.recovery is not None for one in last.kills), len(last.lines)
    again = f" It took {len(found.rounds)} plans." if len(found.rounds) > 1 else ""
    if last.kept:
        return f"{_all(lines)} kept in a proof with {_count(kills, 'kill')}, for {money(found.price)} an hour.{again}"
    missed = [line for line in last.lines if not line.kept]
    words = "; ".join(f"{line_words(line.line)}: {value(line.line, line.measured)}" for line in missed)
    return f"Not kept after {_count(len(found.rounds), 'plan')}, so count it as infeasible: {words}."


def line_words(line: Line) -> str:
    title = _TITLES.get(line.name, line.name)
    return f"{line.sink}: {title}" if line.sink else title


def value(line: Line, number: int | None) -> str:
    if number is None:
        return "–"
    if line.name == AVAILABILITY:
        return f"{number / 10_000:.3g} %"
    if line.name in ("recovery", "wrong_for") and number >= LONGEST:
        return "for ever"
    return shown(line.name, number)


def money(billionths: int | None) -> str:
    """Of an hour, as for a month where it would be too small to read."""
    return "–" if billionths is None else f"{billionths / 1e9:.4f}"


def _all(count: int) -> str:
    return "The line was" if count == 1 else f"All {count} lines were"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")


def _facts(found: Protection) -> dict[str, str]:
    last = found.last
    if last is None:
        return {"app": found.graph.name, "feasible": "no"}
    within = last.accuracy.recoveries_within
    return {
        "objectives": "kept" if found.kept else "missed",
        "price an hour": money(found.price),
        "kills": str(sum(one.recovery is not None for one in last.kills)),
        "recoveries as predicted": "–" if within is None else f"{within:.0%}",
        "plans tried": str(len(found.rounds)),
    }


def _infeasible(found: Protection) -> Iterable[str]:
    assert found.infeasible is not None
    rows = []
    for line in found.infeasible.lines:
        near = found.infeasible.nearest.get(line)
        rows.append([
            line_words(line), value(line, found.problem.lines[line]),
            "no value" if near is None else value(line, near[0]), money(None if near is None else near[1]),
        ])  # fmt: skip
    yield p.text(
        "These lines cannot be met together with the others. The nearest value of each can, and has this price."
    )
    yield p.table(["line", "asked for", "nearest", "price an hour"], rows, numbers=[1, 2, 3])


def _lines(lines: Sequence[LineResult], *, worst: bool) -> str:
    rows = [
        [
            line_words(line.line), value(line.line, line.limit), value(line.line, line.predicted),
            value(line.line, line.measured), line.operator or "–", "kept" if line.kept else "missed",
        ]
        for line in lines
    ]  # fmt: skip
    return p.table(
        ["line", "asked for", f"predicted, {'worst' if worst else '95 %'}", "measured, worst", "after the loss of", ""],
        rows, numbers=[1, 2, 3],
        hot=[number for number, line in enumerate(lines) if not line.kept],
    )  # fmt: skip


def _price(found: Protection, last: ProtectionRound) -> Iterable[str]:
    rows = [["protecting nothing", money(0), "" if _nothing(found, last) else "no"]]
    rows.append(["this plan", money(last.outcome.price), "yes"])
    for name, price in found.alternatives.items():
        if name != "nothing":
            rows.append([f"{name} everywhere", money(price), "yes" if price is not None else "no"])
    yield p.text(
        f"For an hour, on top of {money(found.running)} for the app itself; a month has {_MONTH:.0f} hours. "
        "A plan that gives every operator the same protection has a price only if it meets the objectives."
    )
    yield p.table(["protection", "price an hour", "meets the objectives"], rows, numbers=[1], hot=[1])
    before, after = last.predicted_cost, last.measured_cost
    cells = [
        ["cores", f"{before.cores:.3f}", f"{after.cores:.3f}"],
        ["memory", format_size(round(before.memory)), format_size(round(after.memory))],
        ["written a second", format_size(round(before.written)), format_size(round(after.written))],
    ]
    yield p.table(["what protection takes", "predicted", "measured in the proof"], cells, numbers=[1, 2])
    if found.strictest is not None and len(found.steps) > 1:
        rows = [[value(found.strictest, limit), money(price)] for limit, price in found.steps]
        now = found.problem.lines[found.strictest]
        yield p.text(
            f"What the strictest line costs: {line_words(found.strictest)}, where you asked for "
            f"{value(found.strictest, now)}."
        )
        yield p.table([line_words(found.strictest), "price an hour"], rows, numbers=[0, 1])


def _nothing(found: Protection, last: ProtectionRound) -> bool:
    return last.outcome.price == 0 and found.kept


_CAPTION = (
    "The darker an operator, the more rows its unprotected loss damages. On its edge: its technique. Below its name: "
    "the median of its measured recoveries."
)
_WHAT = (
    "One failure of the operator alone, if nothing were protected. The rank is by the share of wrong rows after the "
    "longest outage that was assessed; in brackets: where it lies in 95 % of draws from the moments of failure."
)
_METRICS = (
    "Of the output score in the window of the sink, without protection. C: rank correlation of rows lost and score. D: "
    "how much the score depends on the moment of the failure. R: time until the output has recovered. I: squared error "
    "until then. In brackets: where the rank lies in 95 % of draws from the moments of failure."
)


def _drawing(found: Protection, last: ProtectionRound) -> tuple[list[Node], list[Edge]]:
    nodes = []
    for spec in found.graph:
        shape: Shape = "source" if isinstance(spec, Source) else "sink" if isinstance(spec, Sink) else "box"
        chosen = last.outcome.chosen[spec.name]
        words = [] if chosen.option.technique == "none" else [chosen.option.describe()]
        badge = ", ".join([*words, *(["backup"] if chosen.backup else [])])
        times = [one.recovery for one in last.kills if one.operator == spec.name and one.recovery is not None]
        about = f"recovers in {median(times):.2f} s" if times else "not killed"
        worst = max((effect.wrong for effect in _alone(found, spec.name, 1).values()), default=0)
        nodes.append(Node(spec.name, spec.name, about, shape, _colour(worst), badge))
    return nodes, [Edge(stream.source, stream.target, tooltip=stream.id) for stream in found.graph.streams]


def _colour(wrong: int) -> str:
    share = (wrong / PPM) ** 0.5
    mild, severe = (0xFD, 0xEB, 0xD8), (0xB4, 0x23, 0x18)
    return "#" + "".join(f"{round(a + (b - a) * share):02x}" for a, b in zip(mild, severe, strict=True))


def _alone(found: Protection, operator: str, level: int) -> dict[str, SinkEffect]:
    """By sink: what an unprotected failure of an operator does."""
    return dict(found.unprotected(operator, level)[1])


def _losses(found: Protection) -> str:
    rows = []
    for spec in found.graph:
        outage, middle = found.unprotected(spec.name, 1)
        _, most = found.unprotected(spec.name, 2)
        harmed = [sink for sink in sorted(most) if most[sink].wrong]
        usually = [effect_words(sink, middle[sink]) for sink in harmed if sink in middle and middle[sink].wrong]
        at_most = [effect_words(sink, most[sink]) for sink in harmed]
        rank = found.effects.ranks.get(spec.name)
        rows.append((
            max((effect.wrong for effect in most.values()), default=0),
            [str(rank or "–"), f"{show_duration(outage)} without {spec.name}", "; ".join(usually) or "nothing",
             "; ".join(at_most) or "nothing"],
        ))  # fmt: skip
    rows.sort(key=lambda row: -row[0])
    titles = ["rank", "after", "rows wrong or missing, in the median", "in 95 % of failures"]
    return p.table(titles, [row for _, row in rows], long=[2, 3])


def _researchers(found: Protection) -> str:
    rows = [
        [
            one.operator, one.sink, f"{one.C:.2f}", f"{one.D:.3g}", show_duration(one.R), f"{one.I:.3g}", str(one.rank),
        ]
        for one in sorted(found.effects.metrics, key=lambda one: (one.sink, one.rank))
    ]  # fmt: skip
    return p.table(["operator", "sink", "C", "D", "R", "I", "rank by I"], rows, numbers=[2, 3, 4, 5, 6])


def effect_words(sink: str, effect: SinkEffect) -> str:
    """As in: 38 % of Campaigns' rows for 8 min."""
    whose = f"{sink}'" if sink.endswith("s") else f"{sink}'s"
    lasts = "to the end of the data" if effect.wrong_for >= LONGEST else f"for {show_duration(effect.wrong_for)}"
    return f"{share(effect.wrong)} of {whose} rows {lasts}"


def share(millionths: int) -> str:
    """In per cent, with two digits below ten."""
    percent = millionths / 10_000
    return f"{percent:.0f} %" if percent >= 10 else f"{percent:.2g} %"


def _predicted(found: Protection, last: ProtectionRound) -> Iterable[str]:
    accuracy = last.accuracy
    words = [f"{_count(accuracy.kills, 'kill')}."]
    if accuracy.recoveries_within is not None:
        words.append(f"The 90 % interval of the recovery time holds {accuracy.recoveries_within:.0%} of them.")
    if accuracy.median_ratio is not None:
        words.append(f"Predicted ÷ measured: {accuracy.median_ratio:.2f} in the median.")
    if accuracy.damage_within is not None:
        words.append(f"Rows wrong or missing were within the prediction in {accuracy.damage_within:.0%}.")
    yield p.text(" ".join(words))
    rows, parts = [], list[list[str]]()
    for name, ahead in last.predictions.items():
        chosen = last.outcome.chosen[name]
        own = [one for one in last.kills if one.operator == name and one.recovery is not None]
        times = sorted(one.recovery or 0.0 for one in own)
        technique = chosen.option.describe() + (", backup" if chosen.backup else "")
        if own:
            parts.append([name, *(f"{median(getattr(one, part) for one in own):.2f}" for part in _PARTS)])
        worst = max((effect.wrong for one in own for effect in one.damage.values()), default=0)
        most = max((levels[2].wrong for levels in ahead.damage.values()), default=0)
        rows.append([
            name, technique,
            " · ".join(f"{each / 1e6:.2f}" for each in ahead.recovery.levels),
            f"{times[0]:.2f} · {median(times):.2f} · {times[-1]:.2f}" if times else "–",
            f"≤ {share(most)}", share(worst) if own else "–", str(len(own)),
        ])  # fmt: skip
    yield p.table(
        [
            "operator", "technique", "recovery, 5 · 50 · 95 % (s)", "measured, least · median · most (s)",
            "rows wrong", "measured, worst", "kills",
        ],
        rows, numbers=[2, 3, 4, 5, 6],
    )  # fmt: skip
    yield p.text("The parts of a recovery, in seconds; the median of what was measured.")
    yield p.table(["operator", "detection", "restart", "restore", "catching up"], parts, numbers=[1, 2, 3, 4])


def _footer(found: Protection, command: str) -> str:
    error = found.measured.error
    words = [
        f"Assessed and proven over the first {show_duration(round(found.seconds * found.speed * 1e6))} of the data, "
        f"replayed at {found.speed:.3g} times its own speed: an outage of 1 s is {found.speed:.3g} s of data.",
        "Every operator runs in a process of its own.",
        f"Error of the cost model: cores {error.cores:.0%}, memory {error.memory:.0%}, written {error.written:.0%}.",
    ]
    return " ".join(words) + (f" {command}" if command else "")
