"""The page of a proof: the verdict first, then the worst fault, then all of them, with the output around each."""

from collections.abc import Sequence

from riprap.proof.faults import KINDS
from riprap.proof.verdict import FaultResult, Proof
from riprap.report import page as p
from riprap.report.chart import Point, Series, chart

_BEFORE, _AFTER = 3.0, 12.0  # seconds of output shown around a fault
_PICTURES = 6  # the slowest recoveries get one


def proof_report(proof: Proof, *, command: str = "", output: Sequence[tuple[float, int]] = ()) -> str:
    """`output`: rows that reached the sinks, as (wall clock seconds, rows), in order."""
    done = [result for result in proof.faults if result.began is not None]
    measured = sorted((r for r in done if r.latency is not None), key=lambda r: -(r.latency or 0.0))
    facts = {
        "faults": str(len(done)),
        "slowest recovery": f"{measured[0].latency:.2f} s" if measured else "none",
        "predicted too short": _exceeded(proof),
        "bound": f"{proof.bound / 1e6:g} s" if proof.bound is not None else "none given",
        "lost": f"{sum(sink.lost for sink in proof.sinks.values()):,}",
        "doubled": f"{sum(sink.doubled for sink in proof.sinks.values()):,}",
        "wrong": f"{sum(sink.wrong for sink in proof.sinks.values()):,}",
    }
    blocks = [p.facts(facts)]
    blocks += [p.note(sentence) for sentence in proof.broken]
    if output:
        for result in measured[:_PICTURES]:
            blocks.append(p.section(str(result.fault), p.figure(_picture(result, output), _caption(result))))
    if proof.agreement is not None:
        blocks.append(p.section("Predicted and measured", *_agreement(proof, measured)))
    blocks.append(p.section("What reached the sinks", _sinks(proof)))
    if proof.scores:
        blocks.append(p.section("How good the output is", _scores(proof)))
    blocks.append(p.section("Fault by fault, the slowest first", _faults(proof, measured)))
    skipped = [str(result.fault) for result in proof.faults if result.began is None]
    if skipped:
        blocks.append(p.text(f"The run was over before {', '.join(skipped)}."))
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
            Series("measured", [Point(x, y, f"{name}: {y:.2f} s of {x:g} s") for x, y, name in points], line=False),
            Series("as predicted", [Point(0.0, 0.0), Point(longest, longest)]),
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


def _picture(result: FaultResult, output: Sequence[tuple[float, int]]) -> str:
    """Rows a second at the sinks, in tenths of a second, around the fault; time 0 is its beginning."""
    assert result.began is not None
    step = 0.25
    count = int((_BEFORE + _AFTER) / step)
    rates = [0.0] * count
    for at, rows in output:
        slot = int((at - result.began + _BEFORE) / step)
        if 0 <= slot < count:
            rates[slot] += rows / step
    points = [Point(slot * step, rate) for slot, rate in enumerate(rates)]
    return chart(
        [Series("rows/s at the sinks", points, steps=True)],
        x_label=f"seconds; the fault is at {_BEFORE:g}",
        y_label="rows/s",
    )


def _caption(result: FaultResult) -> str:
    kind = KINDS[result.fault.kind]
    return f"{kind.does[0].upper()}{kind.does[1:]}: what it hit ran again after {result.latency:.2f} s."


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


def _faults(proof: Proof, measured: Sequence[FaultResult]) -> str:
    never = [result for result in proof.faults if result.began is not None and result.running is None]
    rows = [
        [
            result.fault.kind,
            ", ".join(result.fault.targets),
            f"{result.fault.at / 1e6:.1f} s",
            "never" if result.latency is None else f"{result.latency:.2f} s",
            _seconds(result.restart),
            _seconds(result.caught_up),
            _seconds(result.predicted),
            KINDS[result.fault.kind].holds,
        ]
        for result in [*never, *measured]
    ]
    columns = ["fault", "of", "at", "ran again after", "restarted", "caught up", "predicted", "what must hold"]
    return p.table(columns, rows, numbers=(2, 3, 4, 5, 6), long=(7,))


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.2f} s"
