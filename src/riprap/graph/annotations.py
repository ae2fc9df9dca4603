"""Annotations: the protection that an operator asks for. A plan (`plan.py`) says the same from outside the code."""

from dataclasses import dataclass

from riprap.base.errors import GraphError
from riprap.base.quantities import Duration, format_duration, parse_duration


@dataclass(frozen=True)
class HaGroup:
    """Operators that are replicated together: a failure of one is a failure of its replica's whole chain."""

    name: str
    replicas: int  # >= 2


@dataclass(frozen=True)
class Annotations:
    """What protects one operator. The default is nothing: it restarts from scratch."""

    checkpoint_every: Duration | None = None  # interval between checkpoints of its state
    persist: frozenset[int] | None = None  # output ports whose streams are persistent; None: not stated
    backup: bool = False  # all of its output streams are persistent
    ha_group: HaGroup | None = None

    def __or__(self, other: "Annotations") -> "Annotations":
        """Both; where both state something, `other` wins."""
        return Annotations(
            other.checkpoint_every or self.checkpoint_every,
            self.persist if other.persist is None else other.persist,
            self.backup or other.backup,
            other.ha_group or self.ha_group,
        )

    def describe(self) -> list[str]:
        words = []
        if self.checkpoint_every is not None:
            words.append(f"checkpoint every {format_duration(self.checkpoint_every)}")
        if self.backup:
            words.append("backup")
        if self.persist:
            words.append("persist " + ", ".join(map(str, sorted(self.persist))))
        if self.ha_group is not None:
            words.append(f"HA group {self.ha_group.name} ×{self.ha_group.replicas}")
        return words


def checkpoint(every: str) -> Annotations:
    """Save the operator's state every so often, e.g. `checkpoint(every="1s")`."""
    interval = parse_duration(every)
    if interval < 1:
        raise GraphError(f"checkpoint(every={every!r}): the interval must be longer than nothing")
    return Annotations(checkpoint_every=interval)


def backup() -> Annotations:
    """Keep all output streams of the operator, so that a consumer that fails gets its input again."""
    return Annotations(backup=True)


def persist(*ports: int) -> Annotations:
    """Keep the streams of these output ports (all of port 0 when none is named)."""
    return Annotations(persist=frozenset(ports or (0,)))


def ha_group(name: str, replicas: int = 2) -> Annotations:
    """Run the operator, together with the others of the group, `replicas` times."""
    if replicas < 2:
        raise GraphError(f"HA group {name}: {replicas} replicas protect nothing; use 2 or more")
    return Annotations(ha_group=HaGroup(name, replicas))


def combined(annotations: tuple[Annotations, ...]) -> Annotations:
    result = Annotations()
    for annotation in annotations:
        result = result | annotation
    return result
