"""Small recordings for the jobs: NULL, ties, duplicates, rows out of order."""

import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq

START = datetime(2024, 3, 9, 23, 59, 17, tzinfo=UTC)
TS = pa.timestamp("us", "UTC")


def _times(random: Random, size: int, step: float = 4.0) -> list[datetime]:
    """Mostly ascending, with ties, some a few seconds late; on whole seconds, so that bounds are hit exactly."""
    now, out = START, []
    for _ in range(size):
        now += timedelta(seconds=random.choice([0, 0, 1, 2, 5, round(step)]))
        out.append(now - timedelta(seconds=random.choice([0] * 8 + [3, 7])))
    return out


def _some(random: Random, values: list, share: float = 0.12):
    return None if random.random() < share else random.choice(values)


def tables(size: int = 240) -> dict[str, pa.Table]:
    random = Random("jobs")

    def clicks(name: str) -> pa.Table:
        rows = [
            (_some(random, ["u1", "u2", "u3", "ü4"]), _some(random, ["a", "b", "c"]), at,
             _some(random, [0.5, 1.25, 2.0, 6.5, -1.0, 0.0]))
            for at in _times(random, size)
        ]  # fmt: skip
        return _table(
            rows + rows[5:9], [("user", pa.string()), ("ad", pa.string()), ("at", TS), ("amount", pa.float64())]
        )

    def json_rows(rows: list[dict], times: list[datetime]) -> pa.Table:
        texts = [json.dumps(row).encode() for row in rows]
        texts[3], texts[4] = b"no json", None
        columns = {
            "key": pa.nulls(len(texts), pa.binary()), "value": pa.array(texts, pa.binary()),
            "timestamp": pa.array(times, TS),
        }  # fmt: skip
        return pa.table(columns)

    found = {"clicks": clicks("clicks"), "clicks_us": clicks("us")}
    plain = [row for row in found["clicks"].to_pylist() if row["at"] is not None]
    arrivals = sorted(row["at"] for row in plain)
    found["clicks-json"] = json_rows(
        [{**row, "at": row["at"].strftime("%Y-%m-%dT%H:%M:%S.000Z")} for row in plain], arrivals
    )
    orders = [
        {
            "id": number, "at": "2024-03-10T00:00:00.000Z",
            "address": _some(random, [{"city": "Köln", "zip": "1"}, {"city": None}]),
            "lines": _some(random, [[], [{"sku": "x", "n": 1}], [{"sku": None, "n": 2}, {"sku": "y", "n": 3}]]),
            "labels": _some(random, [{"kind": "new"}, {"other": "z"}, {}]),
        }
        for number in range(60)
    ]  # fmt: skip
    found["orders-json"] = json_rows(orders, _times(random, 60))
    found["impressions"] = _table(
        [(_some(random, ["a", "b", "c"]), at, _some(random, [0.1, 0.2])) for at in _times(random, size)],
        [("ad", pa.string()), ("shown", TS), ("cost", pa.float64())],
    )
    numbers = list(range(size // 2))
    found["orders"] = _table(
        [
            (n if n % 9 else n - 1, at, _some(random, [1.0, 5.0, 9.5]))
            for n, at in zip(numbers, _times(random, len(numbers), 40), strict=True)
        ],
        [("id", pa.int32()), ("ordered", TS), ("total", pa.float64())],
    )  # fmt: skip
    found["payments"] = _table(
        [
            (_some(random, [max(0, n - 1), n, n], 0.05), at, _some(random, [1.0, 5.0]))
            for n, at in zip(numbers, _times(random, len(numbers), 40), strict=True)
        ],
        [("order_id", pa.int32()), ("paid", TS), ("sum", pa.float64())],
    )  # fmt: skip
    for name, sensors in (("readings", [1, 2, 3]), ("readings_south", [2, 3, 4])):
        found[name] = _table(
            [
                (_some(random, sensors), at, _some(random, [0.5, 4.5, 8.25, float("nan"), -0.0]),
                 _some(random, [True, False]))
                for at in _times(random, size)
            ],
            [("sensor", pa.int32()), ("at", TS), ("speed", pa.float64()), ("ok", pa.bool_())],
        )  # fmt: skip
    sums = [Decimal("10.25"), Decimal("-3.10"), Decimal("9999999999.99")]
    found["bills"] = _table(
        [
            (_some(random, ["x", "y"]), at, _some(random, sums), _some(random, [Decimal("0.1900"), Decimal("0.0700")]))
            for at in _times(random, 80, 4000)
        ],
        [("customer", pa.string()), ("at", TS), ("sum", pa.decimal128(12, 2)), ("tax", pa.decimal128(5, 4))],
    )  # fmt: skip
    found["lines"] = pa.table({"value": [_line(random, at) for at in _times(random, size)]})
    return found


def _table(rows: list[tuple], columns: list[tuple[str, pa.DataType]]) -> pa.Table:
    values = list(zip(*rows, strict=True))
    return pa.table([pa.array(v, t) for v, (_, t) in zip(values, columns, strict=True)], names=[n for n, _ in columns])


def write_recordings(directory: Path) -> dict[str, Path]:
    paths = {}
    for name, table in tables().items():
        paths[name] = directory / f"{name}.parquet"
        pq.write_table(table, paths[name])
    return paths


def _line(random: Random, at: datetime) -> str:
    if random.random() < 0.1:
        return "garbage"
    path, status = random.choice(["shop", "api", ""]), random.choice([200, 500, 503, 404])
    return f'10.0.0.{random.randrange(4)} - - [{at:%Y-%m-%d %H:%M:%S}] "GET /{path}/x" {status}'
