"""The commands of `riprap`, in the order a user meets them, grouped by what they are for.

A command's module imports what it needs inside the command, so that `riprap --help` stays quick.
"""

from typing import Any

from typer.core import TyperGroup

from riprap.cli import (
    assess,
    compare,
    data,
    doctor,
    graph,
    model,
    plan,
    profile,
    prove,
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
    run,
    run_bounded,
    stream,
)
from riprap.cli.arguments import Commands

_ORDER = (
    "graph", "profile", "assess", "model", "plan", "run", "run-bounded", "prove", "compare", "reproduce", "stream",
    "data", "doctor",
)  # fmt: skip


class _Loop(TyperGroup):
    """Lists the commands in the order in which a user goes round with an app."""

    def list_commands(self, ctx: Any) -> list[str]:
        return sorted(
            super().list_commands(ctx), key=lambda name: _ORDER.index(name) if name in _ORDER else len(_ORDER)
        )


app = Commands(
    name="riprap",
    cls=_Loop,
    help="Find the operators of a streaming application worth protecting, plan it, run it on Spark, prove it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


@app.callback()
def _root() -> None:
    """Makes `riprap` a group of commands however many there are."""


# What a user goes round with an app, in this order; then what helps.
_DECLARE, _ASSESS, _MODEL, _PLAN, _RUN, _PROVE = "Declare", "Assess", "Model", "Plan", "Run", "Prove"
_COMPARE, _STREAMS, _OTHER = "Compare", "Streams and data", "Other"

app.command("graph", rich_help_panel=_DECLARE)(graph.command)
app.command("profile", rich_help_panel=_DECLARE)(profile.command)
app.command("assess", rich_help_panel=_ASSESS)(assess.command)
app.command("model", rich_help_panel=_MODEL)(model.command)
app.command("plan", rich_help_panel=_PLAN)(plan.command)
app.command("run", rich_help_panel=_RUN)(run.command)
app.command("run-bounded", rich_help_panel=_RUN)(run_bounded.command)
app.command("prove", rich_help_panel=_PROVE)(prove.command)
app.command("compare", rich_help_panel=_COMPARE)(compare.command)
reproduce.app.command("assess")(reproduce_assess.command)
reproduce.app.command("cec")(reproduce_cec.command)
reproduce.app.command("corruption")(reproduce_corruption.command)
reproduce.app.command("failover")(reproduce_failover.command)
reproduce.app.command("joins")(reproduce_joins.command)
reproduce.app.command("sampled")(reproduce_sampled.command)
reproduce.app.command("san")(reproduce_san.command)
reproduce.app.command("streams")(reproduce_streams.command)
reproduce.app.command("yield")(reproduce_yield.command)
app.add_typer(reproduce.app, name="reproduce", rich_help_panel=_COMPARE)
app.add_typer(stream.app, name="stream", rich_help_panel=_STREAMS)
app.add_typer(data.app, name="data", rich_help_panel=_STREAMS)
app.command("doctor", rich_help_panel=_OTHER)(doctor.command)
