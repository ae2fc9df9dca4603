"""Yield prediction: predicts the share of good dies of a wafer when it is etched, long before it is tested.

    Deposition  → DepositionClean  → DepositionMean  ┐
    Lithography → LithographyClean → LithographyMean ┴ Patterned ┐
    Etch        → EtchClean        → EtchMean        ────────────┴ Wafers → Features

    Features ┬────────────→ YieldModel → Quality → Sink
             └→ Examples ──────┘            │
    Probe ───────┴──────────────────────────┘

Invalid readings are dropped, the rest is averaged per wafer, the tools' averages are joined and scaled to the sensors'
tolerances. YieldModel predicts at once. When the probe has tested the wafer, Examples sends the true yield to the
model, and Quality emits the prediction, the truth and the quality metric, their difference.

YieldModel is the only user-defined operator, and the only one with valuable state: all that it has learned.
"""

import numpy as np
import pyarrow as pa

from riprap.apps.fab import READINGS, SENSORS, TOOLS, Sensor, Tool
from riprap.graph.annotations import checkpoint
from riprap.graph.builder import App, Stream
from riprap.graph.graph import Graph
from riprap.graph.windows import count, time, zero
from riprap.operators.user import Rows, UserOperator

MODEL = "YieldModel"
SINK = "Sink"
FEATURES = tuple(sensor.name for sensor in SENSORS)

IN_LINE = time("1m")  # longer than a wafer travels from one tool to the next
UNTIL_TESTED = time("3m")  # longer than a wafer waits for the probe
TOLERATED = 20.0  # tolerances off its nominal value: beyond it, the sensor was not measuring


class YieldModel(UserOperator):
    """Predicts a yield from features (port 0) and learns from examples, features with the yield (port 1).

    Least squares on the terms of an example, x: a constant, the features and their squares. Its state is the moments
    Σ xxᵀ and Σ x(y − expected). Every later example reduces the weight of an example by a factor of 1 − 1/memory, so
    that the model follows a drift. `ridge` holds the prediction near `expected` until there are enough examples.
    Predictions are percentages, 0 to 100.
    """

    one_per_trigger = True

    def __init__(self, features: tuple[str, ...], expected: float, memory: float, ridge: float) -> None:
        self.features = features
        self.expected = expected  # percent
        self.memory = memory  # examples
        self.ridge = ridge
        size = 1 + 2 * len(features)
        self.moments = np.zeros((size, size))
        self.products = np.zeros(size)

    def output_schemas(self, inputs: tuple[pa.Schema, ...]) -> list[pa.Schema]:
        return [pa.schema([inputs[0].field("wafer"), pa.field("predicted", pa.float64(), nullable=False)])]

    def process(self, port: int, batch: pa.RecordBatch) -> list[Rows]:
        features = np.stack([batch.column(name).to_numpy() for name in self.features], axis=1)
        terms = np.concatenate([np.ones((batch.num_rows, 1)), features, features * features], axis=1)
        if port == 0:
            columns = [batch.column("wafer"), pa.array(self.predict(terms))]
            return [Rows(pa.record_batch(columns, names=["wafer", "predicted"]))]
        for example, actual in zip(terms, batch.column("yield").to_numpy(), strict=True):
            self.learn(example, actual)
        return []

    def predict(self, terms: np.ndarray) -> np.ndarray:
        coefficients = np.linalg.solve(self.moments + self.ridge * np.eye(len(self.products)), self.products)
        # Row by row, not a matrix product: the batch size must not change the last bit.
        return np.clip(self.expected + (terms * coefficients).sum(axis=1), 0.0, 100.0)

    def learn(self, terms: np.ndarray, actual: float) -> None:
        decay = 1.0 - 1.0 / self.memory
        self.moments = decay * self.moments + np.outer(terms, terms)
        self.products = decay * self.products + terms * (actual - self.expected)

    def save(self) -> bytes:
        return self.moments.tobytes() + self.products.tobytes()

    def load(self, saved: bytes) -> None:
        numbers = np.frombuffer(saved, np.float64)
        self.moments = numbers[: self.moments.size].reshape(self.moments.shape)
        self.products = numbers[self.moments.size :]


def build() -> Graph:
    app = App("yield-prediction")
    deposited, exposed, etched = (_averages(app, tool) for tool in TOOLS)
    tested = app.source("Probe", "lot long not null, wafer long not null, yield double not null")
    patterned = deposited.join(exposed, on="wafer", left_window=IN_LINE, right_window=zero(), name="Patterned")
    wafers = patterned.join(etched, on="wafer", left_window=IN_LINE, right_window=zero(), name="Wafers")
    features = wafers.select("wafer", *map(_scaled, SENSORS), name="Features")
    examples = features.join(
        tested,
        on="wafer",
        left_window=UNTIL_TESTED,
        right_window=zero(),
        select=["wafer", *FEATURES, "yield"],
        name="Examples",
    )
    (predictions,) = features.apply(
        YieldModel,
        examples,
        name=MODEL,
        features=FEATURES,
        expected=85.0,
        memory=1000.0,
        ridge=0.01,
        protect=checkpoint(every="1s"),
    )
    quality = predictions.join(
        tested,
        on="wafer",
        left_window=UNTIL_TESTED,
        right_window=zero(),
        select=["lot", "wafer", "predicted", "yield", "predicted - yield AS qm"],
        name="Quality",
    )
    quality.sink(SINK)
    return app.build()


def _averages(app: App, tool: Tool) -> Stream:
    """The mean readings of a tool for each wafer, emitted with its last reading."""
    names = [sensor.name for sensor in tool.sensors]
    schema = "wafer long not null, " + ", ".join(f"{name} double not null" for name in names)
    readings = app.source(tool.name, schema)
    clean = readings.select("wafer", *map(_plausible, tool.sensors), name=f"{tool.name}Clean")
    averages = [f"avg({name}) AS {name}" for name in names]
    return clean.aggregate(*averages, window=count(READINGS), by="wafer", name=f"{tool.name}Mean")


def _plausible(sensor: Sensor) -> str:
    """Null, which averages ignore, if the sensor was not measuring."""
    low, high = (sensor.nominal + side * TOLERATED * sensor.tolerance for side in (-1, 1))
    return f"CASE WHEN {sensor.name} BETWEEN {low} AND {high} THEN {sensor.name} END AS {sensor.name}"


def _scaled(sensor: Sensor) -> str:
    """In tolerances off the nominal value; 0 if all readings of the wafer were invalid."""
    return f"coalesce(({sensor.name} - {sensor.nominal}) / {sensor.tolerance}, 0.0) AS {sensor.name}"
