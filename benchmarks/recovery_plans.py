"""Do plans hold? Apps in published shapes, plans for three bounds each, twenty kills a plan; and one backup fewer.

    python -m benchmarks.recovery_plans OUT [--only twitter-sentiment] [--kills 20] [--restart 1.0]

For each app and bound: the fewest backups that meet it by L as executed (`planner/executed.py`, all sets tried), a run
under that plan with kills of one element after the other, and what was measured. `held`: every kill recovered within
the bound. Then the same with the backup left out whose loss costs most, killing the element that it was for: some kill
is to miss the bound. The operators wait instead of working (`apps/shaped.py`). Writes OUT/results.json and
OUT/recoveries.html, predicted against measured.
"""

import argparse
import json
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from riprap.api.prove import prove
from riprap.apps import shaped
from riprap.base.quantities import Duration
from riprap.graph.annotations import Annotations
from riprap.graph.graph import Graph
from riprap.graph.plan import Plan, write_plan
from riprap.planner import topologies
from riprap.planner.executed import as_executed
from riprap.planner.topology import Topology
from riprap.report import page as p
from riprap.report.chart import Point, Series, chart

EVERY, DURABLE = 1_000_000, 50_000  # microseconds
SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("_ts", pa.timestamp("us", "UTC"))])
GAP = 4  # seconds between kills
SHAPES = {
    "twitter-sentiment": (topologies.twitter_sentiment(2, 2, 2), shaped.twitter_sentiment),
    "signal-guru": (topologies.signal_guru_of_one(), shaped.signal_guru),
}


def latencies(topology: Topology, backups: np.ndarray) -> np.ndarray:
    """L as executed, seconds."""
    sources = set(range(topology.size)) - set(topology.forward[:, 1].tolist())
    pace = [0.0 if task in sources else shaped.PACE for task in range(topology.size)]
    return as_executed(topology, [EVERY + DURABLE] * topology.size, pace, backups) / 1e6


def fewest(topology: Topology, bound: float) -> np.ndarray:
    """The fewest backups with which no task takes longer."""
    for count in range(topology.size):
        found = []
        for chosen in combinations(range(topology.size), count):
            backups = np.isin(np.arange(topology.size), chosen)
            found.append((latencies(topology, backups).max(), chosen))
        least, chosen = min(found)
        if least <= bound:
            return np.isin(np.arange(topology.size), chosen)
    raise SystemExit(f"no plan recomputes within {bound} s")


def one_fewer(topology: Topology, backups: np.ndarray) -> tuple[np.ndarray, str]:
    """Without the backup whose loss costs most, and the task that it costs it."""
    worst = (-1.0, -1, "")
    for task in np.flatnonzero(backups).tolist():
        left = backups.copy()
        left[task] = False
        found = latencies(topology, left)
        worst = max(worst, (float(found.max()), task, topology.tasks[int(found.argmax())]))
    left = backups.copy()
    left[worst[1]] = False
    return left, worst[2]


def proven(
    graph: Graph, topology: Topology, backups: np.ndarray, bound: float, targets: list[str], directory: Path
) -> dict[str, Any]:
    directory.mkdir(parents=True)
    seconds = GAP * (len(targets) + 2)
    ids = pa.array(range(int(seconds * shaped.RATE)), pa.int64())
    times = pa.array([round(n / shaped.RATE * 1e6) for n in range(len(ids))], pa.timestamp("us", "UTC"))
    inputs = {}
    for source in graph.sources:
        inputs[source.name] = directory / f"{source.name}.parquet"
        pq.write_table(pa.table({"id": ids, "_ts": times}, schema=SCHEMA), inputs[source.name])
    operators = {
        name: Annotations(checkpoint_every=Duration(EVERY), backup=bool(backups[task]))
        for task, name in enumerate(topology.tasks)
    }
    (directory / "plan.toml").write_text(write_plan(Plan(graph.name, operators, Duration(int(bound * 1e6)))))
    faults = [
        f'[[faults]]\nat = "{GAP * (1 + n)}s"\nkind = "kill"\ntargets = ["{name}"]\n' for n, name in enumerate(targets)
    ]
    (directory / "faults.toml").write_text("".join(faults))
    proof = prove(
        graph, inputs, out=directory / "proof", plan=directory / "plan.toml", seconds=seconds, rate=shaped.RATE,
        faults=directory / "faults.toml",
    )  # fmt: skip
    predicted = dict(zip(topology.tasks, latencies(topology, backups).tolist(), strict=True))
    kills = [
        {"target": r.fault.targets[0], "latency": r.latency, "restart": r.restart, "caught_up": r.caught_up,
         "predicted": predicted[r.fault.targets[0]]}
        for r in proof.faults if r.latency is not None
    ]  # fmt: skip
    return {
        "backups": [name for task, name in enumerate(topology.tasks) if backups[task]],
        "bound": bound,
        "kills": kills,
        "worst": max(kill["latency"] for kill in kills),
        "exactly_once": all(sink.exact for sink in proof.sinks.values()),
        "held": all(kill["latency"] <= bound for kill in kills) and len(kills) == len(targets),
    }


