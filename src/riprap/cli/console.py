"""Where commands print: tables and progress to people, JSON to programs."""

import json
import sys
from typing import Any

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

# Names come from users: nothing in what is printed is markup; where something has a colour, `style` or `Text` says it.
# Results go to stdout, progress and remarks to stderr, so that `riprap … --json | jq` works.
OUT = Console(highlight=False, markup=False, emoji=False)
ERR = Console(stderr=True, highlight=False, markup=False, emoji=False)


def print_table(table: Table) -> bool:
    """Print a table if it fits as it is, without breaking what is in its cells; whether it did."""
    if Measurement.get(OUT, OUT.options.update(max_width=10_000), table).maximum > OUT.width:
        return False
    OUT.print(table)
    return True


def print_json(result: Any) -> None:
    """One JSON object on stdout and nothing else."""
    json.dump(result, sys.stdout, indent=2, ensure_ascii=False, allow_nan=False)
    sys.stdout.write("\n")
