"""What work costs on the simulated host: round figures, or what profiles of the workloads say (`riprap profile`).

Of a profile: what a row costs in each operator; if it has recoveries (`riprap profile --recovery`), how long a restart
takes with its restoring, and a checkpoint until it is durable: medians where they are there. What it does not say stays
a round figure. A case carries what it needs of a profile with it, as text, so that it is still all that it depends on.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from riprap.base.documents import read_toml
from riprap.base.errors import DataError, UsageError
from riprap.base.shapes import taken_apart
from riprap.testing.timed_simulation import ROWS, Costs
from riprap_papers.compare.grid import ComparedCase
from riprap_papers.workloads.catalogue import WORKLOADS

_ROUND = Costs(ROWS)


def costs_of(case: ComparedCase) -> Costs:
    if not case.costs:
        return _ROUND
    told = json.loads(case.costs)
    found = replace(_ROUND, operators=told["rows"], sync=told.get("durable", _ROUND.sync))
    # What was measured from the kill until the state is there has the restoring in it.
    return replace(found, restart=told["restart"], restore=0.0) if "restart" in told else found


def profiles(paths: Sequence[Path | str]) -> dict[str, str]:
    """By workload, what cases of it are to carry."""
    found = {}
    for path in map(Path, paths):
        data = read_toml(path, "profile")
        if data.get("app") not in WORKLOADS:
            raise UsageError(f"--profile {path} is of {data.get('app')}, which is no workload: give one of a workload")
        found[str(data["app"])] = _told(data, path)
    return found


def _told(data: Mapping[str, Any], path: Path) -> str:
    with taken_apart(f"{path} is not a profile that `riprap profile --out` wrote"):
        rows = {name: float(entry["seconds_per_tuple"]) * 1e6 for name, entry in data["operators"].items()}
        recovery = data.get("recovery", {})
        said = {name: recovery.get(f"{name}_median", recovery.get(name)) for name in ("restart", "durable")}
        times = {name: float(time) * 1e6 for name, time in said.items() if time is not None}
    if any(not 0 <= cost < 1e9 for cost in (*rows.values(), *times.values())):
        raise DataError(f"{path}: times must be between 0 and 1,000 seconds")
    return json.dumps({"rows": rows, **times}, sort_keys=True)


def said(cases: Sequence[ComparedCase]) -> str:
    """Where the figures are from, in a sentence."""
    measured = list(dict.fromkeys(case.workload for case in cases if case.costs))
    recovered = [name for name in measured if any("restart" in case.costs for case in cases if case.workload == name)]
    round_ = "round figures, of the order that runs on two cores show: compare protocols with them, not machines"
    if not measured:
        return f"What rows, messages, checkpoints, restarts and restores cost are {round_}."
    times = f", and restarts and checkpoints from those of {', '.join(recovered)}" if recovered else ""
    return f"What a row costs is taken from profiles of {', '.join(measured)}{times}; the rest are {round_}."
