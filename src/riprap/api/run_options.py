"""The options of a run, for `riprap.run`, `riprap run` and `run.json`."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from riprap.base.errors import UsageError
from riprap.base.options import option
from riprap.base.quantities import parse_duration, parse_whole

if TYPE_CHECKING:
    from riprap.graph.annotations import Stability
    from riprap.runtime.fusion import Fuse
    from riprap.runtime.host import Rates


def positive_seconds(text: str) -> float:
    seconds = parse_duration(text) / 1e6
    if seconds == 0:
        raise UsageError("0s: write a time longer than 0s")
    return seconds


def parse_shards(text: str) -> dict[str, int]:
    """Parses `OP=N,…`."""
    shards = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, equals, number = part.partition("=")
        if not equals or not name:
            raise UsageError(f"`parallelism` {part}: write OPERATOR=N with N of 1 or more, as in Aggregator=2")
        if name in shards:
            raise UsageError(f"`parallelism`: {name} is given twice")
        shards[name] = parse_whole(number, f"`parallelism` {name} =", least=1, most=1024)
    return shards


@dataclass(frozen=True, kw_only=True)
class ResumeOptions:
    """What may change when a run is resumed; it keeps its other options."""

    parallelism: Mapping[str, int] = option(
        dict, "Number of shards of operators.", metavar="OP=N,…", shown="code", read=parse_shards
    )
    seconds: float | None = option(
        None,
        "End after this time, as in 60s.",
        flag="--for",
        metavar="TEXT",
        shown="end of input",
        read=positive_seconds,
    )
    kill: str | None = option(
        None, 'What to kill, and when: "Aggregator@10s,executor@20s,driver@30s".', metavar="WHAT@TIME,…"
    )
    silence: str = option("3s", "Heartbeat timeout: a silent element is replaced.")
    tls: bool = option(False, "Encrypt the traffic between elements.")
    master: str | None = option(None, "Spark master.", shown="local, sized for the run")


@dataclass(frozen=True, kw_only=True)
class RunOptions(ResumeOptions):
    plan: str | Path | None = option(None, "A plan (TOML) that overrides the code's annotations.", metavar="PATH")
    fuse: "Fuse" = option("auto", "auto, none or all: which operators share a process.")
    rate: "Rates" = option(None, "Tuples per second of each source.", shown="unlimited", number=True, least=0.001)
    corrupt: str | None = option(None, "Where and when to flip a bit, in a tuple or in the state.", metavar="OP@TIME,…")
    protocol: str = option("partial", "partial, coordinated, unaligned, hybrid, uncoordinated, …", metavar="NAME")
    interval: str | None = option(None, "Checkpoint interval of protocols but partial.", shown="10s")
    log: str | None = option(None, "persistent or volatile (uncoordinated, induced).", shown="persistent")
    scope: str | None = option(
        None, "cycles or all: where induced forces checkpoints.", flag="--induced-scope", shown="cycles"
    )
    rule: str | None = option(
        None, "hmnr or bcs: which messages force a checkpoint.", flag="--induced-rule", shown="hmnr"
    )
    sinks: str | None = option(None, "eager, or committed: rows show with the recovery line.", shown="eager")
    virtual: bool = option(False, "Elements that did not fail may keep their state (uncoordinated, induced).")
    follow: bool = option(False, "Inputs are persistent streams that are still being written.")
    idle: str | None = option(
        None, "With --follow: stop waiting for an input without rows for this long.", metavar="TIME"
    )
    stability: "Stability" = option("async", "Of persistent streams: async, group or fsync.", metavar="NAME")
    failover: str = option("smart", "smart or plain: how HA groups fail over.")