def main() -> None:
    asked = argparse.ArgumentParser()
    asked.add_argument("out", type=Path)
    asked.add_argument("--only", default="")
    asked.add_argument("--kills", type=int, default=20)
    asked.add_argument("--bounds", default="1.5,3,6", help="seconds for recomputing; the restart comes on top")
    asked.add_argument("--restart", type=float, default=1.0, help="seconds until a killed element has its state")
    given = asked.parse_args()
    found: list[dict[str, Any]] = []
    for name, (topology, build) in SHAPES.items():
        if given.only and name != given.only:
            continue
        graph = build()
        for recomputing in map(float, given.bounds.split(",")):
            backups, bound = fewest(topology, recomputing), recomputing + given.restart
            order = np.argsort(-latencies(topology, backups), kind="stable")  # the slowest most often
            targets = [topology.tasks[order[n % topology.size]] for n in range(given.kills)]
            row = proven(graph, topology, backups, bound, targets, given.out / f"{name}-{recomputing:g}")
            found.append({"app": name, "elements": topology.size + 1, "fewer": False, **row})
            _tell(found[-1])
            if backups.any():
                left, slow = one_fewer(topology, backups)
                where = given.out / f"{name}-{recomputing:g}-fewer"
                row = proven(graph, topology, left, bound, [slow] * (given.kills // 2), where)
                found.append({"app": name, "elements": topology.size + 1, "fewer": True, **row})
                _tell(found[-1])
            (given.out / "results.json").write_text(json.dumps(found, indent=2) + "\n")
    (given.out / "recoveries.html").write_text(_page(found))


def _tell(row: dict[str, Any]) -> None:
    kind = "one fewer" if row["fewer"] else "fewest"
    print(
        f"{row['app']:18} R {row['bound']:g} s, {kind} backups {row['backups']}: {len(row['kills'])} kills, worst "
        f"{row['worst']:.2f} s, {'held' if row['held'] else 'missed'}, "
        f"{'exactly once' if row['exactly_once'] else 'NOT exactly once'}",
        flush=True,
    )


def _page(found: list[dict[str, Any]]) -> str:
    points = [
        Point(kill["predicted"], kill["caught_up"], f"{row['app']} {kill['target']}")
        for row in found for kill in row["kills"] if kill["caught_up"] is not None
    ]  # fmt: skip
    most = max(point.x for point in points)
    drawn = chart(
        [Series("measured", points, line=False), Series("as predicted", [Point(0, 0), Point(most, most)])],
        x_label="L as executed, seconds", y_label="measured, seconds from having its state again",
    )  # fmt: skip
    rows = [
        [row["app"], f"{row['bound']:g} s", ", ".join(row["backups"]), str(len(row["kills"])), f"{row['worst']:.2f} s",
         "held" if row["held"] else "missed", "yes" if row["exactly_once"] else "no"]
        for row in found
    ]  # fmt: skip
    columns = ["app", "bound", "backups", "kills", "worst", "bound", "exactly once"]
    return p.page("Predicted and measured recoveries", [p.figure(drawn), p.table(columns, rows, long=(2,))])


if __name__ == "__main__":
    main()
