"""Readings of a fleet of sensors, from a seed: what the app `sensor-fleet` runs on.

Every sensor is at a site, measures one kind of thing, and is asked once in a round of `ROUND_US`, in an order that is
another one in every round; so a minute has about twelve readings of it, at times that nobody else has. A value goes up
and down with the hour around what is usual for its kind, with noise, and now and then jumps. Sensors resolve
1/RESOLUTION of a unit, as common thermometers do, so that sums of values are exact in any order, and whoever adds them
up gets the same mean. Some readings are not answered (`value` is null). `status` is null but where a sensor has
something to say.

Equal arguments give equal data. Every quantity is drawn from a generator of its own.
"""

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from riprap.base.errors import UsageError
from riprap.base.randomness import generator

SENSORS = 2_000
SITES = 12
ROUND_US = 5_000_000  # in which every sensor is asked once
START_US = 1_700_000_000_000_000  # 2023-11-14 22:13:20 UTC
HOUR_US = 3_600_000_000.0
RESOLUTION = 16
KINDS = ("temperature", "vibration", "pressure")
USUAL = np.array([60.0, 20.0, 100.0])  # value of each kind
SWING = 4.0  # how far a value goes up and down with the hour
NOISE = 1.5  # spread of a sensor's readings
JUMPS = 0.002  # share of the readings that are far off
JUMP = (10.0, 40.0)  # how far, upwards or downwards
UNANSWERED = 0.02  # share of the readings
STATUSES = ("ok", "low battery", "maintenance: calibration", "maintenance: replaced")
STATUS_SHARES = (0.07, 0.02, 0.005, 0.005)  # of the readings; the others say nothing

SCHEMA = pa.schema(
    [
        pa.field("sensor", pa.dictionary(pa.int32(), pa.string()), nullable=False),
        pa.field("site", pa.dictionary(pa.int32(), pa.string()), nullable=False),
        pa.field("kind", pa.dictionary(pa.int32(), pa.string()), nullable=False),
        pa.field("value", pa.float64()),  # null: the sensor did not answer
        pa.field("status", pa.dictionary(pa.int32(), pa.string())),
        pa.field("_ts", pa.timestamp("us", "UTC"), nullable=False),  # rises from row to row
        pa.field("_seq", pa.int64(), nullable=False),  # 0, 1, 2, …
    ]
)


def generate(tuples: int, seed: int, *, sensors: int = SENSORS) -> pa.Table:
    """`tuples` rows of `SCHEMA` in stream order, in one chunk."""
    if tuples < 1:
        raise UsageError(f"a stream of {tuples} tuples cannot be generated: ask for at least 1")
    if not 1 <= sensors <= ROUND_US // 2:
        raise UsageError(f"{sensors} sensors cannot be asked in 5 s: give 1 to {ROUND_US // 2:,}")

    def draws(name: str) -> np.random.Generator:
        return generator(seed, "sensors", name)

    rounds = -(-tuples // sensors)
    everyone = np.broadcast_to(np.arange(sensors, dtype=np.int32), (rounds, sensors))
    codes = draws("order").permuted(everyone, axis=1).ravel()[:tuples]
    apart = ROUND_US // sensors
    times = START_US + np.arange(tuples) * apart + draws("time").integers(0, apart, tuples)
    sites = draws("site").integers(0, SITES, sensors).astype(np.int32)
    kinds = draws("kind").integers(0, len(KINDS), sensors).astype(np.int32)
    statuses = draws("status").choice(
        len(STATUSES) + 1, tuples, p=[*STATUS_SHARES, 1.0 - sum(STATUS_SHARES)]
    )  # the last stands for none
    return pa.table(
        [
            pa.DictionaryArray.from_arrays(codes, pa.array([f"sensor-{number:05}" for number in range(sensors)])),
            pa.DictionaryArray.from_arrays(sites[codes], pa.array([f"site-{number:02}" for number in range(SITES)])),
            pa.DictionaryArray.from_arrays(kinds[codes], pa.array(KINDS)),
            pa.array(_values(codes, kinds, times, draws), mask=draws("answer").random(tuples) < UNANSWERED),
            pa.DictionaryArray.from_arrays(
                pa.array(statuses.astype(np.int32), mask=statuses == len(STATUSES)), pa.array(STATUSES)
            ),
            pa.array(times).cast(SCHEMA.field("_ts").type),
            pa.array(np.arange(tuples)),
        ],
        schema=SCHEMA,
    )


def _values(
    codes: np.ndarray, kinds: np.ndarray, times: np.ndarray, draws: Callable[[str], np.random.Generator]
) -> np.ndarray:
    size = len(codes)
    phase = draws("phase").random(len(kinds))
    values = USUAL[kinds][codes] + SWING * np.sin(2.0 * np.pi * (times / HOUR_US + phase[codes]))
    values += NOISE * draws("noise").standard_normal(size)
    far = draws("jump").random(size) < JUMPS
    jump = draws("height").uniform(*JUMP, size) * draws("direction").choice([-1.0, 1.0], size)
    values[far] += jump[far]
    return np.rint(values * RESOLUTION) / RESOLUTION
