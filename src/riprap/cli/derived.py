"""Options of a command that derive from a class of `riprap.base.options`.

    @derived(RunOptions)
    def command(app: AppName, out: Annotated[…] = None, **given: Any) -> None:
        options = RunOptions(**given)

Typer reads the signature of a command; this adds a parameter for each field, and parses texts that a field reads.
Parameters of the command itself that have the name of a field take its place.
"""

import functools
import inspect
from collections.abc import Callable
from dataclasses import fields
from typing import Annotated, Any

import typer

from riprap.base.errors import UsageError
from riprap.base.options import Flag, flags


def derived(options: type) -> Callable[[Callable[..., None]], Callable[..., None]]:
    def decorated(command: Callable[..., None]) -> Callable[..., None]:
        own = [
            each
            for each in inspect.signature(command, eval_str=True).parameters.values()
            if each.kind is not inspect.Parameter.VAR_KEYWORD
        ]
        taken = {each.name for each in own}
        found = {name: entry for name, entry in flags(options).items() if name not in taken}
        types_ = {each.name: each.type for each in fields(options)}
        added = [_parameter(name, types_[name], *entry) for name, entry in found.items()]

        @functools.wraps(command)
        def filled(*arguments: Any, **given: Any) -> None:
            for name, (flag, default) in found.items():
                if given[name] is None:
                    given[name] = default
                elif flag.read is not None:
                    given[name] = _read(name, flag.read, given[name])
            command(*arguments, **given)

        filled.__signature__ = inspect.Signature([*own, *added])  # type: ignore[attr-defined]
        filled.__annotations__ = {each.name: each.annotation for each in (*own, *added)}
        return filled

    return decorated


def _parameter(name: str, annotation: Any, flag: Flag, default: Any) -> inspect.Parameter:
    names = [flag.name or f"--{name.replace('_', '-')}"]
    shown: Any = flag.shown if flag.shown is not None else True
    taken: Any = float | None if flag.number else _typed(annotation)
    if flag.read is not None:
        taken, default = str | None, None
    if flag.repeated:
        taken, default = list[str] | None, None
    option = typer.Option(*names, help=flag.help, metavar=flag.metavar, show_default=shown, min=flag.least)
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[taken, option])


def _read(name: str, read: Callable[[str], Any], text: str) -> Any:
    try:
        return read(text)
    except UsageError as error:
        if f"`{name}" in str(error):
            raise
        raise UsageError(f"`{name}`: {error}") from None


def _typed(annotation: Any) -> Any:
    """What the parser makes of a text: a number, a flag, or the text itself for anything that it does not know."""
    if annotation in (bool, int, float, str, str | None, int | None, float | None):
        return annotation
    return str | None
