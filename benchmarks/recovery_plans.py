"""Do plans hold? Apps in published shapes, plans for three bounds or four, twenty kills a plan; and one backup fewer.

    python -m benchmarks.recovery_plans OUT [--only signal-guru] [--kills 20] [--restart 1.5]

For each app and bound: the fewest backups that meet it, a run under that plan with kills of one element after the
other, every second one just before its next checkpoint is on disk, and what was measured. `held`: every kill recovered
within the bound. Then the same with the backup left out whose loss costs most, killing late and always the element that
it was for: some kill is to miss the bound.

The shaped apps wait instead of working (`riprap_papers/experiments/shaped.py`), Bargain Discovery among them; their
plans are by L as
executed (`planner/executed.py`). Bargain Discovery as it is works, and so fast that by L as executed it needs no backup
at all: its plans are by the published sum of T, and one backup fewer would show nothing. A bound is what recomputing
may take, and `--restart` beside it: what a process takes to be noticed, to be there again and to have its state (0.1 to
0.4 s on an idle machine, more on a busy one).

The apps run side by side, a process each, since they wait most of the time: some twenty minutes for all, on a machine
with nothing else to do. With --only, one of them. Writes OUT/APP.json after each plan and goes on behind it when it is
started again; OUT/recoveries.html and .svg have predicted against measured of all that is there.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from riprap.api.prove import prove
from riprap.apps import bargain_discovery
from riprap.apps.samples import sample_inputs
from riprap.base.quantities import Duration
from riprap.graph.annotations import Annotations
from riprap.graph.graph import Graph
from riprap.graph.plan_file import Plan, write_plan
from riprap.planner.executed import as_executed
from riprap.planner.failure_effect import effect
from riprap.planner.from_graph import topology_of
from riprap.planner.topology import Topology
from riprap.planner.topology_files import TaskProfile
from riprap.report import page as p
from riprap.report.chart import ChartPoint, Series, chart
from riprap_papers.experiments import shaped
from riprap_papers.published import topologies

EVERY, BARGAIN_EVERY, DURABLE = 2_000_000, 1_000_000, 50_000  # microseconds
SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("_ts", pa.timestamp("us", "UTC"))])
SETTLED = 1.5  # seconds from when a kill is over until the next one
BARGAIN_RATE = 5_000  # tuples/s

Latencies = Callable[[Topology, np.ndarray], np.ndarray]  # with these backups: L of every task, seconds


@dataclass(frozen=True)
class Case:
    """An app; `bounds`: seconds that recomputing may take, each a little above what some number of backups needs."""

    graph: Graph
    topology: Topology
    latencies: Latencies
    bounds: tuple[float, ...]
    rate: float
    inputs: Callable[[Graph, float, Path], Mapping[str, Path]]  # for so many seconds
    every: int = EVERY  # between checkpoints
    fewer: bool = True  # whether a run with one backup fewer shows anything


def executed(topology: Topology, backups: np.ndarray) -> np.ndarray:
    sources = set(range(topology.size)) - set(topology.forward[:, 1].tolist())
    pace = [0.0 if task in sources else shaped.PACE for task in range(topology.size)]
    return as_executed(topology, [EVERY + DURABLE] * topology.size, pace, backups) / 1e6


def summed(topology: Topology, backups: np.ndarray) -> np.ndarray:
    return np.asarray(effect(topology, backups).latency) / 1e6


def numbered(graph: Graph, seconds: float, directory: Path) -> Mapping[str, Path]:
    ids = pa.array(range(int(seconds * shaped.RATE)), pa.int64())
    times = pa.array([round(n / shaped.RATE * 1e6) for n in range(len(ids))], pa.timestamp("us", "UTC"))
    inputs = {}
    for source in graph.sources:
        inputs[source.name] = directory / f"{source.name}.parquet"
        pq.write_table(pa.table({"id": ids, "_ts": times}, schema=SCHEMA), inputs[source.name])
    return inputs


def market(graph: Graph, seconds: float, directory: Path) -> Mapping[str, Path]:
    return dict(sample_inputs(graph, round(BARGAIN_RATE * seconds), 1, directory))


def cases() -> dict[str, Case]:
    bargain = bargain_discovery.build()
    every = TaskProfile(checkpoint=Duration(BARGAIN_EVERY), durable=Duration(DURABLE))
    tasks = topology_of(bargain, {operator.name: every for operator in bargain}, estimate="worst")
    twitter, guru = topologies.twitter_sentiment(2, 2, 2), topologies.signal_guru_of_one()
    return {
        "twitter-sentiment": Case(
            shaped.twitter_sentiment(), twitter, executed, (1.0, 2.7, 3.6), shaped.RATE, numbered
        ),
        "signal-guru": Case(shaped.signal_guru(), guru, executed, (1.0, 2.1, 4.4, 8.0), shaped.RATE, numbered),
        "bargain-waiting": Case(
            shaped.bargain_discovery(), shaped.bargain_topology(), executed, (1.0, 2.0, 3.3), shaped.RATE, numbered
        ),
        "bargain-discovery": Case(
            bargain, tasks, summed, (2.2, 3.3, 5.5), BARGAIN_RATE, market, BARGAIN_EVERY, fewer=False
        ),
    }


def fewest(case: Case, bound: float) -> np.ndarray:
    """The fewest backups with which no task takes longer."""
    size = case.topology.size
    for count in range(size):
        found = []
        for chosen in combinations(range(size), count):
            found.append((case.latencies(case.topology, np.isin(np.arange(size), chosen)).max(), chosen))
        least, chosen = min(found)
        if least <= bound:
            return np.isin(np.arange(size), chosen)
    raise SystemExit(f"no plan recomputes within {bound} s")


def one_fewer(case: Case, backups: np.ndarray) -> tuple[np.ndarray, str]:
    """Without the backup whose loss costs most, and the task that it costs it."""
    worst = (-1.0, -1, "")
    for task in np.flatnonzero(backups).tolist():
        left = backups.copy()
        left[task] = False
        found = case.latencies(case.topology, left)
        worst = max(worst, (float(found.max()), task, case.topology.tasks[int(found.argmax())]))
    left = backups.copy()
    left[worst[1]] = False
    return left, worst[2]


def proven(
    case: Case, backups: np.ndarray, bound: float, restart: float, kills: list[tuple[str, str]], directory: Path
) -> dict[str, Any]:
    """`kills`: kinds and targets."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    graph, tasks = case.graph, case.topology.tasks
    predicted = dict(zip(tasks, case.latencies(case.topology, backups).tolist(), strict=True))
    # Who is killed again before it is back works out all of it anew; a late kill may wait for a whole interval.
    gap = max(bound, max(predicted.values()) + restart) + SETTLED + case.every / 1e6
    seconds = gap * len(kills) + 8.0
    inputs = case.inputs(graph, seconds, directory)
    operators = {
        name: Annotations(checkpoint_every=Duration(case.every), backup=bool(backups[task]))
        for task, name in enumerate(tasks)
    }
    (directory / "plan.toml").write_text(write_plan(Plan(graph.name, operators, Duration(int(bound * 1e6)))))
    faults = [
        f'[[faults]]\nat = "{round(1000 * (4 + gap * n))}ms"\nkind = "{kind}"\ntargets = ["{name}"]\n'
        for n, (kind, name) in enumerate(kills)
    ]
    (directory / "faults.toml").write_text("".join(faults))
    proof = prove(
        graph, inputs, out=directory / "proof", plan=directory / "plan.toml", seconds=seconds, rate=case.rate,
        faults=directory / "faults.toml",
    )  # fmt: skip
    found = [
        {"target": r.fault.targets[0], "kind": r.fault.kind, "latency": r.latency, "restart": r.restart,
         "caught_up": r.caught_up, "predicted": predicted[r.fault.targets[0]]}
        for r in proof.faults if r.latency is not None
    ]  # fmt: skip
    return {
        "backups": [name for task, name in enumerate(tasks) if backups[task]],
        "bound": bound,
        "kills": found,
        "worst": max((kill["latency"] for kill in found), default=None),
        "exactly_once": all(sink.exact for sink in proof.sinks.values()),
        "load": os.getloadavg()[1],
        "held": all(kill["latency"] <= bound for kill in found) and len(found) == len(kills),
    }


