"""The costs of work on the simulated host: round figures, or those of profiles of the workloads (`riprap profile`).

A profile has the cost of a row in each operator; with recoveries (`riprap profile --recovery`) also the time of a
restart including the restore, and of a checkpoint until it is durable, as medians if available. Other costs stay round
figures. A case contains its part of a profile as text, so that it depends on nothing else.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from riprap.base.documents import read_toml
from riprap.base.errors import DataError, UsageError
from riprap.base.shapes import raising_misshapen
from riprap.testing.timed_simulation import ROWS, Costs
from riprap_papers.compare.grid import ComparedCase
from riprap_papers.workloads.workload_catalogue import WORKLOADS

_ROUND = Costs(ROWS)


def costs_of(case: ComparedCase) -> Costs:
    if not case.costs:
        return _ROUND
    costs = json.loads(case.costs)
    found = replace(_ROUND, operators=costs["rows"], sync=costs.get("durable", _ROUND.sync))
    # The measured time from the kill to the restored state includes the restore.
    return replace(found, restart=costs["restart"], restore=0.0) if "restart" in costs else found


def profiles(paths: Sequence[Path | str]) -> dict[str, str]:
    """The costs that the cases of each workload contain, by workload."""
    found = {}
    for path in map(Path, paths):
        data = read_toml(path, "profile")
        if data.get("app") not in WORKLOADS:
            raise UsageError(
                f"--profile {path} is of {data.get('app')}, which is not a workload: give the profile of a workload"
            )
        found[str(data["app"])] = _costs_text(data, path)
    return found


def _costs_text(data: Mapping[str, Any], path: Path) -> str:
    with raising_misshapen(f"{path} is not a profile that `riprap profile --out` wrote"):
        rows = {name: float(entry["seconds_per_tuple"]) * 1e6 for name, entry in data["operators"].items()}
        recovery = data.get("recovery", {})
        said = {name: recovery.get(f"{name}_median", recovery.get(name)) for name in ("restart", "durable")}
        times = {name: float(time) * 1e6 for name, time in said.items() if time is not None}
    if any(not 0 <= cost < 1e9 for cost in (*rows.values(), *times.values())):
        raise DataError(f"{path}: times must be between 0 and 1,000 seconds")
    return json.dumps({"rows": rows, **times}, sort_keys=True)


def said(cases: Sequence[ComparedCase]) -> str:
    """The origin of the figures, in a sentence."""
    measured = list(dict.fromkeys(case.workload for case in cases if case.costs))
    recovered = [name for name in measured if any("restart" in case.costs for case in cases if case.workload == name)]
    round_ = "round figures of the order measured on two cores: compare protocols with them, not machines"
    if not measured:
        return f"The costs of rows, messages, checkpoints, restarts and restores are {round_}."
    times = f", those of restarts and checkpoints from those of {', '.join(recovered)}" if recovered else ""
    return f"The costs of rows are from profiles of {', '.join(measured)}{times}; the others are {round_}."
