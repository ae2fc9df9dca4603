"""Where commands print: tables and progress to people, JSON to programs."""

import json
import sys
from typing import Any

from rich.console import Console

# Names come from users: nothing in what is printed is markup; where something has a colour, `style` or `Text` says it.
# Results go to stdout, progress and remarks to stderr, so that `riprap … --json | jq` works.
OUT = Console(highlight=False, markup=False, emoji=False)
ERR = Console(stderr=True, highlight=False, markup=False, emoji=False)


def print_json(result: Any) -> None:
    """One JSON object on stdout and nothing else."""
    json.dump(result, sys.stdout, indent=2, ensure_ascii=False, allow_nan=False)
    sys.stdout.write("\n")
