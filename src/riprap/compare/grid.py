"""What is compared: one case is a workload under a protocol, with or without a failure. Pure data, and refusals.

Scales:

    small   every workload under every protocol, one failure each, on the simulated host; a minute
    demo    the same on Spark, with real processes and a real SIGKILL; some minutes
    paper   the published grid: three protocols × 10 and 15 s × windows × with and without a failure, three times each,
            rates divided by 100, on the simulated host

Published rates are events/s of all sources together; a source gets the share that its generated input has.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from riprap.base.errors import UsageError, known
from riprap.base.quantities import Duration, format_duration
from riprap.protocols.registry import REGISTRY, configured
from riprap.workloads.catalogue import WORKLOADS, load_workload
from riprap.workloads.workload import Windows, Workload

Scale = Literal["small", "demo", "paper"]
HostName = Literal["simulated", "spark"]

NONE = "none"  # no protocol: `partial` without any protection
PROTOCOLS = ("coordinated", "unaligned", "hybrid", "uncoordinated", "induced", "repeat")
PUBLISHED = ("coordinated", "uncoordinated", "induced")


@dataclass(frozen=True)
class Case:
    workload: str
    protocol: str
    interval: Duration
    windows: Windows
    failure: bool
    rate: float  # events/s of all sources together
    seconds: float  # of input
    log: str | None = None  # of uncoordinated and induced
    scope: str | None = None  # of induced
    skew: float | None = None
    shards: int = 1
    kill: str = ""  # the operator that is killed; "": as published
    repetition: int = 0
    divided: float = 1.0  # by how much the rate is
    sinks: str | None = None  # eager or committed

    @property
    def of(self) -> Workload:
        return load_workload(self.workload)

    @property
    def victim(self) -> str:
        return self.kill or self.of.published.killed

    @property
    def killed_at(self) -> float:
        """Seconds after the start: late enough for two rounds of checkpoints, early enough to see the end of it."""
        return max(self.seconds * 0.5, min(2.3 * self.interval / 1e6, self.seconds * 0.7))

    @property
    def seed(self) -> int:
        return 1 + self.repetition

    @property
    def group(self) -> tuple[str, str]:
        """Cases that are shown together."""
        return self.workload, "" if self.of.published.windowless else self.windows

    @property
    def title(self) -> str:
        return " ".join(filter(None, self.group))

    @property
    def label(self) -> str:
        """Of its protocol, within its group."""
        log = f", {self.log} log" if self.log == "volatile" else ""
        scope = ", forced everywhere" if self.scope == "all" else ""
        sinks = ", committed sinks" if self.sinks == "committed" else ""
        return f"{self.protocol} @ {format_duration(self.interval)}{log}{scope}{sinks}"

    @property
    def key(self) -> str:
        """By which a result is found again: everything that it depends on."""
        return "|".join(map(str, vars(self).values()))


def cases(
    scale: Scale,
    *,
    workloads: Sequence[str] = (),
    protocols: Sequence[str] = (),
    intervals: Sequence[str] = (),
    windows: str | None = None,
    failure: bool | None = None,
    log: str | None = None,
    scope: str | None = None,
    skew: float | None = None,
    kill: str = "",
    rate: float | None = None,
    seconds: float | None = None,
    repetitions: int | None = None,
    shards: int = 1,
    sinks: str | None = None,
) -> list[Case]:
    """All of a scale, or what is asked for; raises `UsageError` for what cannot be."""
    if scale not in get_args(Scale):
        raise UsageError(f"--scale {scale}: expected one of {', '.join(get_args(Scale))}")
    chosen = [load_workload(name) for name in workloads or WORKLOADS]
    named = tuple(protocols) or (PUBLISHED if scale == "paper" else PROTOCOLS)
    for name in named:
        if name != NONE and name not in REGISTRY:
            raise UsageError(f"no protocol is called {name}; there are {known([NONE, *REGISTRY], name)}")
        if name == "partial":
            raise UsageError("partial is a plan, not a protocol with rounds or lines: compare with none instead")
        if name == "recompute":
            raise UsageError(
                "recompute is for plans with few backups (riprap plan, riprap prove), and is not compared here"
            )
    if windows is not None and windows not in get_args(Windows):
        raise UsageError(f"--windows {windows}: expected {' or '.join(get_args(Windows))}")
    if log == "volatile" and not {"uncoordinated", "induced"} & set(named):
        raise UsageError("--log volatile is for uncoordinated and induced, and neither is compared")
    times = tuple(intervals) or (("10s", "15s") if scale == "paper" else ("1s",) if scale == "demo" else ("2s",))
    failures = (failure,) if failure is not None else (False, True) if scale == "paper" else (True,)
    length = seconds or {"small": 12.0, "demo": 6.0, "paper": 60.0}[scale]
    found = []
    for workload in chosen:
        if kill and kill not in workload.graph():
            raise UsageError(f"--kill {kill}: {workload.name} has {known([s.name for s in workload.graph()], kill)}")
        sizes = (windows,) if windows else ("large", "small") if scale == "paper" else ("small",)
        for size in sizes[:1] if workload.published.windowless else sizes:
            for name in named:
                if scale == "paper" and workload.cyclic and name == "coordinated" and not protocols:
                    continue  # it was not published: it could not go round cycles
                logged = log if name in ("uncoordinated", "induced") else None
                for interval in times:
                    _, settings = _configured(name, interval, logged, scope if name == "induced" else None, sinks)
                    for failed in failures:
                        case = Case(
                            workload.name,
                            name,
                            settings["interval"],
                            size,  # type: ignore[arg-type]
                            failed,
                            rate or _rate(workload, size, scale),
                            length,
                            logged,
                            scope if name == "induced" else None,
                            skew,
                            shards,
                            kill,
                            divided=100.0 if scale == "paper" else 1.0,
                            sinks=sinks if name != NONE else None,
                        )
                        found += [
                            replace(case, repetition=n) for n in range(repetitions or (3 if scale == "paper" else 1))
                        ]
    if any(case.interval / 1e6 > case.seconds / 2 for case in found):
        worst = max(case.interval for case in found)
        raise UsageError(
            f"--interval {format_duration(worst)} in a run of {length:g} s: no second checkpoint would be taken before "
            f"the failure; give --for {2 * worst / 1e6:g}s or more"
        )
    return found


def _configured(
    name: str, interval: str, log: str | None, scope: str | None, sinks: str | None
) -> tuple[object, dict[str, Any]]:
    if name == NONE:
        _, settings = configured("coordinated", interval=interval)
        return None, settings
    return configured(name, interval=interval, log=log, scope=scope, sinks=sinks)


def _rate(workload: Workload, size: str, scale: Scale) -> float:
    published = float(workload.published.rates[size])  # type: ignore[index]
    if scale == "paper":
        return published / 100
    return min(published, 2_000.0) if scale == "small" else min(published, 20_000.0)


def groups(found: Iterable[Case]) -> list[tuple[str, str]]:
    return list(dict.fromkeys(case.group for case in found))
