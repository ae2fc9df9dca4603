"""The commands `compare` and `reproduce`, which this package adds to `riprap` through an entry point."""

from typer import Typer

_PANEL = "Compare"


def add_commands(app: Typer) -> None:
    from riprap_papers.cli import (
        compare,
        reproduce,
        reproduce_assess,
        reproduce_cec,
        reproduce_corruption,
        reproduce_failover,
        reproduce_joins,
        reproduce_sampled,
        reproduce_san,
        reproduce_streams,
        reproduce_yield,
    )

    app.command("compare", rich_help_panel=_PANEL)(compare.command)
    experiments = {
        "assess": reproduce_assess,
        "cec": reproduce_cec,
        "corruption": reproduce_corruption,
        "failover": reproduce_failover,
        "joins": reproduce_joins,
        "sampled": reproduce_sampled,
        "san": reproduce_san,
        "streams": reproduce_streams,
        "yield": reproduce_yield,
    }
    for name, module in experiments.items():
        reproduce.app.command(name)(module.command)
    app.add_typer(reproduce.app, name="reproduce", rich_help_panel=_PANEL)
