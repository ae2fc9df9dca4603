"""A case on the simulated host: the real elements and directors, with costs on a virtual clock."""

import pyarrow as pa

from riprap.base.errors import CheckFailed
from riprap.base.quantities import format_duration
from riprap.graph.graph import Graph
from riprap.protocols.registry import configured
from riprap.runtime.coordination.counts import stream_counts
from riprap.runtime.layout import Layout, arrange
from riprap.testing.simulated import START, Crash
from riprap.testing.timed_simulation import TimedSimulation
from riprap_papers.compare.grid import MICRO_BATCHES, NONE, ComparedCase
from riprap_papers.compare.measures import Observation, SinkOutput
from riprap_papers.compare.simulated_costs import costs_of
from riprap_papers.compare.workload_oracle import expected, judged, rows

_PATIENCE = 20  # times the input's length after which a run counts as hanging


def laid_out(case: ComparedCase) -> Layout:
    """One element per operator, or up to `case.shards` for operators that can be divided."""
    graph = case.of.graph(case.windows)
    if case.protocol in (NONE, MICRO_BATCHES):
        return arrange(graph, "none", _shards(graph, case))
    spec, settings = configured(
        case.protocol,
        interval=format_duration(case.interval),
        log=case.log,
        scope=case.scope,
        rule=case.rule,
        sinks=case.sinks,
        virtual=case.virtual,
    )
    return arrange(graph, "none", _shards(graph, case), spec, settings)


def _shards(graph: Graph, case: ComparedCase) -> dict[str, int]:
    if case.shards == 1 or case.of.cyclic:
        return {}
    return {spec.name: min(case.shards, case.of.published.shards.get(spec.name, 1)) for spec in graph}


def inputs_of(case: ComparedCase) -> dict[str, pa.RecordBatch]:
    rate = case.rate / (case.compressed * case.hurried)  # of event time
    tables = case.of.inputs(round(case.rate * case.seconds), case.seed, rate=rate, skew=case.skew)
    return {name: table.combine_chunks().to_batches()[0] for name, table in tables.items() if table.num_rows}


def observed(case: ComparedCase) -> Observation:
    layout, inputs, costs = laid_out(case), inputs_of(case), costs_of(case)
    rates = {name: batch.num_rows / case.seconds for name, batch in inputs.items()}
    victims = [pe.id for pe in layout.hosting(case.victim)][:1] if case.failure else []
    at = int(case.killed_at * 1e6)
    simulation = TimedSimulation(
        layout,
        inputs,
        costs,
        slower=case.divided,
        seed=case.seed,
        crashes=[Crash(at, pe, int(costs.restart)) for pe in victims],
        rate=rates,
        batch_rows=4096,
    )
    try:
        simulation.run(seconds=case.seconds * _PATIENCE)
    except AssertionError as error:
        raise CheckFailed(f"{case.title} under {case.label}: {error}") from error
    wanted = expected(layout.graph, inputs)
    found = {sink.name: rows(simulation.sink(sink.name)) for sink in layout.graph.sinks}
    noted = simulation.history.summary()
    back = [line["rollback"] for line in noted["lines"]]
    if case.protocol == "repeat":  # no recovery line: a failed element rolls back to its own last checkpoint
        back = [(at + START - simulation.history.newest_before(pe, at + START)) / 1e6 for pe in victims]
    outputs = sorted(o for sink in layout.graph.sinks for o in simulation.outputs(sink.name))
    return Observation(
        [SinkOutput((o.at - START) / 1e6, o.rows, (o.at - o.born) / 1e6) for o in outputs if o.born],
        sum(batch.num_rows for batch in inputs.values()),
        (simulation.clock.time - START) / 1e6,
        case.killed_at if victims else None,
        0.01,
        costs.restart / 1e6,
        costs.restore / 1e6,
        noted["checkpoints"],
        noted["forced"],
        noted["bytes"],
        noted["take_ms"],
        max(back, default=0.0),
        sum(simulation.rollbacks.values()),
        judged(wanted, found),
        sum(counts.lost for counts in stream_counts(layout, simulation.ledgers()).values()),
    )
