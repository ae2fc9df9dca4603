"""The cases of a comparison: a workload under a protocol, with or without a failure. Data and validation.

Scales:

    small   every workload under every protocol, one failure each, on the simulated host; a minute
    demo    the same on Spark, with real processes and a real SIGKILL; some minutes
    paper   the published grid: three protocols × 10 and 15 s × windows × with and without a failure, three times each:
            on the simulated host with rates divided by 100; on Spark at the published rates, with time compressed by
            10: an hour; it can be interrupted and resumed

Published rates are events/s of all sources together; each source gets the share of its generated input.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Any, Literal, get_args

from riprap.base.errors import UsageError, known
from riprap.base.quantities import Duration, format_duration, parse_duration
from riprap.protocols.registry import LOGS, REGISTRY, configured
from riprap_papers.workloads.workload import Windows, Workload
from riprap_papers.workloads.workload_catalogue import WORKLOADS, load_workload

Scale = Literal["small", "demo", "paper"]
HostName = Literal["simulated", "spark"]

NONE = "none"  # no protocol: `partial` without any protection
MICRO_BATCHES = "structured-streaming"  # of Spark: each micro-batch commits
PROTOCOLS = ("coordinated", "unaligned", "hybrid", "uncoordinated", "induced", "repeat")
_COMPRESSED = 10.0  # time of the published grid on Spark
_LENGTH = {"small": 12.0, "demo": 6.0, "paper": 60.0}  # seconds of input
_MOST = 50_000_000  # rows of a case, which are generated before it runs
_LONGEST = 600.0  # seconds to which a long interval may extend a run
PUBLISHED = ("coordinated", "uncoordinated", "induced")


@dataclass(frozen=True)
class ComparedCase:
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
    divided: float = 1.0  # divisor of the rate
    sinks: str | None = None  # eager or committed
    virtual: bool = False  # of uncoordinated and induced
    load: float | None = None  # share of its maximum rate, instead of the rate
    compressed: float = 1.0  # seconds of event time, and of published time, per second of the run
    costs: str = ""  # of the simulated host, as a profile has them (`costs.py`)
    rule: str | None = None  # of induced
    hurried: float = 1.0  # speed-up of event time, so that windows close before the failure

    @property
    def of(self) -> Workload:
        return load_workload(self.workload)

    @property
    def victim(self) -> str:
        return self.kill or self.of.published.killed

    @property
    def killed_at(self) -> float:
        """Seconds after the start: late enough for two rounds of checkpoints, early enough to see the recovery."""
        return max(self.seconds * 0.5, min(2.3 * self.interval / 1e6, self.seconds * 0.7))

    @property
    def with_closed_windows(self) -> "ComparedCase":
        """The case with event time sped up so that at least two windows close before the failure."""
        needed = 2.4 * self.of.speaks_after.get(self.windows, 0.0)
        return replace(self, hurried=max(1.0, float(ceil(needed / (self.killed_at * self.compressed)))))

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
        """The protocol and settings, within its group."""
        if self.protocol == MICRO_BATCHES:
            return self.protocol
        log = f", {self.log} log" if self.log == "volatile" else ""
        scope = ", forced everywhere" if self.scope == "all" else ""
        rule = ", BCS" if self.rule == "bcs" else ""
        sinks = ", committed sinks" if self.sinks == "committed" else ""
        virtual = ", virtual checkpoints" if self.virtual else ""
        skew = f", skew {self.skew:g}" if self.skew is not None else ""
        return f"{self.protocol} @ {format_duration(self.interval)}{log}{rule}{scope}{sinks}{virtual}{skew}"

    @property
    def key(self) -> str:
        """The key of the stored result: everything that it depends on."""
        return "|".join(map(str, vars(self).values()))


def cases(
    scale: Scale,
    *,
    host: HostName = "simulated",
    workloads: Sequence[str] = (),
    protocols: Sequence[str] = (),
    intervals: Sequence[str] = (),
    windows: str | None = None,
    failure: bool | None = None,
    log: str | None = None,
    scope: str | None = None,
    rule: str | None = None,
    skew: float | None = None,
    kill: str = "",
    rate: float | None = None,
    load: float | None = None,
    seconds: float | None = None,
    repetitions: int | None = None,
    shards: int | None = None,
    sinks: str | None = None,
    virtual: bool = False,
) -> list[ComparedCase]:
    """All cases of a scale, or the selected ones; raises `UsageError` for invalid ones.

    With a `skew` every case also runs without it, and operators have up to the published number of shards: skew shows
    only between shards.
    """
    if scale not in get_args(Scale):
        raise UsageError(f"--scale {scale}: expected one of {', '.join(get_args(Scale))}")
    chosen = [load_workload(name) for name in dict.fromkeys(workloads or WORKLOADS)]
    named = tuple(dict.fromkeys(protocols)) or (PUBLISHED if scale == "paper" else PROTOCOLS)
    for name in named:
        if name not in (NONE, MICRO_BATCHES) and name not in REGISTRY:
            raise UsageError(f"unknown protocol {name}; known: {known([NONE, MICRO_BATCHES, *REGISTRY], name)}")
        if name == "partial":
            raise UsageError("partial protects by a plan, without rounds or recovery lines: compare with none instead")
        if name == "recompute":
            raise UsageError("recompute is for plans with backups (riprap plan, riprap prove) and is not compared here")
    if windows is not None and windows not in get_args(Windows):
        raise UsageError(f"--windows {windows}: expected {' or '.join(get_args(Windows))}")
    if load is not None and not 0 < load <= 1:
        raise UsageError(f"--load {load:g}: expected a share of the maximum rate, as 0.8")
    if load is not None and rate is not None:
        raise UsageError("--load is a share of each protocol's maximum rate and excludes --rate: leave one out")
    if skew is not None and not 0 <= skew <= 10:
        raise UsageError(f"--skew {skew:g}: expected the exponent of Zipf's law, 0 to 10")
    if seconds is not None and not seconds > 0:
        raise UsageError(f"--for {seconds:g}s: give the length of the input, as 12s")
    if sinks == "committed" and set(named) <= {NONE, MICRO_BATCHES}:
        raise UsageError("--sinks committed is for protocols with a recovery line, and none is compared")
    if shards is None:
        shards = 8 if skew is not None else 1
    if log == "volatile" and not {"uncoordinated", "induced"} & set(named):
        raise UsageError("--log volatile is for uncoordinated and induced, and neither is compared")
    if log is not None and log not in LOGS:
        raise UsageError(f"--log {log}: expected {' or '.join(LOGS)}")
    if "induced" not in named:
        for option, value in (("--induced-scope", scope), ("--induced-rule", rule)):
            if value is not None:
                raise UsageError(f"{option} is for induced, which is not compared: add it to --protocols")
    if virtual and not {"uncoordinated", "induced"} & set(named):
        raise UsageError("--virtual is for uncoordinated and induced, and neither is compared")
    times = tuple(intervals) or (("10s", "15s") if scale == "paper" else ("1s",) if scale == "demo" else ("2s",))
    failures = (failure,) if failure is not None else (False, True) if scale == "paper" else (True,)
    compressed = _COMPRESSED if scale == "paper" and host == "spark" else 1.0
    longest = max(parse_duration(interval) for interval in times) / 1e6
    # Long enough for two checkpoints of every element before the failure, and to see the recovery.
    length = (seconds or max(_LENGTH[scale], min(4 * longest, _LONGEST))) / (1.0 if seconds else compressed)
    divided = 100.0 if scale == "paper" and host == "simulated" else 1.0
    found = []
    for workload in chosen:
        killed = _killed(workload, kill) if kill else ""
        sizes = (windows,) if windows else ("large", "small") if scale == "paper" else ("small",)
        for size in sizes[:1] if workload.published.windowless else sizes:
            micro = (MICRO_BATCHES,) if scale == "demo" and not protocols and workload.query else ()
            for name in (*named, *micro):
                if name == MICRO_BATCHES and workload.query is None:
                    if workloads:
                        raise UsageError(
                            f"{workload.name} has a cycle, which {MICRO_BATCHES} does not support: leave one of them "
                            "out"
                        )
                    continue
                if scale == "paper" and workload.cyclic and name == "coordinated" and not protocols:
                    continue  # not published: it does not support cycles
                lined = name in ("uncoordinated", "induced")
                logged, stays = log if lined else None, virtual and lined
                for interval in times:
                    forcing, ruled = (scope, rule) if name == "induced" else (None, None)
                    settings = _settings(
                        name, interval, log=logged, scope=forcing, rule=ruled, sinks=sinks, virtual=stays
                    )
                    for failed in failures:
                        case = ComparedCase(
                            workload.name,
                            name,
                            Duration(round(settings["interval"] / compressed)),
                            size,  # type: ignore[arg-type]
                            failed,
                            rate or _rate(workload, size, scale) / divided,
                            length,
                            logged,
                            forcing,
                            None,
                            shards,
                            killed,
                            divided=divided,
                            compressed=compressed,
                            sinks=sinks if name in REGISTRY else None,
                            virtual=stays,
                            load=load,
                            rule=ruled,
                        ).with_closed_windows
                        times_each = repetitions or (3 if scale == "paper" else 1)
                        for keys in (None, skew) if skew is not None else (None,):
                            found += [replace(case, skew=keys, repetition=n) for n in range(times_each)]
    if any(case.interval / 1e6 > case.seconds / 2 for case in found):
        worst = max(case.interval for case in found)
        raise UsageError(
            f"--interval {format_duration(worst)} in a run of {length:g} s: the failure would come before the second "
            f"checkpoint; give --for {2 * worst / 1e6:g}s or more"
        )
    if (most := max(case.rate * case.seconds for case in found)) > _MOST:
        raise UsageError(
            f"a case would have {most:,.0f} rows, and at most {_MOST:,} are generated: lower --rate or --for"
        )
    return found


def _settings(name: str, interval: str, **more: Any) -> dict[str, Any]:
    """The label of a protocol; without one of ours, only the interval."""
    own = {"name": name, **more} if name in REGISTRY else {"name": "coordinated"}
    return configured(interval=interval, **own)[1]


def _killed(workload: Workload, kill: str) -> str:
    """An operator by its name, or the first of a kind: a filter, join, aggregate."""
    graph = workload.graph()
    if kill in graph:
        return kill
    kinds = {"functor" if kill == "filter" else kill}
    found = next((spec.name for spec in graph if spec.kind in kinds), None)
    if found is None:
        named = known([spec.name for spec in graph], kill)
        raise UsageError(
            f"--kill {kill}: expected an operator or a kind of operator, as join; {workload.name} has {named}"
        )
    return found


def _rate(workload: Workload, size: str, scale: Scale) -> float:
    published = float(workload.published.rates[size])  # type: ignore[index]
    if scale == "paper":
        return published
    return min(published, 2_000.0) if scale == "small" else min(published, 20_000.0)


def groups(cases: Iterable[ComparedCase]) -> list[tuple[str, str]]:
    return list(dict.fromkeys(case.group for case in cases))


def micro_batch_notes(cases: Sequence[ComparedCase]) -> list[str]:
    """Notes on Structured Streaming, if it is compared."""
    batched = {case.workload: case.of.query for case in cases if case.protocol == MICRO_BATCHES}
    notes = []
    if any(query is not None and query.closes for query in batched.values()):
        notes.append(
            f"{MICRO_BATCHES}: its windows close by watermark, in the micro-batch after the one with a later row, "
            "ours by order key; rows arrive in order, so windows have the same content."
        )
    notes += [f"{MICRO_BATCHES}, {name}: {query.note}." for name, query in batched.items() if query and query.note]
    cyclic = dict.fromkeys(case.workload for case in cases if case.of.query is None)
    if batched and cyclic:
        notes.append(f"{MICRO_BATCHES} has no cycles, so {', '.join(cyclic)} cannot be written with it.")
    return notes
