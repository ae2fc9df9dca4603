"""The output of commands: tables and progress for people, JSON for programs.

Names, values and errors come from users and files. Terminal control characters in them are escaped here, at the edge,
and nowhere else.
"""

import json
import re
import sys
from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.measure import Measurement
from rich.segment import Segment
from rich.table import Table

from riprap.base.errors import harmless


class _SafeConsole(Console):
    """Passes on only the control codes of the library itself: colours and cursor movements."""

    def _render_buffer(self, buffer: Iterable[Segment]) -> str:
        return super()._render_buffer(
            segment if segment.control else Segment(harmless(segment.text), segment.style) for segment in buffer
        )


# Names come from users, so printed text is never markup: colours are set by `style` or `Text`.
# Results go to stdout, progress and warnings to stderr, so that `riprap … --json | jq` works.
OUT = _SafeConsole(highlight=False, markup=False, emoji=False)
ERR = _SafeConsole(stderr=True, highlight=False, markup=False, emoji=False)
_NOT_PLAIN = re.compile(r"[^\x20-\x7e\n]")


def print_line(text: str) -> None:
    """One plain line on stdout."""
    print(harmless(text).replace("\n", "\\n"), flush=True)


def print_table(table: Table) -> bool:
    """Print a table if it fits without breaking its cells. Returns whether it was printed."""
    if Measurement.get(OUT, OUT.options.update(max_width=10_000), table).maximum > OUT.width:
        return False
    OUT.print(table)
    return True


def print_json(result: Any) -> None:
    """One JSON object on stdout and nothing else."""
    text = json.dumps(result, indent=2, ensure_ascii=False, allow_nan=False)
    sys.stdout.write(_NOT_PLAIN.sub(_escaped, text) + "\n")


def _escaped(match: re.Match[str]) -> str:
    """A JSON escape, which every reader decodes to the same character."""
    letter = match.group()
    return letter if harmless(letter) == letter else json.dumps(letter)[1:-1] if letter != "\x7f" else "\\u007f"
