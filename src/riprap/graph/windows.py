"""Windows: which tuples an operator retains, and when it emits.

count(n)       the n most recent tuples
time("5s")     tuples younger than 5 s of event time
punctuated()   everything since the last punctuation (aggregate and sort)
session_window("30s")  tuples of a group with gaps of less than 30 s of event time between them (aggregate)
zero()         nothing: tuples of this port are matched with the other port's window and not stored (join)
"""

from dataclasses import dataclass

from riprap.base.errors import GraphError
from riprap.base.quantities import Duration, format_duration, parse_duration


@dataclass(frozen=True)
class Count:
    size: int  # tuples, >= 1

    def __str__(self) -> str:
        return f"count({self.size})"


@dataclass(frozen=True)
class Time:
    size: Duration  # microseconds of event time, >= 1

    def __str__(self) -> str:
        return f"time({format_duration(self.size)})"


@dataclass(frozen=True)
class Punctuated:
    def __str__(self) -> str:
        return "punctuated()"


@dataclass(frozen=True)
class Session:
    gap: Duration  # microseconds of event time, >= 1

    def __str__(self) -> str:
        return f"session_window({format_duration(self.gap)})"


@dataclass(frozen=True)
class Zero:
    def __str__(self) -> str:
        return "zero()"


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


def punctuated() -> Punctuated:
    """Everything since the last punctuation."""
    return Punctuated()


def session_window(gap: str) -> Session:
    """Tuples of a group with less than `gap` of event time between one and the next."""
    duration = parse_duration(gap)
    if duration < 1:
        raise GraphError(f"session_window({gap!r}): a session ends after a gap of 1us or more, as in '30s'")
    return Session(duration)


def zero() -> Zero:
    """Nothing: tuples are matched against the other port of a join and not stored."""
    return Zero()
