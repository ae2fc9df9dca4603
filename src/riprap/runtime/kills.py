"""What to kill, and when: `Aggregator@10s,executor@20s,driver@30s`.

An operator's name means the elements that host it, `Aggregator/1` one shard. In an HA group it means those of the
replica that is active then, and `Aggregator#2` is its second replica; of copies it means the first that speaks.
`executor` is the executor of the first element, `driver` the process that coordinates the run. Times count from when
the run is running.
"""

from typing import Literal, NamedTuple

from riprap.base.errors import UsageError, known
from riprap.base.quantities import Duration, parse_duration
from riprap.runtime.layout import Layout


class Kill(NamedTuple):
    at: Duration  # after the run is running
    what: Literal["pe", "executor", "driver"]
    pes: tuple[str, ...] = ()
    active: bool = False  # of replicas, only those that are active


def parse_kills(text: str | None, layout: Layout) -> tuple[Kill, ...]:
    """In the order of their times."""
    return tuple(sorted(_kill(part, layout) for part in listed(text, "--kill")))


def listed(text: object, option: str) -> list[str]:
    """The parts of an option that are separated by commas; None: there are none."""
    if not isinstance(text, str | None):
        raise UsageError(f"{option} {text!r}: write one text with commas, as in 'Aggregator@10s,VWAP@20s'")
    return [part.strip() for part in (text or "").split(",") if part.strip()]


def parse_timed(part: str, option: str, what: str) -> tuple[str, Duration]:
    """NAME@TIME of an option; `what` it takes a name of."""
    name, found, time = part.partition("@")
    if not found or not name:
        raise UsageError(f"{option} {part!r}: write {what}@TIME, as in Aggregator@10s")
    try:
        return name, parse_duration(time)
    except UsageError as error:
        raise UsageError(f"{option} {part!r}: {error}") from error


def _kill(part: str, layout: Layout) -> Kill:
    name, at = parse_timed(part, "--kill", "WHAT")
    if name == "executor":
        return Kill(at, "executor")
    if name == "driver":
        return Kill(at, "driver")
    ids = [pe.id for pe in layout.pes]
    hosting = [name] if name in ids else []
    if not hosting and name in layout.graph:
        hosting = [pe.id for pe in layout.hosting(name)]
    if not hosting:
        choices = [*(op.name for op in layout.graph.operators), "executor", "driver"]
        raise UsageError(f"--kill {part!r}: no operator or element is called {name}; there are {known(choices, name)}")
    replicated = name not in ids and any(pe.fragment.replicas > 1 for pe in layout.hosting(name))
    return Kill(at, "pe", tuple(hosting), active=replicated)
