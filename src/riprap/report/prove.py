"""The report of a proof: the verdict, the worst fault, then all faults with the output around each."""

from collections.abc import Sequence
from datetime import UTC, datetime

from riprap.proof.effects import FaultEffect
from riprap.proof.fault_kinds import KINDS
from riprap.proof.verdict import FaultResult, Proof
from riprap.report import page as p
from riprap.report.chart import ChartPoint, Series, chart

_BEFORE, _AFTER = 3.0, 12.0  # seconds of output shown before and after a fault; longer recoveries extend it
_SLOTS = 60  # time slots of a chart
_PICTURES = 60  # the worst faults get a chart


def proof_report(
    proof: Proof,
    *,
    command: str = "",
    output: Sequence[tuple[float, int]] = (),
    replicas: Sequence[str] = (),
) -> str:
    """`output`: rows that reached the sinks, as (wall clock seconds, rows), in order.

    `replicas`: blocks about HA groups and copies (`replicas.py`).
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
        blocks.append(
            p.section(f"The worst fault: {done[0].fault}", p.figure(_picture(done[0], output), _caption(done[0])))
        )
    blocks.append(p.section("All faults, the worst first", *_faults(proof, done)))
    if any(result.effect is not None or result.predicted_effect is not None for result in done):
        blocks.append(p.section("Effect of each fault on the output, the worst first", *_effects(proof, done)))
    if proof.agreement is not None:
        blocks.append(p.section("Predicted and measured", *_agreement(proof, measured)))
    blocks.append(p.section("Output of the sinks", _sinks(proof)))
    blocks += [p.text(sentence) for sentence in proof.detected_differences]
    if replicas:
        blocks.append(p.section("Replicas", *replicas))
    if proof.scores:
        blocks.append(p.section("Quality of the output", _scores(proof)))
    if output and len(done) > 1:
        pictures = [p.figure(_picture(result, output), _caption(result)) for result in done[1:_PICTURES]]
        blocks.append(p.section("Output around every other fault, the worst first", *pictures))
    skipped = [[str(result.fault), result.not_injected] for result in proof.faults if result.not_injected]
    if skipped:
        blocks.append(p.section("Not injected", p.table(["fault", "why"], skipped)))
    blocks.append(p.section("Verdict", p.text(proof.sentence)))
    return p.page(f"Proof of {proof.app}", blocks, lead=proof.sentence, footer=command)


def _exceeded(proof: Proof) -> str:
    agreement = proof.agreement
    return "no prediction" if agreement is None else f"{agreement.faults - agreement.within} of {agreement.faults}"


def _agreement(proof: Proof, measured: Sequence[FaultResult]) -> list[str]:
    """A chart of predicted against measured recoveries, and a summary."""
    agreement = proof.agreement
    assert agreement is not None
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
        y_label="seconds from restored state to caught up",
    )
    ranks = "" if agreement.rank is None else f" The rank correlation of the elements is {agreement.rank:.2f}."
    words = (
        f"Of {agreement.faults} recoveries {agreement.within} took at most the predicted time; the longest, relative "
        f"to its prediction, took {agreement.most:.2f} of it.{ranks} A prediction is the worst case, a kill just "
        "before a checkpoint is durable, so most recoveries take less."
    )
    return [p.figure(drawn, "One point per fault; points below the line were faster than predicted."), p.text(words)]


def _effects(proof: Proof, done: Sequence[FaultResult]) -> list[str]:
    """Predicted and measured effects, fault by fault; then whether both rank the elements alike."""
    rows = []
    for result in done:
        before, after = result.predicted_effect or FaultEffect(), result.effect or FaultEffect()
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
            "Predicted → measured. QS, R and I are the metrics of the assessment (quality score of what differs, "
            "sections until the output is correct again, squared error); tainted tuples and availability come from the "
            "model. Where nothing is lost, the predicted availability assumes the longest possible recovery; it is "
            "0 if that may last until the next fault."
        ),
        p.table(columns, rows, numbers=(1, 2, 3, 4, 5, 6)),
    ]
    known = [[title, "unknown" if rank is None else f"{rank:.2f}"] for title, rank in proof.orders.items()]
    if any(rank is not None for rank in proof.orders.values()):
        blocks += [
            p.text(
                "Do both rank the elements alike? Rank correlations (Spearman) over the elements that were killed one "
                "at a time; unknown where fewer than three can be compared, or all are equal."
            ),
            p.table(["ranking of the elements by", "rank correlation"], known, numbers=(1,)),
        ]
    return blocks


def _both(before: float | None, after: float | None, form: str) -> str:
    shown = ["–" if value is None else format(value, form) for value in (before, after)]
    return " → ".join(shown)


def _picture(result: FaultResult, output: Sequence[tuple[float, int]]) -> str:
    """Rows a second at the sinks around the fault, and when its targets ran again."""
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
    moments = {"the fault": result.began, "state restored": result.restored, "runs again": result.running}
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
    altered = {None: "", "": " There was nothing to alter."}.get(result.altered, f" It altered {result.altered}.")
    what = f"{result.fault.kind} {_targets(result)}".strip()
    return (
        f"{what} at {result.fault.at / 1e6:.1f} s. {kind.does[0].upper()}{kind.does[1:]}: its target {after}.{altered}"
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
    columns = ["sink", "promised", "expected", "found", "lost", "doubled", "wrong", "in order"]
    return p.table(columns, rows, numbers=(2, 3, 4, 5, 6))


def _scores(proof: Proof) -> str:
    rows = [
        [name, score.function, f"{score.expected:,.6g}", f"{score.found:,.6g}",
         "" if score.share is None else f"{100 * score.share:.2f} %"]
        for name, score in proof.scores.items()
    ]  # fmt: skip
    return p.table(["sink", "output score function", "expected", "found", "quality"], rows, numbers=(2, 3, 4))


def _faults(proof: Proof, done: Sequence[FaultResult]) -> list[str]:
    """All faults; below, what each kind does and what must hold."""
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
    columns = ["fault", "target", "at", "clock, UTC", "ran again after", "restarted in", "caught up in", "predicted"]
    broke = [n for n, result in enumerate(done) if result.running is None or result.misses(proof.bound)]
    words = "Faults that broke a promise are highlighted. “Predicted” is the worst case of catching up."
    if any(not KINDS[result.fault.kind].bounded for result in done):
        words += " A driver restarts with a new Spark session; no bound covers that, so it comes last."
    kinds = [[name, kind.does, kind.holds] for name, kind in KINDS.items() if any(r.fault.kind == name for r in done)]
    return [
        p.table(columns, rows, numbers=(2, 3, 4, 5, 6, 7), long=(1,), hot=broke),
        p.text(words),
        p.table(["fault", "effect", "what must hold"], kinds, long=(1, 2)),
    ]


def _clock(result: FaultResult) -> str:
    """The time of day, to compare with logs and metrics."""
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
