"""An oracle that shares no code with the runtime: operators that write down, in lists of the test, what they are given.

Every tuple has an `id` that is unique on every stream: a tap with two inputs passes on odd ones of one and even ones of
the other. So the ids that a tap got on a port are the items of that stream that its consumer received, and the ids that
a tap gave out are what its producer could have sent.
"""

from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import ClassVar

import pyarrow as pa

from riprap.graph.builder import App
from riprap.graph.graph import Graph
from riprap.graph.order_keys import START_KEY, OrderKey
from riprap.operators.user import Rows, UserDefinedOperator, UserOperator


@dataclass
class Life:
    """What one object of a tap was given, in order."""

    given: list[tuple[int, OrderKey, int]] = field(default_factory=list)  # port, key, id
    passed: list[int] = field(default_factory=list)  # ids given out
    reached: OrderKey = START_KEY
    greatest: OrderKey = START_KEY
    faults: dict[tuple[int, int], str] = field(default_factory=dict)  # by port and id: what came behind
    loaded: int = 0  # how many its state had seen when it began


class Tap(UserOperator):
    """Passes on what it gets, but for every `drop`-th id."""

    one_per_trigger = True
    stateful = True
    lives: ClassVar[dict[str, list[Life]]] = {}  # by tap

    def __init__(self, tap: str, ports: int, drop: int) -> None:
        self.ports, self.drop, self.total = ports, drop, 0
        self.life = Life()
        Tap.lives.setdefault(tap, []).append(self.life)

    def output_schemas(self, inputs):
        return [inputs[0]]

    def process(self, port, batch):
        triggers = []
        rows = zip(*(batch.column(name).to_pylist() for name in ("id", "_seq")), strict=True)
        for row, ((id_, seq), ts) in enumerate(
            zip(rows, batch.column("_ts").cast(pa.int64()).to_pylist(), strict=True)
        ):
            key = OrderKey(ts, id_ // 10**6, seq)
            if key <= self.life.reached:
                self.life.faults[port, id_] = f"id {id_} at {key} after progress {self.life.reached}"
            elif key < self.life.greatest:
                self.life.faults[port, id_] = f"id {id_} at {key} after {self.life.greatest}"
            self.life.greatest = max(self.life.greatest, key)
            self.life.given.append((port, key, id_))
            if id_ % self.ports == port and id_ % self.drop:
                triggers.append(row)
                self.life.passed.append(id_)
        self.total += batch.num_rows
        names = [name for name in batch.schema.names if not name.startswith("_")]
        return [Rows(batch.select(names).take(pa.array(triggers, pa.int64())), triggers)]

    def save(self):
        return self.total.to_bytes(8, "little")

    def load(self, saved):
        self.total = self.life.loaded = int.from_bytes(saved, "little")


class Strict(Tap):
    """A tap whose semantics break when tuples are lost: its inputs are buffered."""

    tolerates_loss = False


def watch_progress(monkeypatch) -> None:
    """Let taps know of progress, which operators of the user's own are not told."""

    def watermark(operator, key):
        life = getattr(operator.user, "life", None)
        if life is not None:
            life.reached = max(life.reached, key)
        return []

    monkeypatch.setattr(UserDefinedOperator, "watermark", watermark)


def tap_app(random: Random, *, strict: float = 0.0, sources: int = 2) -> Graph:
    """Taps in chains and diamonds; every loose end leads to a sink."""
    Tap.lives.clear()
    app = App("taps")
    streams = [app.source(f"S{j}", "k string, x long, id long") for j in range(random.randint(1, sources))]
    unused = list(streams)
    for j in range(random.randint(2, 5)):
        ports = random.choice([1, 1, 2])
        inputs = [random.choice(unused if unused and random.random() < 0.7 else streams) for _ in range(ports)]
        kind = Strict if random.random() < strict else Tap
        made = inputs[0].apply(
            kind, *inputs[1:], name=f"T{j}", tap=f"T{j}", ports=ports, drop=random.choice([3, 7, 10**9])
        )
        unused = [stream for stream in unused if stream not in inputs] + list(made)
        streams += made
    for j, stream in enumerate(unused):
        stream.sink(f"Sink{j}")
    return app.build()


def got(tap: str, port: int) -> Counter[int]:
    """How often each id came on a port, over all lives."""
    return Counter(id_ for life in Tap.lives.get(tap, ()) for at, _, id_ in life.given if at == port)


def gave(tap: str) -> set[int]:
    """The ids that a tap gave out, over all lives."""
    return {id_ for life in Tap.lives.get(tap, ()) for id_ in life.passed}


def faults(tap: str) -> list[str]:
    """What came behind others that belong after it, each item once, in however many lives it did."""
    return list({item: fault for life in Tap.lives.get(tap, ()) for item, fault in life.faults.items()}.values())


def order(tap: str) -> list[OrderKey]:
    """The keys that a tap was given, over all lives."""
    return [key for life in Tap.lives.get(tap, ()) for _, key, _ in life.given]
