"""`riprap prove`: injects faults into a running app and checks its output against what its plan promises."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from riprap.api.prove_options import ProveOptions
from riprap.cli.app_options import AppName, AsJson, InputPaths, input_paths, planned_app
from riprap.cli.derived import derived

if TYPE_CHECKING:
    from rich.table import Table

    from riprap.proof.schedule import ScheduledFault
    from riprap.proof.verdict import FaultResult, Proof

_LEAST = 8  # seconds
_RATE = 20_000.0  # tuples per second of a generated source
_SHOWN = 12  # effects of faults in the terminal; the report has all


@derived(ProveOptions)
def command(
    app: AppName,
    input: InputPaths = None,
    out: Annotated[Path | None, typer.Option(help="Directory of the proof.", show_default="proof-APP")] = None,
    json: AsJson = False,
    **given: Any,
) -> None:
    """Inject faults into a running app and check whether its plan holds."""
    import sys

    from riprap.api.prove import prove
    from riprap.base.errors import UsageError
    from riprap.cli.console import ERR, print_json

    options = ProveOptions(**given)
    if options.seconds < _LEAST:
        raise UsageError(
            f"`seconds={options.seconds:g}s`: a proof needs {_LEAST}s or more, to inject a fault and see the recovery"
        )
    rate = given.pop("rate") or _RATE
    graph = planned_app(app, options.plan)
    directory = out or Path(f"proof-{graph.name}")

    def report(entry: Mapping[str, Any], fault: "ScheduledFault") -> None:
        if not json:
            known = {"running": "runs again", "restored": "is restored", "began": "…"}
            what = known.get(entry["what"]) or f"{entry['what']}: {entry.get('why', '')}"
            ERR.print(f"{entry['ran']:6.1f} s  {fault.kind} {', '.join(fault.targets)} {what}", highlight=False)

    def inputs() -> dict[str, Path]:
        """Called after all other checks."""
        paths = input_paths(graph, input, round(rate * options.seconds), options.seed)
        if not json:
            ERR.print("starting Spark and the processing elements …")
        return paths

    try:
        proof = prove(
            app,
            inputs,
            out=directory,
            tell=report,
            warn=lambda text: ERR.print(text, style="yellow", soft_wrap=True),
            command=" ".join(["riprap", *sys.argv[1:]]),
            **given,
        )
    except KeyboardInterrupt:
        ERR.print("interrupted")
        raise typer.Exit(130) from None
    if json:
        print_json(proof.as_json())
    else:
        _print(proof, directory)
    if not proof.holds:
        raise typer.Exit(1)


def _recoveries(proof: "Proof") -> "Table":
    """Measured and predicted recoveries, by element."""
    from rich.table import Table

    by: dict[str, list[FaultResult]] = {}
    for result in proof.faults:
        if result.predicted is not None and result.caught_up is not None:
            by.setdefault(", ".join(result.fault.targets), []).append(result)
    table = Table(box=None)
    for name in ("element", "faults", "restarted in", "caught up in", "predicted"):
        table.add_column(name, justify="left" if name == "element" else "right")
    for name, recoveries in sorted(by.items()):
        restart, caught_up = (max(getattr(r, what) for r in recoveries) for what in ("restart", "caught_up"))
        table.add_row(
            _shortened(name),
            str(len(recoveries)),
            f"{restart:.2f} s",
            f"{caught_up:.2f} s",
            f"≤ {recoveries[0].predicted:.2f} s",
        )
    return table


def _effects(proof: "Proof") -> "Table":
    """Predicted and measured effect of each fault on the output, the worst first."""
    from rich.table import Table

    from riprap.proof.effects import FaultEffect

    worst = [result for result in proof.worst_first if result.effect is not None or result.predicted_effect is not None]
    more = f"; {len(worst) - _SHOWN} more are in the report" if len(worst) > _SHOWN else ""
    table = Table(box=None, title=f"predicted→measured, the worst first{more}", title_justify="left")
    forms = {"quality": ".2f", "recovery": ".0f", "impact": ".2g", "tainted": ",.0f", "availability": ".2f"}
    for name in ("fault", "QS", "R", "I", "tainted", "available"):
        table.add_column(name, justify="left" if name == "fault" else "right", no_wrap=name != "fault")
    for result in worst[:_SHOWN]:
        both = result.predicted_effect or FaultEffect(), result.effect or FaultEffect()
        cells = [[getattr(effect, measure) for effect in both] for measure in forms]
        shown = [
            "→".join("–" if value is None else format(value, form) for value in pair)
            for pair, form in zip(cells, forms.values(), strict=True)
        ]
        table.add_row(_shortened(f"{result.fault.kind} {', '.join(result.fault.targets)}", 21), *shown)
    return table


def _shortened(names: str, most: int = 30) -> str:
    return names if len(names) <= most else f"{names[: most - 1]}…"


def _print(proof: "Proof", directory: Path) -> None:
    from rich.table import Table

    from riprap.cli.console import OUT

    table = Table(box=None)
    for name in ("sink", "promised", "found", "lost", "doubled", "wrong"):
        table.add_column(name, justify="left" if name in ("sink", "promised") else "right")
    for name, sink in proof.sinks.items():
        table.add_row(
            name, proof.promised[name], *(f"{count:,}" for count in (sink.found, sink.lost, sink.doubled, sink.wrong))
        )
    OUT.print(table)
    if any(result.predicted is not None and result.caught_up is not None for result in proof.faults):
        OUT.print(_recoveries(proof))
    if any(result.effect is not None for result in proof.faults):
        OUT.print(_effects(proof))
    for result in proof.faults:
        if result.altered is not None:
            OUT.print(f"{result.fault}: {result.altered or 'nothing'} was altered", soft_wrap=True)
    for sentence in proof.detected_differences:
        OUT.print(sentence, soft_wrap=True)
    for title, rank in proof.orders.items():
        if rank is not None:
            OUT.print(f"ranking of the elements by {title}: rank correlation {rank:.2f}", soft_wrap=True)
    for name, score in proof.scores.items():
        share = "" if score.share is None else f" ({100 * score.share:.2f} %)"
        OUT.print(f"{name}: {score.function} is {score.found:,.6g} of {score.expected:,.6g}{share}", soft_wrap=True)
    took = sorted(result.latency for result in proof.faults if result.latency is not None)
    if took:
        OUT.print(f"recovery took {took[len(took) // 2]:.2f} s (median), {took[-1]:.2f} s at most")
    for sentence in proof.broken[1:]:
        OUT.print(sentence, style="red", soft_wrap=True)
    OUT.print(proof.sentence, style="green" if proof.holds else "red", soft_wrap=True)
    OUT.print(f"{directory / 'proof.html'}", soft_wrap=True)
