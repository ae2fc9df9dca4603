"""Figures 5.10, 5.11 and 5.15 of the published study, from generated market data run through the real operators.

5.10 and 5.11: clean tuples that the Aggregate and the join need after a crash, by the published function Z = min(αS +
βL, γS) and as counted over our stream. 5.15: tuples at the sink in each second, in the real app and in the
model; the model knows only mean selectivities, so its output is steadier.
"""

from collections.abc import Iterable, Mapping

import numpy as np
import pyarrow as pa

from riprap.engine.engine import Engine
from riprap.graph.graph import Graph
from riprap.graph.order_keys import TS
from riprap.san.streaming.calibrate import OUTAGES, RATES, samples_of
from riprap.san.streaming.failures import Faults
from riprap_papers.san.configurations import checkpointing
from riprap_papers.san.published_apps import bargain_discovery
from riprap_papers.san.table_rows import SanRow, statement

_OPERATORS = {"Aggregator": ("figure 5.10", "Aggregate", 0.2), "BargainIndex": ("figure 5.11", "Join", 0.2)}
_SECONDS = 200  # of the model's output
_SECOND = 1_000_000  # microseconds


def figure_rows(graph: Graph, inputs: Mapping[str, list[pa.RecordBatch]], seed: int = 1) -> list[SanRow]:
    """`graph` is Bargain Discovery; `inputs` its recorded stream."""
    return [*_stabilisation(graph, inputs, seed), *_steadiness(graph, inputs, seed)]


def _stabilisation(graph: Graph, inputs: Mapping[str, list[pa.RecordBatch]], seed: int) -> list[SanRow]:
    found = samples_of(graph, inputs, seed)
    rows, needed = [], {}
    for name, (figure, published, share) in _OPERATORS.items():
        port = bargain_discovery(450.0).by_name[published].inputs[0]
        own = {sample.lost: sample.needed for sample in found[name, 0].samples}
        needed[name] = own
        for rate in RATES:
            for outage in OUTAGES:
                lost = max(1, round(rate * found[name, 0].share * outage))
                if lost in own:
                    case = f"{published}, {rate:g} tuples/s, {outage:g} s"
                    theirs = float(port.stabilisation(rate * share * outage))
                    rows.append(SanRow(figure, case, "tuples to process after a crash", theirs, own[lost]))
    both = needed["Aggregator"].keys() & needed["BargainIndex"].keys()
    less = all(needed["BargainIndex"][lost] < needed["Aggregator"][lost] for lost in both)
    return [*rows, statement("figure 5.11", "the join needs fewer than the Aggregate after the same loss", less)]


def _steadiness(graph: Graph, inputs: Mapping[str, list[pa.RecordBatch]], seed: int) -> list[SanRow]:
    moments = np.concatenate([np.empty(0, np.int64), *_sink_moments(graph, inputs)])
    taken = np.concatenate([batch.column(TS).cast(pa.int64()).to_numpy() for own in inputs.values() for batch in own])
    first = int(taken.min())
    seconds = (int(taken.max()) - first) // _SECOND
    given = np.bincount((moments - first) // _SECOND, minlength=seconds + 1)[:seconds]
    offered = np.bincount((taken - first) // _SECOND, minlength=seconds + 1)[:seconds]
    busy = offered > 0
    # As tuples/s at 450 source tuples/s: the real stream's rate varies, the model's does not.
    real = given[busy] / offered[busy] * 450.0
    mean = float(given.sum() / offered.sum() * 450.0)
    model = checkpointing(450.0, Faults(), 1.0).job(seed=seed).rows(0, _SECONDS)[:, 2]
    table = "figure 5.15: output rate"
    return [
        SanRow(
            table,
            "450 tuples/s, the real operators second by second",
            "tuples/s at the sink",
            60.03,
            mean,
        ),
        SanRow(table, "the same", "standard deviation", None, float(real.std(ddof=1))),
        SanRow(table, "450 tuples/s, the model second by second", "standard deviation", None, float(model.std(ddof=1))),
        statement(table, "the real output is the less steady one", bool(real.std() > model.std())),
        statement(table, "their means are within a tenth of each other", bool(abs(mean / model.mean() - 1) < 0.1)),
    ]


def _sink_moments(graph: Graph, inputs: Mapping[str, Iterable[pa.RecordBatch]]) -> Iterable[np.ndarray]:
    for output in Engine(graph).run(inputs):
        if isinstance(output.event, pa.RecordBatch):
            yield output.event.column(TS).cast(pa.int64()).to_numpy()
