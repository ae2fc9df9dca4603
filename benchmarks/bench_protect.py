"""Whether the numbers of `riprap protect` can be believed: six apps, from objectives to a proof.

For each app: whether every line was kept in the proof; how many recoveries lie in the predicted 90 % interval, the
median of predicted ÷ measured, and the rank correlation over elements whose measured medians differ by more than 2 ×;
rows wrong within the prediction; predicted and measured costs of the plan; its price over that of the cheapest plan
that gives every operator the same technique; and whether, by the model, a line is missed without the cheapest single
protection of the plan.

    RIPRAP_PROTECT=shop,meters make bench ONLY=protect    only these apps
    RIPRAP_KILLS=5                                        kills of each element
"""

import os
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path

from benchmarks.harness import Result, at_least, at_most, reported
from benchmarks.protect_apps import apps
from riprap.api.protect import ProtectSettings, protect_app
from riprap.planner.protection_problem import Chosen, evaluate
from riprap.proof.prediction import rank_correlation
from riprap.proof.protection_results import Protection
from riprap.spark.session import hosting_session

_APART = 2.0


def run() -> Iterator[Result]:
    wanted = os.environ.get("RIPRAP_PROTECT", "")
    settings = ProtectSettings(int(os.environ.get("RIPRAP_KILLS", "5")), longest=30.0)
    kills, inside, harmed, halves, missing = 0, list[bool](), list[bool](), list[str](), list[bool]()
    with tempfile.TemporaryDirectory(prefix="riprap-bench-") as directory:
        place = Path(directory)
        known = apps(place)
        chosen = {name: known[name] for name in known if not wanted or name in wanted.split(",")}
        spark = hosting_session(max(len(app.graph.order) for app in chosen.values()))
        try:
            for name, app in chosen.items():
                found = protect_app(
                    app.graph, app.inputs, app.slo, place / f"protection-{name}", scores=app.score, settings=settings,
                    spark=spark,
                )  # fmt: skip
                yield from _results(name, found)
                within, hurt = _within(found)
                kills, inside, harmed = kills + len(within), [*inside, *within], [*harmed, *hurt]
                halves += [name] if _ratio(found) <= 0.5 else []
                missing += [_missed_without(found)] if _missed_without(found) is not None else []
        finally:
            spark.stop()
    yield reported("kills over all apps", kills, "", "the bar asks for 300")
    if inside:
        share = sum(inside) / len(inside)
        yield at_least("recoveries in the 90 % interval, all apps", share, 0.85, "of all kills", "")
        yield at_most("recoveries in the 90 % interval, all apps (not too wide)", share, 0.95, "of all kills", "")
    if harmed:
        yield at_least("rows wrong within the prediction, all apps", sum(harmed) / len(harmed), 0.9, "of kills", "")
    yield at_least("apps at half the price of one technique everywhere", len(halves), 4, ", ".join(halves), "")
    if missing:
        share = sum(missing) / len(missing)
        yield at_least("a line is missed without the cheapest protection", share, 0.8, "as the model says", "")


def _results(name: str, found: Protection) -> Iterator[Result]:
    last = found.last
    if last is None:
        yield reported(f"{name}: infeasible", 0, "", "the objectives cannot be met on this machine at this load")
        return
    yield at_least(f"{name}: every line kept", float(found.kept), 1, f"in proof {len(found.rounds)}", "")
    inside, _ = _within(found)
    if inside:
        yield at_least(f"{name}: in the 90 % interval", sum(inside) / len(inside), 0.85, f"{len(inside)} kills", "")
    if last.accuracy.median_ratio is not None:
        ratio = last.accuracy.median_ratio
        yield at_least(f"{name}: predicted ÷ measured recovery", ratio, 0.67, "median over kills")
        yield at_most(f"{name}: predicted ÷ measured recovery (too long)", ratio, 1.5, "median over kills")
    rank = _rank(found)
    if rank is not None:
        yield at_least(f"{name}: rank correlation", rank, 0.8, "elements more than 2 × apart", "")
    for resource in ("cores", "memory", "written"):
        before, after = getattr(last.predicted_cost, resource), getattr(last.measured_cost, resource)
        if max(before, after) > 0:
            off = abs(before - after) / max(after, 1e-12)
            yield at_most(
                f"{name}: error of {resource}", off, 0.25, f"predicted {before:.3g}, measured {after:.3g}", ""
            )
    how = f"{(found.price or 0) / 1e9:.4f} an hour"
    yield reported(f"{name}: price over one technique everywhere", _ratio(found), "×", how)


def _within(found: Protection) -> tuple[list[bool], list[bool]]:
    """Of every kill of the last proof: whether its recovery, and whether its damage was as predicted."""
    last = found.last
    if last is None:
        return [], []
    inside, harmed = [], []
    for one in last.kills:
        if one.recovery is None:
            continue
        ahead = last.predictions[one.operator]
        inside.append(ahead.recovery.low <= one.recovery * 1e6 <= ahead.recovery.high)
        for sink, levels in ahead.damage.items():
            if levels[2].wrong:
                effect = one.damage.get(sink)
                harmed.append((effect.wrong if effect else 0) <= levels[2].wrong)
    return inside, harmed


def _rank(found: Protection) -> float | None:
    """Over elements of which some pair is more than 2 × apart; None: no such pair."""
    last = found.last
    assert last is not None
    medians: dict[str, float] = {}
    for name in last.predictions:
        times = [one.recovery for one in last.kills if one.operator == name and one.recovery is not None]
        if times:
            medians[name] = statistics.median(times)
    apart = [
        pair for pair in combinations(medians, 2)
        if max(medians[each] for each in pair) > _APART * min(medians[each] for each in pair)
    ]  # fmt: skip
    names: Sequence[str] = sorted({name for pair in apart for name in pair})
    predicted = [float(last.predictions[name].recovery.middle) for name in names]
    return rank_correlation(predicted, [medians[name] for name in names])


def _ratio(found: Protection) -> float:
    prices = [price for price in found.alternatives.values() if price]
    return (found.price or 0) / min(prices) if prices and found.price is not None else 1.0


def _missed_without(found: Protection) -> bool | None:
    """Whether a line is missed, by the model, if the cheapest single protection is removed; None: there is none."""
    last = found.last
    if last is None:
        return None
    without: list[tuple[int, str, Chosen]] = []
    for name, (option, backup) in last.outcome.chosen.items():
        operator = found.problem.operators[name]
        if option.price:
            without.append((option.price, name, Chosen(operator.options[0], backup)))
        if backup:
            without.append((operator.backup or 0, name, Chosen(option, False)))
    if not without:
        return None
    _, name, changed = min(without, key=lambda entry: entry[:2])
    outcome = evaluate(found.problem, {**last.outcome.chosen, name: changed})
    return outcome is None or bool(outcome.broken(found.problem))
