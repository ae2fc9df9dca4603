"""`make bench [ONLY=name]`: runs `benchmarks/bench_*.py`, prints a table, writes `benchmarks/results.json`.

Each such file has a function `run() -> Iterable[Result]`. ONLY picks files by their name without `bench_`.
With ONLY, results of the other files stay in `results.json` as they were last measured; those of this one that it no
longer measures go.
"""

import argparse
import importlib
import json
import sys
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.harness import Result

HERE = Path(__file__).parent
RESULTS = HERE / "results.json"


def main() -> None:
    names = sorted(path.stem.removeprefix("bench_") for path in HERE.glob("bench_*.py"))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=names, help="run one file of benchmarks")
    only = parser.parse_args().only
    console = Console()
    results: dict[str, list[Result]] = {}
    for name in [only] if only else names:
        console.print(f"[dim]measuring {name} …[/]")
        results[name] = list(importlib.import_module(f"benchmarks.bench_{name}").run())
    table = Table(title="Measured side by side in one run")
    for column in ("benchmark", "value", "bar", "", "how"):
        table.add_column(column, justify="right" if column in ("value", "bar") else "left")
    for result in (result for group in results.values() for result in group):
        mark = "" if not result.bar else "[green]ok[/]" if result.ok else "[red]short[/]"
        table.add_row(result.name, f"{result.value:.4g} {result.unit}", result.bar, mark, result.how)
    console.print(table)
    kept = json.loads(RESULTS.read_text()) if only and RESULTS.exists() else []
    fresh = [{"file": name, **asdict(result)} for name, group in results.items() for result in group]
    RESULTS.write_text(json.dumps([row for row in kept if row["file"] != only] + fresh, indent=2) + "\n")
    if not all(row["ok"] for row in fresh):
        sys.exit("some bars were not met; the table says which")


if __name__ == "__main__":
    main()
