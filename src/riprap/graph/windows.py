"""Windows: which tuples an operator retains, and when it emits.

count(n)       the n most recent tuples
time("5s")     tuples younger than 5 s of event time
punctuated()   everything since the last punctuation (aggregate and sort)
session_window("30s")  tuples of a group with gaps of at most 30 s of event time between them (aggregate)
zero()         nothing: tuples of this port are matched with the other port's window and not stored (join)
"""

from dataclasses import dataclass, replace

from riprap.base.errors import GraphError
from riprap.base.quantities import Duration, format_duration, parse_duration

_NOTHING = Duration(0)
UNBOUNDED = 2**62  # tuples: more than any window can have


@dataclass(frozen=True)
class Count:
    size: int  # tuples, >= 1

    def __str__(self) -> str:
        return "unbounded()" if self.size == UNBOUNDED else f"count({self.size})"


@dataclass(frozen=True)
class Time:
    size: Duration  # microseconds of event time, >= 1
    offset: Duration = _NOTHING  # boundaries are this much after multiples of the size; < size

    def __str__(self) -> str:
        return f"time({format_duration(self.size)}{f', offset {format_duration(self.offset)}' if self.offset else ''})"


@dataclass(frozen=True)
class Punctuated:
    def __str__(self) -> str:
        return "punctuated()"


@dataclass(frozen=True)
class Session:
    gap: Duration  # microseconds of event time, >= 1

    @property
    def closes(self) -> int:
        """How long after its last tuple a session emits: a tuple exactly at the gap still belongs to it."""
        return self.gap + 1

    def __str__(self) -> str:
        return f"session_window({format_duration(self.gap)})"


@dataclass(frozen=True)
class Zero:
    def __str__(self) -> str:
        return "zero()"


@dataclass(frozen=True)
class Sliding:
    """A window and when it emits, as one argument of `aggregate`: Spark's `window(ts, size, slide, start)`."""

    window: Time
    every: Time


Window = Count | Time | Punctuated | Session | Zero


def count(size: int) -> Count:
    """The most recent `size` tuples."""
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        raise GraphError(f"count({size!r}): a count window holds a whole number of tuples, 1 or more")
    return Count(size)


def time(size: str) -> Time:
    """Tuples younger than `size` of event time, as in "5s"."""
    duration = parse_duration(size)
    if duration < 1:
        raise GraphError(f"time({size!r}): a time window is longer than 0; use zero() to store nothing")
    return Time(duration)


def tumbling(size: str, *, start: str = "0s") -> Sliding:
    """Windows of `size` ("10s"), one after the other; they start at multiples of `size` since 1970, plus `start`."""
    return sliding(size, size, start=start)


def sliding(size: str, slide: str, *, start: str = "0s") -> Sliding:
    """A window of `size` that starts at every multiple of `slide` since 1970, plus `start` (which may be "-2s")."""
    long, step = time(size), time(slide)
    if step.size > long.size:
        raise GraphError(f"sliding({size!r}, {slide!r}): a step longer than the window skips tuples; make it shorter")
    earlier = start.strip().startswith("-")
    shift = parse_duration(start.strip().removeprefix("-"))
    offset = Duration((long.size - shift if earlier else long.size + shift) % step.size)
    if long.size == step.size:
        long = replace(long, offset=offset)  # so that the windows are equal, which means tumbling
    return Sliding(long, replace(step, offset=offset))


def unbounded() -> Count:
    """All tuples of a group. It emits at every tuple: the new result of the group, as in Spark's update mode."""
    return Count(UNBOUNDED)


def punctuated() -> Punctuated:
    """Everything since the last punctuation."""
    return Punctuated()


def session_window(gap: str) -> Session:
    """Tuples of a group with at most `gap` of event time between one and the next."""
    duration = parse_duration(gap)
    if duration < 1:
        raise GraphError(f"session_window({gap!r}): a session ends after a gap of 1us or more, as in '30s'")
    return Session(duration)


def zero() -> Zero:
    """Nothing: tuples are matched against the other port of a join and not stored."""
    return Zero()
