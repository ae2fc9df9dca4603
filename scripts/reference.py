"""Generates the reference pages of commands and of the Python API from the code.

`make docs` loads this file as a hook of MkDocs, so the pages exist in the site only. Run as a script, it prints them:

    .venv/bin/python scripts/reference.py commands
    .venv/bin/python scripts/reference.py api

The list of functions in `docs/reference/expressions.md` is what `functions` prints:

    .venv/bin/python scripts/reference.py functions
"""

import inspect
import sys
from importlib import import_module
from typing import Any

import typer

# The functions behind the commands, beside the names that `import riprap` offers.
FUNCTIONS = [
    "riprap.api.assess.run_request",
    "riprap.api.model.model",
    "riprap.api.recovery_plan.plan_recovery",
    "riprap.api.cost_profile.cost_profile",
    "riprap.api.run.run",
    "riprap.api.run.resume",
    "riprap.api.prove.prove",
]


def command_tree() -> Any:
    """The root command with everything that installed packages add to it."""
    from riprap.cli.commands import app

    return typer.main.get_command(app)


def commands() -> str:
    """One section per command: its usage, its help text and its options."""
    lines = ["# Commands", "", "Generated from the code. `riprap COMMAND --help` prints the same.", ""]
    for name, command in sorted(command_tree().commands.items()):
        subcommands = getattr(command, "commands", None)
        lines += _command(f"riprap {name}", command, 2)
        for child, subcommand in sorted((subcommands or {}).items()):
            lines += _command(f"riprap {name} {child}", subcommand, 3)
    return "\n".join(lines)


def functions() -> str:
    """The functions of expressions by family, as they are called."""
    from textwrap import wrap

    from riprap.expressions.functions import ALIASES, REWRITTEN, WRITTEN_CALLS
    from riprap.expressions.signatures import FUNCTIONS as LIBRARY

    families: dict[str, list[str]] = {"numbers, choices and parts of times": [*WRITTEN_CALLS, *REWRITTEN.values()]}
    for one in LIBRARY.values():
        families.setdefault(one.family, []).extend(dict.fromkeys(one.calls))
    for other, name in ALIASES.items():
        families[LIBRARY[name].family].append(f"{other.lower()} = {name.lower()}")
    lines = []
    for family, calls in sorted(families.items()):
        if family in ("operators", "varying"):
            continue
        shown = ", ".join("`" + call.replace(" ", "\0") + "`" for call in sorted(calls) if "extract_" not in call)
        lines += [f"**{family[0].upper()}{family[1:]}.**", ""]
        lines += [line.replace("\0", " ") for line in wrap(shown, 96, break_long_words=False, break_on_hyphens=False)]
        lines.append("")
    return "\n".join(lines)


def _command(title: str, command: Any, level: int) -> list[str]:
    lines = ["#" * level + f" {title}", "", (command.help or "").strip(), ""]
    visible = [one for one in command.params if not getattr(one, "hidden", False) and one.name != "help"]
    if visible:
        lines += ["| argument | meaning | default |", "| --- | --- | --- |"]
        lines += [_row(one) for one in visible] + [""]
    return lines


def _row(parameter: Any) -> str:
    option = parameter.param_type_name == "option"
    name = ", ".join(parameter.opts + parameter.secondary_opts) if option else str(parameter.name).upper()
    default = parameter.default
    shown = "" if default in (None, False, True) or callable(default) or parameter.required else f"`{default}`"
    help_text = " ".join((getattr(parameter, "help", None) or "").split()).replace("|", "\\|")
    return f"| `{name}` | {help_text} | {shown} |"


def api() -> str:
    """One section per public name: its signature and its docstring."""
    import riprap

    lines = ["# Python API", "", "Generated from the code.", "", "## `import riprap`", ""]
    for name in sorted(riprap.__all__):
        lines += _entry(f"riprap.{name}", getattr(riprap, name))
    lines += ["## One function per command", ""]
    for path in FUNCTIONS:
        module, _, name = path.rpartition(".")
        lines += _entry(path, getattr(import_module(module), name))
    return "\n".join(lines)


def _entry(name: str, subject: Any) -> list[str]:
    lines = [f"### `{name}`", "", *_signature(name, subject), *_docstring(subject)]
    if inspect.isclass(subject):
        for method, function in inspect.getmembers(subject, inspect.isfunction):
            if not method.startswith("_"):
                lines += [f"#### `{name}.{method}`", "", *_signature(method, function), *_docstring(function)]
    return lines


def _signature(name: str, subject: Any) -> list[str]:
    try:
        signature = str(inspect.signature(subject))
    except (TypeError, ValueError):
        return []
    return ["```text", f"{name.rpartition('.')[2]}{signature}", "```", ""]


def _docstring(subject: Any) -> list[str]:
    return [inspect.cleandoc(subject.__doc__ or ""), ""]


PAGES = {"commands": commands, "api": api}


def on_files(files: Any, config: Any) -> Any:
    """MkDocs calls this with the files of the site."""
    from mkdocs.structure.files import File

    for name, page in PAGES.items():
        files.append(File.generated(config, f"reference/{name}.md", content=page()))
    return files


if __name__ == "__main__":
    print({**PAGES, "functions": functions}[sys.argv[1]]())
