"""The options of a proof, for `riprap.prove` and `riprap prove`."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from riprap.api.run_options import parse_shards, positive_seconds
from riprap.base.options import option
from riprap.base.quantities import Duration, parse_duration

if TYPE_CHECKING:
    from riprap.runtime.fusion import Fuse
    from riprap.runtime.host import Rates


def _kinds(text: str) -> tuple[str, ...]:
    return tuple(filter(None, (kind.strip() for kind in text.split(","))))


@dataclass(frozen=True, kw_only=True)
class ProveOptions:
    plan: str | Path | None = option(None, "A plan (TOML) that overrides the code's annotations.", metavar="PATH")
    seconds: float = option(
        60.0, "How long the input lasts.", flag="--for", metavar="TIME", shown="60s", read=positive_seconds
    )
    seed: int = option(1, "Seed of the faults and of generated data.")
    faults: str | Path | None = option(
        None, "A schedule of faults (TOML).", metavar="PATH", shown="drawn from the seed"
    )
    kinds: tuple[str, ...] = option((), "Kinds of faults to draw from.", metavar="KIND,…", shown="all", read=_kinds)
    every: float = option(5.0, "Time between drawn faults.", metavar="TIME", shown="5s", read=positive_seconds)
    recovery: Duration | None = option(
        None, "Bound that every recovery must meet.", metavar="TIME", shown="the plan's", read=parse_duration
    )
    profile: str | Path | None = option(None, "Output of `riprap profile --recovery`, for predictions.", metavar="PATH")
    assessed: str | Path | None = option(
        None, "Directory of an assessment: predict the effect of each fault and compare it with the output.",
        metavar="PATH",
    )  # fmt: skip
    osf: Any = option(
        (), "Output score function: sum(gain), module:function; SINK=… for several sinks. Repeatable.", repeated=True
    )
    oracle: Any = option(
        None, "Your own form of the app, module:function, to compare the fault-free output with.", metavar="FUNCTION"
    )
    rate: "Rates" = option(None, "Tuples per second of each generated source.", number=True, least=1.0, shown="20000")
    fuse: "Fuse" = option("none", "auto, none or all: which operators share a process.")
    parallelism: Mapping[str, int] = option(
        dict, "Number of shards of operators.", metavar="OP=N,…", shown="code", read=parse_shards
    )
    master: str | None = option(None, "Spark master.", shown="local, sized for the run")
