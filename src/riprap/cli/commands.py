"""The commands of `riprap`, in the order of use and grouped by purpose.

A command's module imports what it needs inside the command, so that `riprap --help` stays quick. Other installed
packages add commands through the entry point group `riprap.commands`: each entry is a function called with the app.
"""

from importlib.metadata import entry_points
from typing import Any

from typer.core import TyperGroup

from riprap.cli import (
    assess,
    data,
    doctor,
    graph,
    measure,
    model,
    plan,
    profile,
    protect,
    prove,
    record_job,
    run,
    run_bounded,
    stream,
)
from riprap.cli.arguments import Commands

_ORDER = (
    "protect", "measure", "graph", "record", "profile", "assess", "model", "plan", "run", "run-bounded", "prove",
    "compare", "reproduce", "stream", "data", "doctor",
)  # fmt: skip


class _Loop(TyperGroup):
    """Lists the commands in the order in which a user needs them."""

    def list_commands(self, ctx: Any) -> list[str]:
        return sorted(
            super().list_commands(ctx), key=lambda name: _ORDER.index(name) if name in _ORDER else len(_ORDER)
        )


app = Commands(
    name="riprap",
    cls=_Loop,
    help="Find the operators of a streaming app worth protecting, plan their protection, run it on Spark, prove it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


@app.callback()
def _root() -> None:
    """Makes `riprap` a group even with a single command."""


# The steps of the work with an app, then the tools.
_DECLARE, _ASSESS, _MODEL, _PLAN, _RUN, _PROVE = "Declare", "Assess", "Model", "Plan", "Run", "Prove"
_PROTECT, _STREAMS, _OTHER = "Protect", "Streams and data", "Other"

app.command("graph", rich_help_panel=_DECLARE)(graph.command)
app.command("protect", rich_help_panel=_PROTECT)(protect.command)
app.command("measure", rich_help_panel=_PROTECT)(measure.command)
app.command("record", rich_help_panel=_DECLARE)(record_job.command)
app.command("profile", rich_help_panel=_DECLARE)(profile.command)
app.command("assess", rich_help_panel=_ASSESS)(assess.command)
app.command("model", rich_help_panel=_MODEL)(model.command)
app.command("plan", rich_help_panel=_PLAN)(plan.command)
app.command("run", rich_help_panel=_RUN)(run.command)
app.command("run-bounded", rich_help_panel=_RUN)(run_bounded.command)
app.command("prove", rich_help_panel=_PROVE)(prove.command)
app.add_typer(stream.app, name="stream", rich_help_panel=_STREAMS)
app.add_typer(data.app, name="data", rich_help_panel=_STREAMS)
app.command("doctor", rich_help_panel=_OTHER)(doctor.command)

for _plugin in entry_points(group="riprap.commands"):
    _plugin.load()(app)
