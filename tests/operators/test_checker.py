"""The checker passes operators that keep the contract and names the promise that a faulty one breaks."""

import json
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from riprap.base.errors import DataError, UsageError
from riprap.graph.builder import App
from riprap.graph.order_keys import OrderKey
from riprap.graph.windows import count
from riprap.operators.build import make_operator
from riprap.operators.contract import Channel, OperatorState, Punctuation, split_state
from riprap.operators.user import Rows, UserOperator
from riprap.testing.checker import ContractViolation, check_operator

SCHEMA = pa.schema([("k", pa.string()), ("x", pa.int64())])
OUTPUT = pa.schema([("k", pa.string()), ("total", pa.int64())])


class Running(UserOperator):
    """The running total of x per k, as a user would write it."""

    one_per_trigger = True

    def __init__(self, by="k"):
        self.totals: dict[str, int] = {}

    def output_schemas(self, inputs):
        return [OUTPUT]

    def process(self, port, batch):
        out = []
        for key, x in zip(batch.column("k").to_pylist(), batch.column("x").to_pylist(), strict=True):
            self.totals[key] = self.totals.get(key, 0) + x
            out.append({"k": key, "total": self.totals[key]})
        return [Rows(pa.RecordBatch.from_pylist(out, OUTPUT))]

    def save(self):
        return json.dumps(sorted(self.totals.items())).encode()

    def load(self, saved):
        self.totals = dict(json.loads(saved))

    def size(self):
        return len(self.totals)


class Twice(UserOperator):
    """Every tuple twice, on either of two ports."""

    stateful = False
    outputs = 2

    def output_schemas(self, inputs):
        return [SCHEMA, SCHEMA]

    def process(self, port, batch):
        for out in (0, 1):
            rows = np.repeat(np.flatnonzero(np.array(batch.column("x").to_pylist()) % 2 == out), 2)
            yield Rows(batch.select(["k", "x"]).take(pa.array(rows)), rows, out)


class ForgetsToSave(Running):
    def save(self):
        return b""

    def load(self, saved):
        pass


class PerBatch(Running):
    """The total of each batch: it depends on where batches end."""

    def process(self, port, batch):
        self.totals.clear()
        return super().process(port, batch)


class SavesInAnyOrder(Running):
    """Equal states give different bytes: the order in which keys came."""

    def save(self):
        return json.dumps(list(self.totals.items())[:: 1 if sum(self.totals.values()) % 2 else -1]).encode()


class Counts(Running):
    """Its state has how many calls there were."""

    calls = 0

    def process(self, port, batch):
        self.calls += 1
        return super().process(port, batch)

    def save(self):
        return json.dumps([self.calls, sorted(self.totals.items())]).encode()

    def load(self, saved):
        self.calls, items = json.loads(saved)
        self.totals = dict(items)


class Backwards(Running):
    """Gives out what came last first."""

    one_per_trigger = False

    def process(self, port, batch):
        for row in reversed(range(batch.num_rows)):
            yield Rows(batch.select(["k", "x"]).rename_columns(["k", "total"]).slice(row, 1), [row])


class Overwrites(Running):
    """Writes into its input."""

    def process(self, port, batch):
        np.frombuffer(batch.column("x").buffers()[1], np.int64)
        view = np.ctypeslib.as_array(
            np.ctypeslib.ctypes.cast(
                batch.column("x").buffers()[1].address, np.ctypeslib.ctypes.POINTER(np.ctypeslib.ctypes.c_int64)
            ),
            (batch.column("x").offset + 1,),
        )
        view[0] = 99
        return super().process(port, batch)


class Grows(Running):
    """Says another size after a restore."""

    def load(self, saved):
        super().load(saved)
        self.extra = 1

    def size(self):
        return super().size() + getattr(self, "extra", 0)


def app(operator, **options):
    built = App("test")
    streams = built.source("S", SCHEMA).apply(operator, name="U", **options)
    for j, stream in enumerate(streams):
        stream.sink(f"Sink{j}")
    return built.build()


