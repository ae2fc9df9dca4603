"""Annotations: the protection that an operator asks for. A plan (`plan.py`) says the same from outside the code."""

from dataclasses import dataclass
from typing import Literal, get_args

from riprap.base.errors import GraphError
from riprap.base.quantities import Duration, format_duration, parse_duration

# When an item of a persistent stream counts as kept; `docs/reference/run.md` says what each survives and costs.
Stability = Literal["async", "group", "fsync"]
WHILE_DOWN = "while-down"
OFF = "off"  # for the interval between checkpoints: none are taken

MOST_REPLICAS = 64


@dataclass(frozen=True)
class HaGroup:
    """Operators that are replicated together: a failure of one is a failure of its replica's whole chain."""

    name: str
    replicas: int  # >= 2


@dataclass(frozen=True)
class Continuous:
    """Continuous checkpoints in the operator's own output. What is not given follows from the goal, or a default."""

    recovery: Duration | None = None  # how soon it is to be where it was, without detection and restart
    every: Duration | None = None  # T: in which time each slow window that changed is saved
    slow_after: Duration | None = None  # H: for how long a window is open before it is slow; both in event time
    shot: int | None = None  # M: windows that are saved at once


@dataclass(frozen=True)
class Retain:
    """Streams that are written to disk only while their consumer is down."""

    ports: frozenset[int] | None = None  # output ports; None: all
    share: float = 1.0  # of what comes while it is down


@dataclass(frozen=True)
class Annotations:
    """What protects one operator. The default is nothing: it restarts from scratch."""

    checkpoint_every: Duration | None = None  # interval between checkpoints of its state
    persist: frozenset[int] | None = None  # output ports whose streams are persistent; None: not stated
    backup: bool = False  # all of its output streams are persistent
    ha_group: HaGroup | None = None
    continuous: Continuous | None = None  # instead of checkpoints at intervals; its output streams are persistent
    stability: Stability | None = None  # of its persistent streams; None: as the run says
    retain: Retain | None = None  # streams that are not persistent, and kept while their consumer is down
    copies: int = 1  # that run at once, under full replication
    checkpoint_off: bool = False  # never saved, also where it is exactly once: a crash replays all of its input

    def __or__(self, other: "Annotations") -> "Annotations":
        """Both; where both state something, `other` wins."""
        said = other if other.says_when_saved else self
        return Annotations(
            said.checkpoint_every,
            self.persist if other.persist is None else other.persist,
            self.backup or other.backup,
            other.ha_group or self.ha_group,
            said.continuous,
            other.stability or self.stability,
            other.retain or self.retain,
            max(self.copies, other.copies),
            said.checkpoint_off,
        )

    @property
    def says_when_saved(self) -> bool:
        return self.checkpoint_every is not None or self.continuous is not None or self.checkpoint_off

    def describe(self) -> list[str]:
        words = []
        if self.checkpoint_every is not None:
            words.append(f"checkpoint every {format_duration(self.checkpoint_every)}")
        if self.checkpoint_off:
            words.append("no checkpoints")
        if self.continuous is not None:
            goal = self.continuous.recovery
            words.append("continuous checkpoints" + ("" if goal is None else f" for {format_duration(goal)}"))
        if self.backup:
            words.append("backup")
        if self.persist:
            words.append("persist " + ", ".join(map(str, sorted(self.persist))))
        if self.retain is not None:
            ports = "" if self.retain.ports is None else " " + ", ".join(map(str, sorted(self.retain.ports)))
            words.append(f"retain{ports} while down" + ("" if self.retain.share == 1 else f", {self.retain.share:g}"))
        if self.ha_group is not None:
            words.append(f"HA group {self.ha_group.name} ×{self.ha_group.replicas}")
        if self.copies > 1:
            words.append(f"{self.copies} copies")
        if self.stability is not None:
            words.append(f"stability {self.stability}")
        return words