def main() -> None:
    known = cases()
    asked = argparse.ArgumentParser()
    asked.add_argument("out", type=Path)
    asked.add_argument("--only", default="", choices=["", *known])
    asked.add_argument("--kills", type=int, default=20)
    asked.add_argument("--bounds", default="", help="seconds for recomputing, without the restart; default: the app's")
    asked.add_argument("--restart", type=float, default=1.5, help="seconds until a killed element has its state")
    given = asked.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    if not given.only:
        command = [sys.executable, "-m", "benchmarks.recovery_plans", *sys.argv[1:], "--only"]
        beside = [subprocess.Popen([*command, name]) for name in known]
        codes = [one.wait() for one in beside]
        _draw(given.out, known)
        raise SystemExit(max(codes, key=abs))
    results = given.out / f"{given.only}.json"
    found: list[dict[str, Any]] = json.loads(results.read_text()) if results.exists() else []
    done = {(row["bound"], row["fewer"]) for row in found}

    def prove_one(name: str, bound: float, backups: np.ndarray, kills: list[tuple[str, str]], *, fewer: bool) -> None:
        if (bound, fewer) in done:
            return
        directory = given.out / f"{name}-{bound:g}{'-fewer' if fewer else ''}"
        row = proven(known[name], backups, bound, given.restart, kills, directory)
        found.append({"app": name, "elements": _elements(known[name]), "fewer": fewer, **row})
        results.write_text(json.dumps(found, indent=2) + "\n")
        _tell(found[-1])

    shaped.Waiting.waits = False  # here, where the oracle is: elements are processes of their own
    name, case = given.only, known[given.only]
    for recomputing in map(float, given.bounds.split(",")) if given.bounds else case.bounds:
        bound, backups = recomputing + given.restart, fewest(case, recomputing)
        order = np.argsort(-case.latencies(case.topology, backups), kind="stable")  # the slowest most often
        names = [case.topology.tasks[order[n % case.topology.size]] for n in range(given.kills)]
        kills = [("kill-late" if n % 2 else "kill", target) for n, target in enumerate(names)]
        prove_one(name, bound, backups, kills, fewer=False)
        if case.fewer and backups.any():
            left, slow = one_fewer(case, backups)
            prove_one(name, bound, left, [("kill-late", slow)] * max(given.kills * 2 // 5, 1), fewer=True)
    _draw(given.out, known)


def _draw(out: Path, known: Mapping[str, Case]) -> None:
    files = [file for name in known if (file := out / f"{name}.json").exists()]
    found = [row for file in files for row in json.loads(file.read_text())]
    (out / "recoveries.html").write_text(_page(found))
    (out / "recoveries.svg").write_text(alone(_drawn(found)))


def _elements(case: Case) -> int:
    return len(case.graph.operators)


def _tell(row: dict[str, Any]) -> None:
    kind, late = "one fewer" if row["fewer"] else "fewest", sum(k["latency"] > row["bound"] for k in row["kills"])
    print(
        f"{row['app']:18} R {row['bound']:g} s, {kind} backups {row['backups']}: {len(row['kills'])} kills, worst "
        f"{row['worst'] or 0:.2f} s, {'held' if row['held'] else f'missed by {late}'}, "
        f"{'exactly once' if row['exactly_once'] else 'NOT exactly once'}, load {row['load']:.1f}",
        flush=True,
    )


def _drawn(found: list[dict[str, Any]]) -> str:
    measured = []
    for name in dict.fromkeys(row["app"] for row in found):
        kills = [kill for row in found if row["app"] == name for kill in row["kills"] if kill["caught_up"] is not None]
        points = [ChartPoint(kill["predicted"], kill["caught_up"], f"{name} {kill['target']}") for kill in kills]
        measured.append(Series(name, points, line=False))
    most = max((point.x for one in measured for point in one.points), default=1.0)
    return chart(
        [*measured, Series("as predicted", [ChartPoint(0, 0), ChartPoint(most, most)])],
        x_label="L, predicted for the worst moment, seconds", y_label="measured, seconds from having its state again",
    )  # fmt: skip


def alone(drawn: str) -> str:
    """A drawing outside of a page, whose colours it has to bring."""
    colours = ("#bc4c00", "#0969da", "#1a7f37", "#8250df", "#59636e")
    told = "".join(f"--series-{number}:{colour};" for number, colour in enumerate(colours, 1))
    return drawn.replace("<style>", f"<style>svg{{{told}background:#fff}}", 1) + "\n"


def _page(found: list[dict[str, Any]]) -> str:
    rows = [
        [
            row["app"],
            str(row["elements"]),
            f"{row['bound']:g} s",
            ", ".join(row["backups"]) or "none",
            "one fewer" if row["fewer"] else "fewest",
            str(len(row["kills"])),
            "" if row["worst"] is None else f"{row['worst']:.2f} s",
            "held" if row["held"] else "missed",
            "yes" if row["exactly_once"] else "no",
        ]
        for row in found
    ]
    columns = ["app", "elements", "R", "backups", "plan", "kills", "worst", "R was", "exactly once"]
    note = "One point a kill; below the line it was faster than predicted. The bound is on L and the restart together."
    return p.page(
        "Predicted and measured recoveries", [p.figure(_drawn(found), note), p.table(columns, rows, long=(3,))]
    )


if __name__ == "__main__":
    main()
