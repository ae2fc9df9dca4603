"""Which operator of a click stream matters, what its protection costs, and what a kill does with and without it.

    python examples/clicks.py [DIRECTORY]

Everything goes to the directory, or to a temporary one. It takes about a minute.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa

import riprap

ROWS = 60_000  # ten minutes of clicks, 100 a second


def clicks() -> pa.Table:
    """Clicks of 200 users on 20 campaigns; the third campaign is a robot."""
    random = np.random.default_rng(7)
    campaign = random.integers(0, 20, ROWS)
    return pa.table(
        {
            "user": random.integers(0, 200, ROWS),
            "campaign": pa.array(np.char.add("c", campaign.astype(str))),
            "seconds": np.where(campaign == 3, 0.01, random.exponential(20.0, ROWS)),
            "_ts": pa.array(np.arange(ROWS) * 10_000, pa.timestamp("us", "UTC")),
            "_seq": np.arange(ROWS),
        }
    )


def app() -> riprap.App:
    """Per campaign and minute: how many clicks were real."""
    shop = riprap.App("clicks")
    raw = shop.source("Clicks", "user long, campaign string, seconds double")
    real = raw.filter("seconds > 0.5", name="Real")
    counted = real.aggregate(
        "count(*) AS clicks", "avg(seconds) AS stayed",
        window=riprap.time("60s"), by="campaign", name="PerMinute",
    )  # fmt: skip
    counted.filter("clicks >= 5", name="Busy").sink("Campaigns")
    return shop


def main(place: Path) -> None:
    shop, table = app(), clicks()

    found = riprap.assess(shop, table, out=place / "assessment", osf="sum(clicks)", section=6_000, reps=1, golden=4)
    print("what a loss does to the output:")
    print(found.to_pandas()[["operator", "state", "R", "I", "verdict"]].to_string(index=False))

    plan = riprap.plan(shop, recovery="5s", latency="1s")
    print(f"\nbackups that bring every operator back within 5 s: {', '.join(plan.plan.names) or 'none'}")

    for name, protection in (("without", None), ("with", plan)):
        result = riprap.run(
            shop, table, out=place / name, plan=protection, rate=10_000, fuse="none", kill="PerMinute@2s"
        )
        lost = sum(stream["lost"] for stream in result.summary["streams"].values())
        print(f"PerMinute was killed, {name} the plan: {lost:,} tuples lost, {result.sink('Campaigns').num_rows} rows")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as directory:
            main(Path(directory))
