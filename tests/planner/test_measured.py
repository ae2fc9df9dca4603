"""The file of measurements: it reads back as it was written, and each mistake in it is one sentence."""

import copy
import json
from pathlib import Path

import pytest

from riprap.base.errors import DataError
from riprap.planner.costs import Cost
from riprap.planner.measured import (
    Measured,
    MeasuredOperator,
    Quantiles,
    parse_measured,
    read_measured,
    write_measured,
)

OPERATOR = MeasuredOperator(
    8000.0, 0.5, 4096.0, Quantiles(0.4, 0.5, 0.9), 2e8, 1e6, Quantiles(0.01, 0.02, 0.06), Cost(0.1, 5e7, 0.0, 1e6),
    {"checkpoint": Cost(0.01, 1e6, 4096.0, 0.0)},
)  # fmt: skip
TIMES = Quantiles(0.1, 0.2, 0.4)
MEASURED = Measured("shop", 60.0, 1.0, TIMES, TIMES, TIMES, {"Attribute": OPERATOR})


def test_it_reads_back_as_written(tmp_path: Path) -> None:
    write_measured(MEASURED, tmp_path / "measured.json")
    assert read_measured(tmp_path / "measured.json") == MEASURED


@pytest.mark.parametrize(
    ("place", "value", "says"),
    [
        (("operators", "Attribute", "rate"), -1, "m: Attribute: rate must be a number from 0"),
        (("operators", "Attribute", "rate"), True, "m: Attribute: rate must be a number"),
        (("operators", "Attribute", "restore"), 0, "restore must be a number above 0"),
        (("operators", "Attribute", "restart"), [0.5, 0.4, 0.9], "restart must ascend"),
        (("operators", "Attribute", "durable"), [0.5], "durable must be three times"),
        (("operators", "Attribute", "techniques"), {"luck": {}}, "unknown key luck"),
        (("operators", "Attribute", "running"), None, "running: expected an object"),
        (("operators",), {}, "no app or no operators"),
        (("every",), 0, "every must be a number above 0"),
        (("detection",), ["a", 1, 2], "detection must be three times"),
        (("extra",), 1, "unknown key extra"),
    ],
)
def test_a_mistake_is_one_sentence(place: tuple[str, ...], value: object, says: str) -> None:
    document = copy.deepcopy(json.loads(json.dumps(MEASURED.to_json())))
    inner = document
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    with pytest.raises(DataError, match=says):
        parse_measured(document, "m")
