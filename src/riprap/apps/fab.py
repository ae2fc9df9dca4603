"""Generated sensor readings of a chip fab and the measured yield of its wafers.

Every wafer passes deposition, lithography and etching; each tool reads its sensors `READINGS` times while it works on
the wafer. Wafers travel in lots. When all of a lot is etched it goes to the probe, which tests a few wafers at a time
and finds the share of good dies of each: much later than a prediction is needed.
`docs/papers/yield-prediction.md` explains the model.

Equal arguments give equal data. Every quantity has its own random generator.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from riprap.base.errors import UsageError
from riprap.base.randomness import generator

LOTS = 108  # half an hour
WAFERS_PER_LOT = 25
READINGS = 5  # of each tool per wafer
TUPLES_PER_LOT = WAFERS_PER_LOT * (3 * READINGS + 1)

START_US = 1_262_304_000_000_000  # 2010-01-01 UTC
WAFER_US = 666_667  # from one wafer to the next: a lot in 16.7 s, 108 of them in 30 minutes
READING_US = 100_000  # from one reading to the next
PROBE_DELAY_US = 30_000_000  # from the last reading of a lot to its first results
PROBE_WAFERS = 5  # tested together
PROBE_US = 3_000_000  # from their results to those of the next ones

DRIFT_LOTS = 12.0  # correlation length of a tool's set point, in lots
DRIFT = 0.9  # spread of the set points of lots, like the next two in units of the sensor's tolerance
WITHIN_LOT = 0.3  # spread of the wafers of a lot
READING_NOISE = 0.2  # spread of the readings of a wafer
DROPOUTS = 0.01  # share of the readings that are invalid
NONSENSE = -9999.0

BASE_YIELD = 90.0  # percent, everything at its nominal value
SLOPE = 4.0  # percentage points per tolerance: spread over the sensors
SLOPE_LOTS = 600.0  # correlation length of a sensor's effect on the yield, in lots
CURVATURE = (0.2, 1.2)  # percentage points lost per squared tolerance off the nominal value
YIELD_NOISE = 1.5  # percentage points


@dataclass(frozen=True)
class Sensor:
    name: str
    nominal: float
    tolerance: float


@dataclass(frozen=True)
class Tool:
    """One step of the line. `delay` in microseconds, from the wafer's start to its first reading here."""

    name: str
    sensors: tuple[Sensor, ...]
    delay: int


TOOLS = (
    Tool(
        "Deposition",
        (Sensor("temperature", 650.0, 4.0), Sensor("flow", 120.0, 3.0), Sensor("thickness", 90.0, 1.5)),
        0,
    ),
    Tool("Lithography", (Sensor("dose", 30.0, 0.6), Sensor("focus", 200.0, 25.0)), 6_000_000),
    Tool("Etch", (Sensor("pressure", 40.0, 1.5), Sensor("power", 800.0, 20.0), Sensor("bias", 150.0, 6.0)), 12_000_000),
)
SENSORS = tuple(sensor for tool in TOOLS for sensor in tool.sensors)

_KEY = [pa.field("_ts", pa.timestamp("us", "UTC"), nullable=False), pa.field("_seq", pa.int64(), nullable=False)]


def _fields(*names: str, type: pa.DataType) -> list[pa.Field]:
    return [pa.field(name, type, nullable=False) for name in names]


# By source: the three tools and the probe.
SCHEMAS: Mapping[str, pa.Schema] = {
    tool.name: pa.schema(
        [*_fields("wafer", type=pa.int64()), *_fields(*(s.name for s in tool.sensors), type=pa.float64()), *_KEY]
    )
    for tool in TOOLS
} | {
    "Probe": pa.schema([*_fields("lot", "wafer", type=pa.int64()), *_fields("yield", type=pa.float64()), *_KEY]),
}


def lots_for(tuples: int) -> int:
    """The number of whole lots that give about this many tuples, readings and tests together."""
    return max(1, round(tuples / TUPLES_PER_LOT))


