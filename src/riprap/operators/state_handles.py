"""What user code sees of its state: the methods of PySpark's GroupState, and of its handle of a stateful processor.

PySpark itself is not needed. Names and meanings are PySpark's; what is an error there is one here.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

from riprap.operators.state_values import KeyState, as_text, read, written

VALUE = "value"  # the variable of a group state


class Moment:
    """The key and the time that a call is for."""

    def __init__(self) -> None:
        self.state = KeyState()
        self.watermark = 0  # milliseconds
        self.processing = 0


class GroupState:
    """The state argument of a function of `applyInPandasWithState`."""

    NO_TIMESTAMP = -1

    def __init__(self, moment: Moment, clock: str, timed_out: bool) -> None:
        self._moment, self._clock, self._timed_out = moment, clock, timed_out
        self._timers = moment.state.timers
        self._old = next(iter(self._timers), self.NO_TIMESTAMP)
        self._timers.clear()  # a timeout is for one call: the next call has to set another

    @property
    def exists(self) -> bool:
        return bool(self._moment.state.variables.get(VALUE))

    @property
    def get(self) -> tuple[Any, ...]:
        if not self.exists:
            raise ValueError("the state is not defined or has been removed; ask state.exists first")
        return tuple(read(self._moment.state.variables[VALUE][0][0]))

    @property
    def getOption(self) -> tuple[Any, ...] | None:
        return self.get if self.exists else None

    @property
    def hasTimedOut(self) -> bool:
        return self._timed_out

    @property
    def oldTimeoutTimestamp(self) -> int:
        return self._old

    def update(self, newValue: tuple[Any, ...]) -> None:
        if newValue is None:
            raise TypeError("state.update(None): the state of a key is a tuple; state.remove() removes it")
        self._moment.state.variables[VALUE] = [[written(tuple(newValue)), None]]

    def remove(self) -> None:
        self._moment.state.variables.pop(VALUE, None)

    def setTimeoutDuration(self, durationMs: int) -> None:
        if self._clock != "processing":
            raise RuntimeError("setTimeoutDuration needs the timeout ProcessingTimeTimeout")
        if isinstance(durationMs, str) or durationMs <= 0:
            raise ValueError(f"a timeout is a positive number of milliseconds, not {durationMs!r}")
        self._set(self._moment.processing + int(durationMs))

    def setTimeoutTimestamp(self, timestampMs: int | datetime) -> None:
        if self._clock != "event":
            raise RuntimeError("setTimeoutTimestamp needs the timeout EventTimeTimeout")
        at = int(timestampMs.timestamp() * 1000) if isinstance(timestampMs, datetime) else int(timestampMs)
        if at <= 0:
            raise ValueError(f"a timeout is a positive number of milliseconds, not {timestampMs!r}")
        if at < self._moment.watermark:
            raise ValueError(f"the timeout {at} is before the watermark, {self._moment.watermark}")
        self._set(at)

    def _set(self, at: int) -> None:
        self._timers.clear()
        self._timers.add(at)

    def getCurrentWatermarkMs(self) -> int:
        return self._moment.watermark

    def getCurrentProcessingTimeMs(self) -> int:
        return self._moment.processing

    def __str__(self) -> str:
        return f"GroupState({self.get})" if self.exists else "GroupState(<undefined>)"


class TimerValues:
    def __init__(self, moment: Moment) -> None:
        self._processing, self._watermark = moment.processing, moment.watermark

    def getCurrentProcessingTimeInMs(self) -> int:
        return self._processing

    def getCurrentWatermarkInMs(self) -> int:
        return self._watermark


class ExpiredTimerInfo:
    def __init__(self, at: int) -> None:
        self._at = at

    def getExpiryTimeInMs(self) -> int:
        return self._at


class _Variable:
    """One state variable, of the key of the present call."""

    def __init__(self, moment: Moment, name: str, ttl: int | None) -> None:
        self._moment, self._name, self._ttl = moment, name, ttl

    @property
    def _entries(self) -> list[list[Any]]:
        return self._moment.state.variables.get(self._name, [])

    @_entries.setter
    def _entries(self, entries: list[list[Any]]) -> None:
        self._moment.state.variables[self._name] = entries

    def _end(self) -> int | None:
        return None if self._ttl is None else self._moment.processing + self._ttl

    def exists(self) -> bool:
        return bool(self._entries)

    def clear(self) -> None:
        self._moment.state.variables.pop(self._name, None)


class ValueState(_Variable):
    def get(self) -> tuple[Any, ...] | None:
        return tuple(read(self._entries[0][0])) if self._entries else None

    def update(self, newValue: tuple[Any, ...]) -> None:
        self._entries = [[_row(newValue), self._end()]]


class ListState(_Variable):
    def get(self) -> Iterator[tuple[Any, ...]]:
        return iter([tuple(read(value)) for value, _ in self._entries])

    def put(self, newState: Iterable[tuple[Any, ...]]) -> None:
        self._entries = [[_row(each), self._end()] for each in newState]

    def appendValue(self, newState: tuple[Any, ...]) -> None:
        self.appendList([newState])

    def appendList(self, newState: Iterable[tuple[Any, ...]]) -> None:
        entries = self._moment.state.variables.setdefault(self._name, [])
        entries += [[_row(each), self._end()] for each in newState]


class MapState(_Variable):
    """Its keys are in the order of their text, so that content alone decides the order."""

    def getValue(self, key: tuple[Any, ...]) -> tuple[Any, ...] | None:
        wanted = _row(key)
        return next((tuple(read(value)) for own, value, _ in self._entries if own == wanted), None)

    def containsKey(self, key: tuple[Any, ...]) -> bool:
        wanted = _row(key)
        return any(own == wanted for own, _, _ in self._entries)

    def updateValue(self, key: tuple[Any, ...], value: tuple[Any, ...]) -> None:
        wanted = _row(key)
        others = [entry for entry in self._entries if entry[0] != wanted]
        entries = [*others, [wanted, _row(value), self._end()]]
        self._entries = sorted(entries, key=lambda entry: as_text(entry[0]))

    def iterator(self) -> Iterator[tuple[tuple[Any, ...], tuple[Any, ...]]]:
        return iter([(tuple(read(key)), tuple(read(value))) for key, value, _ in self._entries])

    def keys(self) -> Iterator[tuple[Any, ...]]:
        return iter([key for key, _ in self.iterator()])

    def values(self) -> Iterator[tuple[Any, ...]]:
        return iter([value for _, value in self.iterator()])

    def removeKey(self, key: tuple[Any, ...]) -> None:
        wanted = _row(key)
        self._entries = [entry for entry in self._entries if entry[0] != wanted]


def _row(value: Any) -> Any:
    if not isinstance(value, tuple | list):
        raise TypeError(f"a value of state is a tuple, as in (5,), not {type(value).__name__}")
    return written(tuple(value))


class StateHandle:
    """What `init` of a processor gets, with the methods of PySpark's StatefulProcessorHandle."""

    def __init__(self, moment: Moment, clock: str) -> None:
        self._moment, self._clock = moment, clock

    def getValueState(self, stateName: str, schema: Any, ttlDurationMs: int | None = None) -> ValueState:
        return ValueState(self._moment, stateName, self._ttl(ttlDurationMs))

    def getListState(self, stateName: str, schema: Any, ttlDurationMs: int | None = None) -> ListState:
        return ListState(self._moment, stateName, self._ttl(ttlDurationMs))

    def getMapState(
        self, stateName: str, userKeySchema: Any, valueSchema: Any, ttlDurationMs: int | None = None
    ) -> MapState:
        return MapState(self._moment, stateName, self._ttl(ttlDurationMs))

    def _ttl(self, duration: int | None) -> int | None:
        if duration is not None and self._clock != "processing":
            raise ValueError("a time to live needs the time mode processingTime")
        if duration is not None and duration <= 0:
            raise ValueError(f"a time to live is a positive number of milliseconds, not {duration}")
        return duration

    def registerTimer(self, expiryTimestampMs: int) -> None:
        self._with_timers().add(int(expiryTimestampMs))

    def deleteTimer(self, expiryTimestampMs: int) -> None:
        self._with_timers().discard(int(expiryTimestampMs))

    def listTimers(self) -> Iterator[int]:
        return iter(sorted(self._with_timers()))

    def _with_timers(self) -> set[int]:
        if self._clock == "none":
            raise RuntimeError("timers need the time mode eventTime or processingTime")
        return self._moment.state.timers

    def deleteIfExists(self, stateName: str) -> None:
        self._moment.state.variables.pop(stateName, None)
