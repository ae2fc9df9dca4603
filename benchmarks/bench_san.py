"""Models: the compiled network against SimPy, the accelerated simulator against the compiled network, the published
study.
"""

from collections.abc import Iterable, Iterator
from random import Random

import simpy

from benchmarks.harness import Result, at_least, at_most, reported, seconds, side_by_side
from riprap.san.generator import keys
from riprap.san.replicate import NetworkJob
from riprap.san.streaming.application import Application, ModelOperator
from riprap.san.streaming.failures import NO_FAULTS, Faults
from riprap_papers.san.configurations import checkpointing
from riprap_papers.san.evaluation import evaluate
from riprap_papers.san.published_apps import bargain_discovery

RATE = 450.0
SIMPY_SECONDS, NETWORK_SECONDS = 10.0, 400.0  # simulated; long enough for both to run for about a second


def run() -> Iterable[Result]:
    yield from against_simpy()
    yield from accelerated_against_network()
    yield from published_evaluation()


def against_simpy() -> Iterable[Result]:
    """The same operators, queues, buffers and chances, without faults."""
    scenario = checkpointing(RATE, NO_FAULTS, NETWORK_SECONDS)
    job = scenario.job("tokens")
    assert isinstance(job, NetworkJob)
    events: dict[str, int] = {}

    def ours() -> None:
        events["network"] = job.compiled.run_many(keys(1, 0, 1), job.span).events

    def theirs() -> None:
        events["simpy"] = simpy_model(bargain_discovery(RATE), SIMPY_SECONDS)

    taken = side_by_side({"network": ours, "simpy": theirs}, rounds=5)
    network, peer = events["network"] / taken["network"], events["simpy"] / taken["simpy"]
    yield reported(
        "san: network, events/s", network, "1/s", "activity completions of Bargain Discovery at 450 tuples/s"
    )
    yield reported(
        "san: SimPy, events/s", peer, "1/s", "events that SimPy processes, same operators, queues and chances"
    )
    how = "events/s of the compiled network over events/s of SimPy, each counting its own events"
    yield at_least("san: network over SimPy", network / peer, 50, how)
    speed = (NETWORK_SECONDS / taken["network"]) / (SIMPY_SECONDS / taken["simpy"])
    yield reported("san: network over SimPy, simulated time", speed, "×", "simulated seconds per second, side by side")


def accelerated_against_network() -> Iterable[Result]:
    """Two hours at 450 tuples/s, checkpoints, 5.56E-4 crashes/s: the published parameters with the most faults."""
    scenario = checkpointing(RATE, Faults(5.56e-4, recovery=3.5))
    tokens, fast = scenario.job("tokens"), scenario.job("accelerated")
    runs = {"tokens": lambda: tokens.rows(0, 1), "accelerated": lambda: fast.rows(0, 500)}
    taken = side_by_side(runs, rounds=3)
    ratio = taken["tokens"] / (taken["accelerated"] / 500)
    yield reported("san: network, two hours", taken["tokens"], "s", "one replication")
    yield reported(
        "san: accelerated, two hours", taken["accelerated"] / 500 * 1e3, "ms", "one replication, mean of 500"
    )
    yield at_least("san: accelerated over network", ratio, 1000, "time per replication, one thread each")


def published_evaluation() -> Iterable[Result]:
    from riprap.spark.replications import on_spark
    from riprap.spark.session import session

    taken = seconds(lambda: evaluate(on_spark(session(master="local[2]")), 1000))
    how = "tables and figures, 1,000 runs a point, as Spark tasks on 2 cores, Spark's start included"
    yield at_most("san: published evaluation", taken, 60, how, "s")


def simpy_model(application: Application, horizon: float) -> int:
    """A process per operator and one per output port, stores for streams and buffers. Returns events processed."""
    environment = simpy.Environment()
    random = Random(1)
    streams = {
        stream: simpy.Store(environment, application.by_name[stream.target].queue) for stream in application.streams
    }

    def arrivals(operator: ModelOperator, inbox: simpy.Store) -> Iterator[simpy.Event]:
        assert operator.arrivals is not None
        while True:
            yield environment.timeout(1.0 / operator.arrivals.rate)
            yield inbox.put(0)

    def sender(buffer: simpy.Store, outgoing: list[simpy.Store]) -> Iterator[simpy.Event]:
        while True:
            item = yield buffer.get()
            for stream in outgoing:
                yield stream.put(item)

    def work(
        operator: ModelOperator, port: int, inbox: simpy.Store, server: simpy.Resource, buffers: list[simpy.Store]
    ) -> Iterator[simpy.Event]:
        emissions = operator.inputs[port].emissions
        while True:
            item = yield inbox.get()
            with server.request() as turn:
                yield turn
                yield environment.timeout(operator.inputs[port].seconds)
                draw = random.random()
                for emission in emissions:
                    draw -= emission.probability
                    if draw < 0:
                        for output, count in enumerate(emission.tuples):
                            for _ in range(count):
                                yield buffers[output].put(item)
                        break

    for operator in application.operators:
        server = simpy.Resource(environment)
        buffers = [simpy.Store(environment, operator.buffer) for _ in range(operator.outputs)]
        for output, buffer in enumerate(buffers):
            outgoing = [
                store for stream, store in streams.items() if (stream.source, stream.output) == (operator.name, output)
            ]
            environment.process(sender(buffer, outgoing))
        if operator.arrivals:
            inbox = simpy.Store(environment, operator.queue)
            environment.process(arrivals(operator, inbox))
            environment.process(work(operator, 0, inbox, server, buffers))
        for stream, store in streams.items():
            if stream.target == operator.name:
                environment.process(work(operator, stream.input, store, server, buffers))
    events = 0
    while environment.peek() < horizon:
        environment.step()
        events += 1
    return events
