"""`riprap reproduce failover`: repeats the published re-deployment with HA groups, with real kills."""

from pathlib import Path
from typing import Annotated

import typer


def command(
    tuples: Annotated[int, typer.Option(help="Input tuples of each run.", min=10_000)] = 600_000,
    rate: Annotated[float, typer.Option(help="Tuples per second.", min=1_000, max=100_000_000)] = 40_000,
    operators: Annotated[
        str, typer.Option(help="Operators to kill.", metavar="OP,…")
    ] = "TradeFilter,Aggregator,Source",
    failover: Annotated[str, typer.Option(help="smart or plain.")] = "smart",
    seed: Annotated[int, typer.Option(help="Seed of the data.")] = 2,
    out: Annotated[Path, typer.Option(help="Directory for the runs.")] = Path("reproduce-failover"),
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Quality impact and recovery time of the real output, before and after re-deployment, published beside ours."""
    from rich.table import Table

    from riprap.apps.catalogue import load_app
    from riprap.apps.samples import check_tuples
    from riprap.base.errors import UsageError, known
    from riprap.cli.app_options import input_paths
    from riprap.cli.console import ERR, OUT, print_json
    from riprap.cli.output_paths import output_directory
    from riprap.protocols.registry import configured
    from riprap.spark.session import hosting_session
    from riprap_papers.experiments.failover import APP, as_json, reproduce
    from riprap_papers.published.assessment_tables import REDEPLOYED

    named = [name.strip() for name in operators.split(",") if name.strip()]
    for name in named:
        if name not in REDEPLOYED:
            raise UsageError(
                f"--operators {name}: no numbers were published for it; choose among {known(REDEPLOYED, name)}"
            )
    configured("partial", failover=failover)
    check_tuples(tuples)
    output_directory(out)
    out.mkdir(parents=True, exist_ok=True)
    (market,) = input_paths(load_app(APP), None, tuples, seed).values()

    def say(text: str) -> None:
        if not json:
            ERR.print(text, style="dim")

    kill_at = tuples / rate / 3
    spark = hosting_session(16)
    outcomes = list(
        reproduce(
            market, out, operators=named, rate=rate, kill_at=kill_at, failover=failover, spark=spark, say=say
        )
    )  # fmt: skip
    if json:
        print_json({"seed": seed, "tuples": tuples, "rate": rate, "rows": [as_json(outcome) for outcome in outcomes]})
        return
    table = Table(box=None)
    for title in ("killed", "HA groups", "R", "published", "I", "published", "lost", "doubled", "wrong", "failover"):
        table.add_column(title, justify="left" if title in ("killed", "HA groups") else "right")
    for one in outcomes:
        took = "" if one.failover is None else f"{one.failover:.3f} s"
        recovery, impact = one.published
        table.add_row(
            one.operator, "yes" if one.redeployed else "no", str(one.recovery), str(recovery), f"{one.impact:.2f}",
            f"{impact:.2f}", f"{one.lost:,}", f"{one.doubled:,}", f"{one.wrong:,}", took,
        )  # fmt: skip
    OUT.print(table)
    OUT.print(
        "R counts sections of 5,000 input tuples from the kill on. The published data were larger, with an outage of "
        "16 s."
    )