def checkpoint(every: str) -> Annotations:
    """Save the operator's state every so often, e.g. `checkpoint(every="1s")`; or never, `checkpoint("off")`.

    What is exactly once is saved anyway, as often as its checkpoints are cheap, unless it is switched off.
    """
    if every == OFF:
        return Annotations(checkpoint_off=True)
    interval = parse_duration(every)
    if interval < 1:
        raise GraphError(f"checkpoint(every={every!r}): the interval must be longer than nothing")
    return Annotations(checkpoint_every=interval)


def continuous(
    recovery: str | None = None, *, every: str | None = None, slow_after: str | None = None, shot: int | None = None
) -> Annotations:
    """Save the operator's windows one by one in its own output, e.g. `continuous(recovery="500ms")`.

    `recovery` is how soon after a restart it is to be where it was; `every`, `slow_after`, `shot` (T, H and M) follow
    from it where they are not given.
    """
    durations = {"recovery": recovery, "every": every, "slow_after": slow_after}
    parsed = {name: None if text is None else parse_duration(text) for name, text in durations.items()}
    for name in ("recovery", "every"):
        if parsed[name] is not None and parsed[name] < 1:  # type: ignore[operator]
            raise GraphError(f"continuous({name}={durations[name]!r}): it must be longer than nothing")
    if shot is not None and (type(shot) is not int or shot < 1):
        raise GraphError(f"continuous(shot={shot!r}): expected how many windows are saved at once, 1 or more")
    return Annotations(continuous=Continuous(parsed["recovery"], parsed["every"], parsed["slow_after"], shot))


def backup(*, stability: Stability | None = None) -> Annotations:
    """Keep all output streams of the operator, so that a consumer that fails gets its input again."""
    return Annotations(backup=True, stability=_stable(stability))


def persist(*ports: int, stability: Stability | None = None) -> Annotations:
    """Keep the streams of these output ports (all of port 0 when none is named)."""
    _check_ports("persist", ports)
    return Annotations(persist=frozenset(ports or (0,)), stability=_stable(stability))


def _check_ports(of: str, ports: tuple[int, ...]) -> None:
    if any(type(port) is not int or port < 0 for port in ports):
        raise GraphError(f"{of}({', '.join(map(repr, ports))}): ports are whole numbers from 0")


def retain(how: str, *ports: int, sample: float = 1.0) -> Annotations:
    """Write the streams of these output ports (of all, when none is named) to disk while their consumer is down.

    `retain("while-down")` is the one way there is. `sample`: the share of what comes meanwhile that is kept.
    """
    if how != WHILE_DOWN:
        raise GraphError(f'retain({how!r}): there is retain("{WHILE_DOWN}")')
    _check_ports("retain", ports)
    if not isinstance(sample, int | float) or isinstance(sample, bool) or not 0 < sample <= 1:
        raise GraphError(f"retain(sample={sample!r}): expected a share, more than 0 and at most 1")
    return Annotations(retain=Retain(frozenset(ports) if ports else None, float(sample)))


def _stable(stability: Stability | None) -> Stability | None:
    if stability is not None and stability not in get_args(Stability):
        raise GraphError(f"stability={stability!r}: it is one of {', '.join(get_args(Stability))}")
    return stability


def ha_group(name: str, replicas: int = 2) -> Annotations:
    """Run the operator, together with the others of the group, `replicas` times."""
    if replicas < 2:
        raise GraphError(f"HA group {name}: {replicas} replicas protect nothing; use 2 or more")
    return Annotations(ha_group=HaGroup(name, replicas))


def full_replication(copies: int = 2) -> Annotations:
    """Run every operator but sources and sinks in so many copies: `App("name", protect=full_replication(2))`."""
    if type(copies) is not int or not 2 <= copies <= MOST_REPLICAS:
        raise GraphError(f"full_replication({copies!r}): expected a whole number, 2 or more, at most {MOST_REPLICAS}")
    return Annotations(copies=copies)


def combined(annotations: tuple[Annotations, ...]) -> Annotations:
    result = Annotations()
    groups = [annotation.ha_group.name for annotation in annotations if annotation.ha_group is not None]
    if len(groups) > 1:
        raise GraphError(
            f"HA groups {' and '.join(groups)} for one operator: it is in one group, once; leave out the rest"
        )
    for annotation in annotations:
        result = result | annotation
    return result
