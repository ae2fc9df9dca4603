"""A whole protection of a small app, in a process with a Spark session. Not a test: `test_protect.py` plays it."""

import json
from pathlib import Path

import pyarrow as pa
from drivers import main

import riprap
from riprap.api import protect as protecting
from riprap.graph.builder import App
from riprap.graph.plan_file import read_plan
from riprap.graph.windows import tumbling

ROWS, STEP = 6_000, 2_000  # microseconds between rows: 12 s


def app():
    made = App("till")
    sales = made.source("Sales", "shop long not null, sum long not null")
    sales.aggregate("sum(sum) AS sum", window=tumbling("500ms"), by="shop", name="Totals").sink("Takings")
    return made


def sales():
    numbers = list(range(ROWS))
    return pa.table({"_ts": [n * STEP for n in numbers], "shop": [n % 7 for n in numbers], "sum": numbers})


def protect(out: Path):
    return riprap.protect(
        app(), sales(), slo=riprap.Slo(recovery="100d", exactly_once=True), out=out, kills=1, speed=1.0, longest=12.0,
        measure_kills=1, measure_seconds=2.0, checks=False, rounds=1,
    )  # fmt: skip


def written(out: Path):
    return {path.relative_to(out): path.stat().st_mtime_ns for path in out.rglob("*.json") if path.parent != out} | {
        Path(name): (out / name).stat().st_mtime_ns for name in ("measured.json", "measured-kills.json", "effects.json")
    }


def from_objectives_to_the_proof(place: Path):
    out = place / "protection"
    found = protect(out)
    assert found.kept, [(line.line, line.measured, line.operator) for line in found.last.lines]
    assert {line.line.name for line in found.last.lines} == {"recovery", "exactly_once"}
    for number, tried in enumerate(found.rounds, 1):
        assert read_plan(out / f"round-{number}" / "plan.toml") == tried.plan
        killed = {one.operator for one in tried.kills if one.recovery is not None}
        assert killed == {"Sales", "Totals", "Takings"}  # the plan ran, and each of its elements came back
    assert read_plan(out / "plan.toml") == found.plan
    assert found.plan.operators["Sales"].backup
    assert found.price > 0
    assert "Takings" in (out / "report.html").read_text()

    before = written(out)
    assert any(path.name.startswith("kills-") for path in before)
    session, protecting.hosting_session = protecting.hosting_session, refused
    try:
        again = protect(out)
    finally:
        protecting.hosting_session = session
    assert written(out) == before
    assert json.dumps(again.to_json()) == json.dumps(found.to_json())


def refused(*arguments, **options):
    raise AssertionError("a finished protection needs no Spark")


if __name__ == "__main__":
    main({scene.__name__: scene for scene in (from_objectives_to_the_proof,)})
