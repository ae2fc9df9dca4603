"""The log of messages written into each checkpoint, beside a volatile and a persistent one: does it keep up?

nexmark-2 at its published rate under uncoordinated checkpoints on the simulated host with its costs, without a failure,
over intervals. Written into each checkpoint is what an element has sent and would have to send again:

    cut back   from the worst-case line on, as logs are kept here
    whole      from the beginning

and nothing is processed while it is written, as was published. Only what that costs is simulated: nobody goes back. A
checkpoint is written at 200 MB/s, as the simulated host has it, and at 10 MB/s: message by message, or to a store that
is not near. A mode *keeps up* if the input is worked off as it comes, with the bound of `riprap compare
--find-maximum`. The same on every machine; about 40 s of processor.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from benchmarks.harness import Result, at_most, reported
from riprap.protocols.events import Durable
from riprap.runtime.element.output_channels import HoldingOutput
from riprap.testing.simulated import START
from riprap.testing.simulated_incarnation import Life
from riprap.testing.timed_simulation import TimedSimulation
from riprap_papers.compare.grid import ComparedCase, cases
from riprap_papers.compare.simulated_costs import costs_of
from riprap_papers.compare.simulated_host import inputs_of, laid_out

_INTERVALS = ("1s", "10s", "30s")
_NEAR, _FAR = 0.005, 0.1  # microseconds per byte of a checkpoint: 200 and 10 MB/s
_LENGTH = 90.0  # seconds of input: three of the longest interval
_LATE = 0.9  # share of the run behind which latency is looked at

Kept = Literal["cut back", "whole"]


@dataclass(frozen=True)
class Seen:
    seconds: float  # until the input was worked off
    latency: float  # seconds: mean of the last outputs
    bytes: float  # of the last checkpoint of the element that sends most

    @property
    def kept_up(self) -> bool:
        return self.seconds <= _LENGTH * 1.05 + 1.0


class LogInCheckpoint(TimedSimulation):
    """A checkpoint has the log of its element, and keeps it from working until it is written."""

    kept: Kept = "cut back"
    largest = 0

    def took(self, life: Life, durable: Durable, size: int) -> None:
        logged = size + sum(
            _logged(output, self.kept)
            for output in life.element._outputs.channels.values()
            if isinstance(output, HoldingOutput)
        )
        self.largest = max(self.largest, int(logged * self._slower))
        self._work_for(life, self._costs.sync + logged * self._slower * self._costs.write)
        super().took(life, durable, logged)


def _logged(output: HoldingOutput, kept: Kept) -> int:
    held, number = output._held, output.sender.number
    rows = number - held.first(number)
    return held._bytes if kept == "cut back" or not rows else held._bytes * number // rows


def run() -> Iterator[Result]:
    for interval in _INTERVALS:
        volatile = _seen(_case(interval, "volatile"), TimedSimulation, _NEAR)
        persistent = _seen(_case(interval, "persistent"), TimedSimulation, _NEAR)
        for name, seen in (("volatile", volatile), ("persistent", persistent)):
            yield at_most(f"logs.{name}, {interval}", seen.latency * 1e3, 1_000, _told(seen), "ms")
        for kept in ("cut back", "whole"):
            for speed, write in (("200 MB/s", _NEAR), ("10 MB/s", _FAR)):
                seen = _seen(_case(interval, "volatile"), type("", (LogInCheckpoint,), {"kept": kept}), write)
                name = f"logs.in the checkpoint, {kept}, {speed}, {interval}"
                yield reported(name, seen.latency * 1e3, "ms", _told(seen))


def _case(interval: str, log: str) -> ComparedCase:
    [case] = cases(
        "paper", workloads=["nexmark-2"], protocols=["uncoordinated"], intervals=(interval,), log=log, failure=False,
        repetitions=1, seconds=_LENGTH,
    )  # fmt: skip
    return case


def _seen(case: ComparedCase, kind: type[TimedSimulation], write: float) -> Seen:
    layout, inputs = laid_out(case), inputs_of(case)
    rates = {name: batch.num_rows / case.seconds for name, batch in inputs.items()}
    simulation = kind(
        layout, inputs, replace(costs_of(case), write=write), slower=case.divided, seed=case.seed, crashes=[],
        rate=rates, batch_rows=4096,
    )  # fmt: skip
    simulation.run(seconds=_LENGTH * 20)
    seconds = (simulation.clock.time - START) / 1e6
    last = [o for o in simulation.outputs("Sink") if o.born and (o.at - START) / 1e6 > _LATE * seconds]
    latency = sum(o.rows * (o.at - o.born) for o in last) / max(sum(o.rows for o in last), 1) / 1e6
    return Seen(seconds, latency, getattr(simulation, "largest", 0))


def _told(seen: Seen) -> str:
    size = f", the largest checkpoint {seen.bytes / 2**20:.0f} MiB" if seen.bytes else ""
    kept = "keeps up" if seen.kept_up else "does not keep up"
    return (
        f"latency in the last tenth; {kept}: {_LENGTH:g} s of nexmark-2 at 45,000 rows/s worked off after "
        f"{seen.seconds:.0f} s{size}"
    )
