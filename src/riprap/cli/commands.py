"""The commands of `riprap`, in the order a user meets them.

A command's module imports what it needs inside the command, so that `riprap --help` stays quick.
"""

import typer

from riprap.cli import (
    assess,
    data,
    doctor,
    graph,
    model,
    plan,
    profile,
    prove,
    reproduce,
    reproduce_san,
    reproduce_yield,
    run,
    run_bounded,
    stream,
)

app = typer.Typer(
    name="riprap",
    help="Find the operators of a streaming application worth protecting, plan it, run it on Spark, prove it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


@app.callback()
def _root() -> None:
    """Makes `riprap` a group of commands however many there are."""


app.command("graph")(graph.command)
app.command("profile")(profile.command)
app.command("assess")(assess.command)
app.command("model")(model.command)
app.command("plan")(plan.command)
app.command("run")(run.command)
app.command("prove")(prove.command)
app.command("run-bounded")(run_bounded.command)
app.add_typer(stream.app, name="stream")
reproduce.app.command("san")(reproduce_san.command)
reproduce.app.command("yield")(reproduce_yield.command)
app.add_typer(reproduce.app, name="reproduce")
app.add_typer(data.app, name="data")
app.command("doctor")(doctor.command)
