"""The page of a proof: the verdict first, then the worst fault, then all of them, with the output around each."""

from collections.abc import Sequence
from datetime import UTC, datetime

from riprap.proof.effects import FaultEffect
from riprap.proof.fault_kinds import KINDS
from riprap.proof.verdict import FaultResult, Proof
from riprap.report import page as p
from riprap.report.chart import ChartPoint, Series, chart

_BEFORE, _AFTER = 3.0, 12.0  # seconds of output shown around a fault, and as many as before behind what takes longer
_SLOTS = 60  # parts of a picture
_PICTURES = 60  # the worst faults get one


def proof_report(
    proof: Proof,
    *,
    command: str = "",
    output: Sequence[tuple[float, int]] = (),
    replicas: Sequence[str] = (),
) -> str:
    """`output`: rows that reached the sinks, as (wall clock seconds, rows), in order.

    `replicas`: blocks on HA groups and copies (`replicas.py`).
    """
    done = proof.worst_first
    measured = [result for result in done if result.latency is not None]
    bounded = [result.latency for result in measured if KINDS[result.fault.kind].bounded]
    slowest = max((latency for latency in bounded if latency is not None), default=None)
    facts = {
        "faults": str(len(done)),
        "slowest recovery": f"{slowest:.2f} s" if slowest is not None else "none",
        "slower than predicted": _exceeded(proof),
        "bound": f"{proof.bound / 1e6:g} s" if proof.bound is not None else "none given",
        "lost": f"{sum(sink.lost for sink in proof.sinks.values()):,}",
        "doubled": f"{sum(sink.doubled for sink in proof.sinks.values()):,}",
        "wrong": f"{sum(sink.wrong for sink in proof.sinks.values()):,}",
    }
    blocks = [p.facts(facts)]
    blocks += [p.note(sentence) for sentence in proof.broken]
    if done and output:
        blocks.append(p.section(f"The worst: {done[0].fault}", p.figure(_picture(done[0], output), _caption(done[0]))))
    blocks.append(p.section("Fault by fault, the worst first", *_faults(proof, done)))
    if any(result.effect is not None or result.foreseen is not None for result in done):
        blocks.append(p.section("What each fault did to the output, the worst first", *_effects(proof, done)))
    if proof.agreement is not None:
        blocks.append(p.section("Predicted and measured", *_agreement(proof, measured)))
    blocks.append(p.section("What reached the sinks", _sinks(proof)))
    blocks += [p.text(sentence) for sentence in proof.found_out]
    if replicas:
        blocks.append(p.section("Replicas", *replicas))
    if proof.scores:
        blocks.append(p.section("How good the output is", _scores(proof)))
    if output and len(done) > 1:
        pictures = [p.figure(_picture(result, output), _caption(result)) for result in done[1:_PICTURES]]
        blocks.append(p.section("Output around every other fault, the worst first", *pictures))
    skipped = [[str(result.fault), result.not_injected] for result in proof.faults if result.not_injected]
    if skipped:
        blocks.append(p.section("Not injected", p.table(["fault", "why"], skipped)))
    blocks.append(p.section("So", p.text(proof.sentence)))
    return p.page(f"Proof of {proof.app}", blocks, lead=proof.sentence, footer=command)


def _exceeded(proof: Proof) -> str:
    found = proof.agreement
    return "no prediction" if found is None else f"{found.faults - found.within} of {found.faults}"


def _agreement(proof: Proof, measured: Sequence[FaultResult]) -> list[str]:
    """A picture of predicted against measured, and a sentence on both."""
    found = proof.agreement
    assert found is not None
    points = sorted(
        (result.predicted, result.caught_up, str(result.fault))
        for result in measured
        if result.predicted is not None and result.caught_up is not None
    )
    longest = max(point[0] for point in points)
    drawn = chart(
        [
            Series(
                "measured", [ChartPoint(x, y, f"{name}: {y:.2f} s of {x:g} s") for x, y, name in points], line=False
            ),
            Series("as predicted", [ChartPoint(0.0, 0.0), ChartPoint(longest, longest)]),
        ],
        x_label="predicted at most, seconds",
        y_label="seconds from having its state again until it had caught up",
    )
    ranks = "" if found.rank is None else f" The order of the elements agrees to {found.rank:.2f} (rank correlation)."
    words = (
        f"Of {found.faults} recoveries {found.within} took at most what was predicted; the longest, measured against "
        f"its prediction, took {found.most:.2f} of it.{ranks} A prediction is the worst case, a kill just before a "
        "checkpoint is durable, so most take less."
    )
    return [p.figure(drawn, "One point a fault; below the line it was faster than predicted."), p.text(words)]


def _effects(proof: Proof, done: Sequence[FaultResult]) -> list[str]:
    """Predicted beside measured, fault by fault; then whether they put the elements in the same order."""
    rows = []
    for result in done:
        before, after = result.foreseen or FaultEffect(), result.effect or FaultEffect()
        rows.append(
            [
                str(result.fault),
                _both(before.quality, after.quality, ".3f"),
                _both(before.recovery, after.recovery, ".0f"),
                _both(before.impact, after.impact, ".3g"),
                _both(before.tainted, after.tainted, ",.0f"),
                _both(before.lost, after.lost, ",.0f"),
                _both(before.availability, after.availability, ".3f"),
            ]
        )
    columns = ["fault", "QS", "R", "I", "tainted", "lost", "availability"]
    blocks = [
        p.text(
            "Predicted → measured. QS, R and I are those of the assessment (quality of what differs, sections until it "
            "is right again, how wrong it was in all); tainted tuples and availability are the model's. Where nothing "
            "is lost, the predicted availability is that of the longest recovery that may be, and 0 if that may last "
            "until the next fault."
        ),
        p.table(columns, rows, numbers=(1, 2, 3, 4, 5, 6)),
    ]
    known = [[title, "not known" if rank is None else f"{rank:.2f}"] for title, rank in proof.orders.items()]
    if any(rank is not None for rank in proof.orders.values()):
        blocks += [
            p.text(
                "Do they put the elements in the same order? Rank correlations (Spearman) over the elements that were "
                "killed one at a time; not known where fewer than three can be compared, or all are alike."
            ),
            p.table(["order of the elements by", "rank correlation"], known, numbers=(1,)),
        ]
    return blocks


