"""Annotations: the protection of an operator, specified in code. A plan (`plan_file.py`) specifies it in a file."""

from dataclasses import dataclass
from typing import Literal, get_args

from riprap.base.errors import GraphError
from riprap.base.quantities import Duration, format_duration, parse_duration

# When an item of a persistent stream counts as stored; `docs/reference/run.md` lists what each survives and costs.
Stability = Literal["async", "group", "fsync"]
WHILE_DOWN = "while-down"
OFF = "off"  # as a checkpoint interval: no checkpoints

MOST_REPLICAS = 64


@dataclass(frozen=True)
class HaGroup:
    """Operators that are replicated together: if one operator fails, its whole replica fails."""

    name: str
    replicas: int  # >= 2


@dataclass(frozen=True)
class Continuous:
    """Continuous checkpoints in the operator's own output. A value of None is derived from the goal or a default."""

    recovery: Duration | None = None  # the goal: time to catch up, without detection and restart
    every: Duration | None = None  # T: the period in which each changed slow window is saved
    slow_after: Duration | None = None  # H: a window that is open for longer is slow; T and H in event time
    shot: int | None = None  # M: windows per save


@dataclass(frozen=True)
class Retain:
    """Streams that are written to disk only while their consumer is down."""

    ports: frozenset[int] | None = None  # output ports; None: all
    share: float = 1.0  # fraction of the items that is written


@dataclass(frozen=True)
class Annotations:
    """The protection of one operator. By default it has none: it restarts with empty state."""

    checkpoint_every: Duration | None = None  # interval between checkpoints of its state
    persist: frozenset[int] | None = None  # output ports whose streams are persistent; None: not stated
    backup: bool = False  # all of its output streams are persistent
    ha_group: HaGroup | None = None
    continuous: Continuous | None = None  # instead of checkpoints at intervals; its output streams are persistent
    stability: Stability | None = None  # of its persistent streams; None: the run's default
    retain: Retain | None = None  # streams that are not persistent, but retained while their consumer is down
    copies: int = 1  # parallel copies under full replication
    checkpoint_off: bool = False  # no checkpoints, even if it is exactly once: a crash replays all of its input

    def __or__(self, other: "Annotations") -> "Annotations":
        """The combination; in a conflict, `other` wins."""
        checkpointing = other if other.sets_checkpointing else self
        return Annotations(
            checkpointing.checkpoint_every,
            self.persist if other.persist is None else other.persist,
            self.backup or other.backup,
            other.ha_group or self.ha_group,
            checkpointing.continuous,
            other.stability or self.stability,
            other.retain or self.retain,
            max(self.copies, other.copies),
            checkpointing.checkpoint_off,
        )

    @property
    def sets_checkpointing(self) -> bool:
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
    """Save the operator's state at an interval, e.g. `checkpoint(every="1s")`; or never, `checkpoint("off")`.

    An exactly-once operator without this annotation is checkpointed anyway, as often as that is cheap.
    """
    if every == OFF:
        return Annotations(checkpoint_off=True)
    interval = parse_duration(every)
    if interval < 1:
        raise GraphError(f"checkpoint(every={every!r}): the interval must be longer than 0")
    return Annotations(checkpoint_every=interval)


def continuous(
    recovery: str | None = None, *, every: str | None = None, slow_after: str | None = None, shot: int | None = None
) -> Annotations:
    """Save the operator's windows one by one in its own output, e.g. `continuous(recovery="500ms")`.

    `recovery` is the time to catch up after a restart; `every`, `slow_after` and `shot` (T, H and M) are derived from
    it unless given.
    """
    durations = {"recovery": recovery, "every": every, "slow_after": slow_after}
    parsed = {name: None if text is None else parse_duration(text) for name, text in durations.items()}
    for name in ("recovery", "every"):
        if parsed[name] is not None and parsed[name] < 1:  # type: ignore[operator]
            raise GraphError(f"continuous({name}={durations[name]!r}): it must be longer than 0")
    if shot is not None and (type(shot) is not int or shot < 1):
        raise GraphError(f"continuous(shot={shot!r}): expected the number of windows per save, 1 or more")
    return Annotations(continuous=Continuous(parsed["recovery"], parsed["every"], parsed["slow_after"], shot))


def backup(*, stability: Stability | None = None) -> Annotations:
    """Make all output streams of the operator persistent, so a failed consumer can replay its input."""
    return Annotations(backup=True, stability=_stable(stability))


def persist(*ports: int, stability: Stability | None = None) -> Annotations:
    """Make the streams of these output ports persistent (port 0 if none is named)."""
    _check_ports("persist", ports)
    return Annotations(persist=frozenset(ports or (0,)), stability=_stable(stability))


def _check_ports(of: str, ports: tuple[int, ...]) -> None:
    if any(type(port) is not int or port < 0 for port in ports):
        raise GraphError(f"{of}({', '.join(map(repr, ports))}): ports are whole numbers from 0")


def retain(how: str, *ports: int, sample: float = 1.0) -> Annotations:
    """Write the streams of these output ports (all if none is named) to disk while their consumer is down.

    The only mode is `retain("while-down")`. `sample`: the fraction of items that is written.
    """
    if how != WHILE_DOWN:
        raise GraphError(f'retain({how!r}): expected retain("{WHILE_DOWN}")')
    _check_ports("retain", ports)
    if not isinstance(sample, int | float) or isinstance(sample, bool) or not 0 < sample <= 1:
        raise GraphError(f"retain(sample={sample!r}): expected a share, more than 0 and at most 1")
    return Annotations(retain=Retain(frozenset(ports) if ports else None, float(sample)))


def _stable(stability: Stability | None) -> Stability | None:
    if stability is not None and stability not in get_args(Stability):
        raise GraphError(f"stability={stability!r}: expected one of {', '.join(get_args(Stability))}")
    return stability


def ha_group(name: str, replicas: int = 2) -> Annotations:
    """Run the operator in `replicas` replicas, together with the other operators of the group."""
    if replicas < 2:
        raise GraphError(f"HA group {name}: {replicas} replicas protect nothing; use 2 or more")
    return Annotations(ha_group=HaGroup(name, replicas))


def full_replication(copies: int = 2) -> Annotations:
    """Run `copies` copies of every operator except sources and sinks: `App("name", protect=full_replication(2))`."""
    if type(copies) is not int or not 2 <= copies <= MOST_REPLICAS:
        raise GraphError(f"full_replication({copies!r}): expected a whole number, 2 or more, at most {MOST_REPLICAS}")
    return Annotations(copies=copies)


def combined(annotations: tuple[Annotations, ...]) -> Annotations:
    result = Annotations()
    groups = [annotation.ha_group.name for annotation in annotations if annotation.ha_group is not None]
    if len(groups) > 1:
        raise GraphError(
            f"HA groups {' and '.join(groups)} for one operator: an operator belongs to at most one group; "
            "remove the others"
        )
    for annotation in annotations:
        result = result | annotation
    return result
