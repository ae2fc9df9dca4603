"""`profile --recovery`: the recovery times that the planner needs, measured by real kills in a running app.

from riprap.api.recovery_profile import recovery_profile
found = recovery_profile("bargain-discovery", {"Source": "market.parquet"}, kills=6)
found.restart      # seconds from a kill until the next incarnation has restored its state, the longest
found.caught_up    # seconds from then until it has caught up, the longest
found.durable      # seconds from the capture of a checkpoint until it is on disk, the longest

The longest times, since a bound must hold for every kill.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from riprap.api.prove import Tell, prove
from riprap.api.run import Inputs
from riprap.base import files
from riprap.base.errors import CheckFailed
from riprap.base.scratch import scratch
from riprap.checkpoints.manifest import decode
from riprap.graph.graph import Graph
from riprap.proof.schedule import EVERY, SETTLE


@dataclass(frozen=True)
class RecoveryProfile:
    """Seconds."""

    kills: int
    restart: float
    restart_median: float
    durable: float
    durable_median: float
    caught_up: float = 0.0
    caught_up_median: float = 0.0

    def as_toml(self) -> str:
        lines = [f"{name} = {value!r}" for name, value in vars(self).items()]
        return "\n".join(["", "[recovery]", *lines]) + "\n"


def recovery_profile(
    app: str | Graph,
    inputs: Inputs | Callable[[], Inputs],
    *,
    plan: Path | str | None = None,
    kills: int = 6,
    seed: int = 1,
    master: str | None = None,
    tell: Tell = lambda entry, fault: None,
    warn: Callable[[str], None] = lambda text: None,
) -> RecoveryProfile:
    with scratch("recovery") as directory:
        out = directory / "proof"
        proof = prove(
            app, inputs, out=out, plan=plan, seconds=seconds_for(kills), seed=seed, kinds=("kill",), master=master,
            tell=tell, warn=warn,
        )  # fmt: skip
        restarts = sorted(result.restart for result in proof.faults if result.restart is not None)
        caught = sorted(result.caught_up for result in proof.faults if result.caught_up is not None)
        written = sorted(_written(out / "run" / "checkpoints"))
    if not restarts:
        raise CheckFailed("no killed element recovered, so there is nothing to measure")
    return RecoveryProfile(
        len(restarts), restarts[-1], restarts[len(restarts) // 2],
        written[-1] if written else 0.0, written[len(written) // 2] if written else 0.0,
        caught[-1] if caught else 0.0, caught[len(caught) // 2] if caught else 0.0,
    )  # fmt: skip


def seconds_for(kills: int) -> float:
    """How long the input must last for this many drawn faults."""
    return 2 * SETTLE + (kills - 0.5) * EVERY


def _written(checkpoints: Path) -> Iterator[float]:
    """For each remaining checkpoint: seconds from its capture until its manifest was written."""
    for path in checkpoints.glob("*/*/*.manifest"):
        yield max(files.status(path).st_mtime - decode(files.read_bytes(path)).taken_at / 1e6, 0.0)