def _both(before: float | None, after: float | None, form: str) -> str:
    shown = ["–" if value is None else format(value, form) for value in (before, after)]
    return " → ".join(shown)


def _picture(result: FaultResult, output: Sequence[tuple[float, int]]) -> str:
    """Rows a second at the sinks around the fault, and when what it hit was back."""
    assert result.began is not None
    after = max(_AFTER, (result.running or result.began) - result.began + _BEFORE)
    step, count = (_BEFORE + after) / _SLOTS, _SLOTS
    rates = [0.0] * count
    for at, rows in output:
        slot = int((at - result.began + _BEFORE) / step)
        if 0 <= slot < count:
            rates[slot] += rows / step
    points = [ChartPoint(slot * step, rate) for slot, rate in enumerate(rates)]
    top = max(*rates, 1.0)
    moments = {"the fault": result.began, "has its state": result.restored, "runs again": result.running}
    upright = [
        Series(name, [ChartPoint(at, 0.0), ChartPoint(at, top, f"{name}: {at - _BEFORE:.2f} s")])
        for name, moment in moments.items()
        if moment is not None and (at := moment - result.began + _BEFORE) <= _BEFORE + after
    ]
    return chart(
        [Series("rows/s at the sinks", points, steps=True), *upright],
        x_label=f"seconds; the fault is at {_BEFORE:g}",
        y_label="rows/s",
    )


def _caption(result: FaultResult) -> str:
    kind = KINDS[result.fault.kind]
    after = "never ran again" if result.latency is None else f"ran again after {result.latency:.2f} s"
    struck = {None: "", "": " There was nothing to alter."}.get(result.altered, f" It struck {result.altered}.")
    what = f"{result.fault.kind} {_targets(result)}".strip()
    return (
        f"{what} at {result.fault.at / 1e6:.1f} s. {kind.does[0].upper()}{kind.does[1:]}: what it hit {after}.{struck}"
    )


def _sinks(proof: Proof) -> str:
    rows = [
        [
            name,
            proof.promised[name],
            f"{sink.expected:,}",
            f"{sink.found:,}",
            f"{sink.lost:,}",
            f"{sink.doubled:,}",
            f"{sink.wrong:,}",
            "yes" if sink.ordered else "no",
        ]
        for name, sink in proof.sinks.items()
    ]
    columns = ["sink", "promised", "without faults", "found", "lost", "doubled", "wrong", "in order"]
    return p.table(columns, rows, numbers=(2, 3, 4, 5, 6))


def _scores(proof: Proof) -> str:
    rows = [
        [name, score.function, f"{score.expected:,.6g}", f"{score.found:,.6g}",
         "" if score.share is None else f"{100 * score.share:.2f} %"]
        for name, score in proof.scores.items()
    ]  # fmt: skip
    return p.table(["sink", "output score function", "without faults", "found", "quality"], rows, numbers=(2, 3, 4))


def _faults(proof: Proof, done: Sequence[FaultResult]) -> list[str]:
    """All of them, and below, kind by kind, what was done and what had to hold."""
    rows = [
        [
            result.fault.kind,
            _targets(result),
            f"{result.fault.at / 1e6:.1f} s",
            _clock(result),
            "never" if result.latency is None else f"{result.latency:.2f} s",
            _seconds(result.restart),
            _seconds(result.caught_up),
            _seconds(result.predicted),
        ]
        for result in done
    ]
    columns = ["fault", "of", "at", "clock, UTC", "ran again after", "restarted in", "caught up in", "at most"]
    broke = [n for n, result in enumerate(done) if result.running is None or result.misses(proof.bound)]
    words = "What broke a promise is marked. “At most” is what was predicted for catching up, in the worst case."
    if any(not KINDS[result.fault.kind].bounded for result in done):
        words += " A driver comes back with a Spark of its own: no bound is about that, so it stands at the end."
    kinds = [[name, kind.does, kind.holds] for name, kind in KINDS.items() if any(r.fault.kind == name for r in done)]
    return [
        p.table(columns, rows, numbers=(2, 3, 4, 5, 6, 7), long=(1,), hot=broke),
        p.text(words),
        p.table(["fault", "what was done", "what must hold"], kinds, long=(1, 2)),
    ]


def _clock(result: FaultResult) -> str:
    """As in logs and metrics of the same night."""
    assert result.began is not None
    return datetime.fromtimestamp(result.began, UTC).strftime("%H:%M:%S")


def _targets(result: FaultResult) -> str:
    targets, most = result.fault.targets, 4
    if result.fault.kind == "all":
        return "every element"
    more = f" and {len(targets) - most} more" if len(targets) > most else ""
    return ", ".join(targets[:most]) + more


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.2f} s"
