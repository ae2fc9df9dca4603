"""Checks on the arguments of every command, made in one place before the command starts.

Numbers are finite and fit into 64 bits. Text is valid UTF-8, or it could not be printed. A malformed Spark master is
refused before a JVM is started for it. An option with one value is given once: the parser would silently use the last
one. Commands registered through `Commands` get these checks.

Errors from below name parameters in backticks; here they become flags.
"""

import re
from math import isfinite
from shlex import quote
from typing import Any

import typer
from typer.core import TyperCommand

from riprap.base.documents import shortened
from riprap.base.errors import RiprapError, UsageError

_MOST = 2**63 - 1
_PARAMETER = re.compile(r"`(\w+)(?:=([^`]*))?`")
_MASTER = re.compile(
    r"local(\[(\*|[1-9][0-9]{0,4})(, *[1-9][0-9]{0,9})?\])?|local-cluster\[[1-9][0-9]*, *[1-9][0-9]*, *[1-9][0-9]*\]"
    r"|yarn|(spark|k8s|sc|mesos)://\S+"
)


class Checked(TyperCommand):
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        parsed: list[Any] = self.make_parser(ctx).parse_args(args=list(args))[2]  # one entry per occurrence
        for parameter in parsed:
            single = parameter.param_type_name == "option" and not (parameter.multiple or parameter.is_flag)
            if single and sum(other is parameter for other in parsed) > 1:
                raise UsageError(f"{max(parameter.opts, key=len)} is given more than once: give it once")
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        for parameter in self.params:
            value = ctx.params.get(parameter.name)
            for single in value if isinstance(value, list | tuple) else (value,):
                _check(parameter, single)
        try:
            return super().invoke(ctx)
        except RiprapError as error:
            error.args = (self._with_flags(str(error)), *error.args[1:])
            raise

    def _with_flags(self, sentence: str) -> str:
        """The sentence with parameters in backticks, `fuse` or `fuse=none`, written as on the command line."""
        names = {parameter.name: max(parameter.opts, key=len) for parameter in self.params}

        def written(found: re.Match[str]) -> str:
            name, value = found[1], found[2]
            if not names.get(name, "").startswith("-"):
                return found[0]
            return names[name] if value is None else f"{names[name]} {quote(value)}"

        return _PARAMETER.sub(written, sentence)


class Commands(typer.Typer):
    """A group of commands whose arguments are checked."""

    def command(self, name: str | None = None, **options: Any) -> Any:
        return super().command(name, cls=Checked, **options)


def _check(parameter: Any, value: Any) -> None:
    shown = parameter.opts[0] if parameter.param_type_name == "option" else str(parameter.name).upper()
    if isinstance(value, float) and not isfinite(value):
        raise UsageError(f"{shown} {value}: write a finite number")
    if isinstance(value, int) and abs(value) > _MOST:
        raise UsageError(f"{shown}: the number has too many digits; write one below 2^63")
    if parameter.name == "master" and value is not None and not _MASTER.fullmatch(value):
        raise UsageError(
            f"--master {shortened(value)}: write local, local[4], local-cluster[2,4,1024], spark://HOST:PORT, "
            "k8s://ADDRESS or yarn, or leave it out"
        )
    text = str(value)
    if not text.isprintable() and any(0xD800 <= ord(letter) <= 0xDFFF or letter == "\0" for letter in text):
        raise UsageError(f"{shown}: the text has bytes that are not UTF-8; type it again")