def given(rows=30):
    ids = np.arange(rows)
    columns = [pa.array([f"k{i % 4}" for i in ids]), pa.array(ids % 5), pa.array(ids // 2), pa.array(ids)]
    columns[2] = columns[2].cast(pa.timestamp("us", "UTC"))
    return pa.RecordBatch.from_arrays(columns, names=["k", "x", "_ts", "_seq"])


@pytest.mark.parametrize("operator", [Running, Twice])
def test_passes_what_is_right(operator):
    batch = given()
    check_operator(app(operator), "U", [[batch.slice(0, 10), Punctuation(OrderKey(4, 0, 9)), batch.slice(10)]])
    check_operator(app(operator), "U", [batch.slice(0, 0)])


@pytest.mark.parametrize(
    ("operator", "promise"),
    [
        (ForgetsToSave, "a state restored by .* has the same size"),
        (PerBatch, "equal state has an equal digest|does not depend on batches"),
        (SavesInAnyOrder, "digest"),
        (Counts, "equal state has an equal digest"),
        (Backwards, "output keys ascend"),
        (Overwrites, "modified its input"),
        (Grows, "has the same size"),
    ],
)
def test_names_the_promise_that_is_broken(operator, promise):
    with pytest.raises(ContractViolation, match=promise) as raised:
        check_operator(app(operator), "U", [given()], seed=7)
    if "input" not in promise and operator is not Backwards:
        assert "operator U, seed 7, round " in str(raised.value)
        assert "cut at [0, " in str(raised.value)


def test_the_example_of_the_documentation():
    text = (Path(__file__).parents[2] / "docs" / "how-to" / "write-an-operator.md").read_text()
    example, check = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    built = App("test")
    names = {"app": built, "trades": built.source("S", "ticker string, size long")}
    exec(example, names)
    names["totals"].sink("Sink")
    names["batch"] = given().rename_columns(["ticker", "size", "_ts", "_seq"])
    exec(check, names)
    names["test_totals"]()


def test_the_same_seed_finds_the_same():
    messages = set()
    for _ in range(2):
        with pytest.raises(ContractViolation) as raised:
            check_operator(app(ForgetsToSave), "U", [given()], seed=3)
        messages.add(str(raised.value))
    assert len(messages) == 1


def test_misuse_is_told():
    class Dice(Running):
        deterministic = False

    with pytest.raises(UsageError, match="has no contract to check"):
        check_operator(app(Dice), "U", [given()])
    with pytest.raises(UsageError, match="has 1 input ports, and 2 inputs"):
        check_operator(app(Running), "U", [given(), given()])
    with pytest.raises(UsageError, match="give it an empty one"):
        check_operator(app(Running), "U", [[]])


def test_user_operators_that_misbehave_are_told():
    class WrongColumns(Running):
        def process(self, port, batch):
            return [Rows(batch.select(["x"]))]

    class TooMany(Running):
        def process(self, port, batch):
            return [Rows(pa.RecordBatch.from_pylist([{"k": "a", "total": 1}] * 40, OUTPUT))]

    class Elsewhere(Running):
        def process(self, port, batch):
            return [Rows(pa.RecordBatch.from_pylist([{"k": "a", "total": 1}], OUTPUT), [1000])]

    for operator, message in [
        (WrongColumns, r"operator U: WrongColumns returned columns \['x'\] but declared \['k', 'total'\]"),
        (TooMany, "40 rows for 30 inputs; specify with triggers="),
        (Elsewhere, "names an input row that is not in the batch"),
    ]:
        with pytest.raises(DataError, match=message):
            make_operator(app(operator), "U").process(Channel(0), given())


@pytest.mark.parametrize("saved", [None, "text", {"a": 1}, 7, bytearray(b"x")])
def test_a_save_of_another_type_than_bytes_is_told(saved):
    class Saves(Running):
        def save(self):
            return saved

    operator = make_operator(app(Saves), "U")
    kind = type(saved).__name__
    for use in (operator.snapshot, operator.digest):
        with pytest.raises(DataError, match=rf"operator U: Saves.save\(\) returned {kind}; it must return bytes"):
            use()


def test_user_state_is_not_divided():
    with pytest.raises(DataError, match="cannot be divided by key"):
        split_state(OperatorState(1, blob=b"x"), [5])


def test_a_delta_needs_what_it_goes_on_from():
    built = App("test")
    stream = built.source("S", SCHEMA).aggregate("sum(x) AS x", window=count(3), every=count(1), by="k", name="A")
    stream.sink("Sink")
    operator = make_operator(built.build(), "A")
    operator.process(Channel(0), given(10))
    first = operator.snapshot()
    operator.process(Channel(0), given(20).slice(10))
    second = operator.delta(first.version)
    assert second.since == first.version
    assert second.nbytes < operator.snapshot().nbytes * 2
    for parts in ([], [second], [first, first], [first, second, second]):
        with pytest.raises(DataError, match=r"snapshot|does not follow"):
            make_operator(built.build(), "A").restore(parts)
    assert operator.delta(12345).since is None  # nobody took that version: a snapshot
