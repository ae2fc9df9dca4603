"""Recognizes what Spark's analyzer makes of window(…), session_window(…) and window_time(…)."""

import re
from dataclasses import dataclass

from riprap.base.quantities import Duration
from riprap.graph.windows import Session, Sliding, Time
from riprap.spark.jobs.interval_text import interval_microseconds

_TUMBLING = re.compile(
    r"named_struct\('start', (?:knownnullable\()?precisetimestampconversion\(.*?"
    r"precisetimestampconversion\(`§(?P<time>-?\d+)`\) - (?P<start>\(?-?\d+L?\)?)\) % (?P<slide>\d+)L?\).*"
    r"\+ (?P<size>\d+)L?\)\)*$",
    re.DOTALL,
)
_SESSION = re.compile(
    r"named_struct\('start', precisetimestampconversion\(precisetimestampconversion\(`§(?P<time>-?\d+)`\)\), 'end', "
    r"knownnullable\(precisetimestampconversion\(precisetimestampconversion\(CAST\(`§(?P=time)` \+ (?P<gap>.+) "
    r"AS TIMESTAMP(?:_NTZ)?\)\)\)\)\)$",
    re.DOTALL,
)
_CONSTANT = re.compile(r"CAST\('(?P<text>[^']+)' AS INTERVAL\)|INTERVAL '?(?P<literal>[^']+)'?(?P<unit> \w+)?$")
_WINDOW_TIME = re.compile(r"precisetimestampconversion\(\(precisetimestampconversion\(`§(-?\d+)`\.`?end`?\) - 1L?\)\)$")


@dataclass(frozen=True)
class WindowText:
    """A window of time over a column."""

    time: int  # id of the column
    window: Sliding | Session


def read_window(text: str) -> WindowText | None:
    """None: it is not a window, or a session whose gap is not constant."""
    if not text.startswith("named_struct('start', "):
        return None
    found = _SESSION.match(text)
    if found is not None:
        gap = _constant(found["gap"])
        return None if gap is None or gap < 1 else WindowText(int(found["time"]), Session(Duration(gap)))
    found = _TUMBLING.match(text)
    if found is None:
        return None
    size, slide = int(found["size"]), int(found["slide"])
    start = int(re.sub(r"[L()]", "", found["start"]))
    offset = Duration((size + start) % slide)
    window = Time(Duration(size), offset if size == slide else Duration(0))
    return WindowText(int(found["time"]), Sliding(window, Time(Duration(slide), offset)))


def read_window_time(text: str) -> int | None:
    """The id of the window whose time it is."""
    found = _WINDOW_TIME.match(text)
    return None if found is None else int(found[1])


def is_window(text: str) -> bool:
    return text.startswith("named_struct('start', ") and "precisetimestampconversion" in text


def _constant(text: str) -> int | None:
    found = _CONSTANT.match(text)
    if found is None:
        return None
    return interval_microseconds(found["text"] or f"{found['literal']}{(found['unit'] or '').lower()}")
