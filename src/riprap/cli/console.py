"""Where commands print: tables and progress to people, JSON to programs.

Names, values and errors come from users and from files: what a terminal would obey in them is made harmless here, at
the edge, and nowhere else.
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


class _Harmless(Console):
    """Only what the library itself says to the terminal, such as colours and where the cursor goes, is obeyed by it."""

    def _render_buffer(self, buffer: Iterable[Segment]) -> str:
        return super()._render_buffer(
            segment if segment.control else Segment(harmless(segment.text), segment.style) for segment in buffer
        )


# Names come from users: nothing in what is printed is markup; where something has a colour, `style` or `Text` says it.
# Results go to stdout, progress and remarks to stderr, so that `riprap … --json | jq` works.
OUT = _Harmless(highlight=False, markup=False, emoji=False)
ERR = _Harmless(stderr=True, highlight=False, markup=False, emoji=False)
_NOT_PLAIN = re.compile(r"[^\x20-\x7e\n]")


def print_line(text: str) -> None:
    """One plain line on stdout."""
    print(harmless(text).replace("\n", "\\n"), flush=True)


def print_table(table: Table) -> bool:
    """Print a table if it fits as it is, without breaking what is in its cells; whether it did."""
    if Measurement.get(OUT, OUT.options.update(max_width=10_000), table).maximum > OUT.width:
        return False
    OUT.print(table)
    return True


def print_json(result: Any) -> None:
    """One JSON object on stdout and nothing else."""
    text = json.dumps(result, indent=2, ensure_ascii=False, allow_nan=False)
    sys.stdout.write(_NOT_PLAIN.sub(_escaped, text) + "\n")


def _escaped(found: re.Match[str]) -> str:
    """As JSON writes it, so that whoever reads it finds the same."""
    letter = found.group()
    return letter if harmless(letter) == letter else json.dumps(letter)[1:-1] if letter != "\x7f" else "\\u007f"