def generate(lots: int, seed: int) -> dict[str, pa.Table]:
    """The tuples of `lots` lots of wafers, by source, in stream order."""
    if lots < 1:
        raise UsageError(f"a fab with {lots} lots has no output: ask for at least 1")
    wafers = lots * WAFERS_PER_LOT
    conditions = _conditions(lots, seed)
    tables = {}
    first = 0
    for tool in TOOLS:
        own = conditions[:, first : first + len(tool.sensors)]
        tables[tool.name] = _readings(tool, own, seed)
        first += len(tool.sensors)
    wafer = np.arange(wafers)
    last_reading = _started(wafer - wafer % WAFERS_PER_LOT + WAFERS_PER_LOT - 1) + TOOLS[-1].delay
    turn = wafer % WAFERS_PER_LOT // PROBE_WAFERS
    times = last_reading + (READINGS - 1) * READING_US + PROBE_DELAY_US + turn * PROBE_US
    columns = [wafer // WAFERS_PER_LOT, wafer, _yields(conditions, lots, seed), times, wafer]
    tables["Probe"] = _table("Probe", columns)
    return tables


def _started(wafer: np.ndarray) -> np.ndarray:
    """When wafers enter the line, in microseconds since 1970."""
    return START_US + wafer * WAFER_US


def _conditions(lots: int, seed: int) -> np.ndarray:
    """Conditions of each wafer: a row per wafer, a column per sensor, in tolerances off the nominal value."""
    set_points = DRIFT * _drifting(lots, DRIFT_LOTS, generator(seed, "fab", "set points"))
    own = generator(seed, "fab", "wafers").standard_normal((lots * WAFERS_PER_LOT, len(SENSORS)))
    return np.repeat(set_points, WAFERS_PER_LOT, axis=0) + WITHIN_LOT * own


def _drifting(lots: int, memory: float, draws: np.random.Generator) -> np.ndarray:
    """For each lot and sensor a number of spread 1 with a correlation length of `memory` lots."""
    correlation = np.exp(-1.0 / memory)
    steps = draws.standard_normal((lots, len(SENSORS)))
    for lot in range(1, lots):
        steps[lot] = correlation * steps[lot - 1] + np.sqrt(1.0 - correlation * correlation) * steps[lot]
    return steps


def _yields(conditions: np.ndarray, lots: int, seed: int) -> np.ndarray:
    """Percent of good dies: slopes that change slowly, and a window around the nominal values."""
    slopes = SLOPE * _drifting(lots, SLOPE_LOTS, generator(seed, "fab", "slopes"))
    curvature = generator(seed, "fab", "curvature").uniform(*CURVATURE, len(SENSORS))
    noise = generator(seed, "fab", "yield").standard_normal(len(conditions))
    effect = np.repeat(slopes, WAFERS_PER_LOT, axis=0) * conditions - curvature * conditions**2
    return np.clip(BASE_YIELD + effect.sum(axis=1) + YIELD_NOISE * noise, 0.0, 100.0)


def _readings(tool: Tool, conditions: np.ndarray, seed: int) -> pa.Table:
    """The readings of a tool's sensors, in the order of time."""
    wafer, reading = np.divmod(np.arange(len(conditions) * READINGS), READINGS)
    times = _started(wafer) + tool.delay + reading * READING_US
    columns: list[np.ndarray] = [wafer]
    for number, sensor in enumerate(tool.sensors):
        draws = generator(seed, "fab", "reading", tool.name, sensor.name)
        seen = conditions[wafer, number] + READING_NOISE * draws.standard_normal(len(wafer))
        dropped = draws.random(len(wafer)) < DROPOUTS
        columns.append(np.where(dropped, NONSENSE, sensor.nominal + sensor.tolerance * seen))
    return _table(tool.name, [*columns, times, np.arange(len(wafer))])


def _table(source: str, columns: list[np.ndarray]) -> pa.Table:
    arrays = [pa.array(column).cast(field.type) for column, field in zip(columns, SCHEMAS[source], strict=True)]
    return pa.table(arrays, schema=SCHEMAS[source])
