"""Generated readings of a fleet of sensors, the input of the app `sensor-fleet`.

Every sensor is at a site, measures one quantity, and is polled once in every round of `ROUND_US`, in a random order;
so a minute has about twelve readings of it, at unique times. A value oscillates with the hour around the usual value
of its kind, with noise, and rarely jumps. Sensors resolve 1/RESOLUTION of a unit, as common thermometers do, so that
sums of values are exact in any order and means do not depend on it. Some readings are not answered (`value` is null).
`status` is null unless a sensor reports one.

Equal arguments give equal data. Every quantity has its own random generator.
"""

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from riprap.base.errors import UsageError
from riprap.base.randomness import generator

SENSORS = 2_000
SITES = 12
ROUND_US = 5_000_000  # every sensor is polled once
START_US = 1_700_000_000_000_000  # 2023-11-14 22:13:20 UTC
HOUR_US = 3_600_000_000.0
RESOLUTION = 16
KINDS = ("temperature", "vibration", "pressure")
USUAL = np.array([60.0, 20.0, 100.0])  # value of each kind
SWING = 4.0  # amplitude of the hourly oscillation
NOISE = 1.5  # spread of a sensor's readings
JUMPS = 0.002  # share of the readings that are far off
JUMP = (10.0, 40.0)  # how far, upwards or downwards
UNANSWERED = 0.02  # share of the readings
STATUSES = ("ok", "low battery", "maintenance: calibration", "maintenance: replaced")
STATUS_SHARES = (0.07, 0.02, 0.005, 0.005)  # of the readings; the others have none

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
        raise UsageError(f"{sensors} sensors cannot be polled in 5 s: give 1 to {ROUND_US // 2:,}")

    def draws(name: str) -> np.random.Generator:
        return generator(seed, "sensors", name)

    rounds = -(-tuples // sensors)
    all_sensors = np.broadcast_to(np.arange(sensors, dtype=np.int32), (rounds, sensors))
    codes = draws("order").permuted(all_sensors, axis=1).ravel()[:tuples]
    apart = ROUND_US // sensors
    times = START_US + np.arange(tuples) * apart + draws("time").integers(0, apart, tuples)
    sites = draws("site").integers(0, SITES, sensors).astype(np.int32)
    kinds = draws("kind").integers(0, len(KINDS), sensors).astype(np.int32)
    statuses = draws("status").choice(
        len(STATUSES) + 1, tuples, p=[*STATUS_SHARES, 1.0 - sum(STATUS_SHARES)]
    )  # the last one means null
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
