"""What every operator means, tuple by tuple, in plain Python: lists, dicts and fractions. Slow and obvious.

It shares no code with the implementation. A tuple is a `Row`: its order key (ts, src, seq, n), and its values by name.
Input is a list of (port, Row | Mark) in the order of delivery; output is a list of (port, Row | Mark).

Groups that speak together are numbered by a hash that the reference does not know: it leaves `n` None and gives them in
any order.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

TIMER = -1


@dataclass(frozen=True)
class Row:
    key: tuple
    values: dict


@dataclass(frozen=True)
class Mark:
    key: tuple


class Overflow(Exception):
    """An integer sum left 64 bits."""


# Keys ---------------------------------------------------------------------------------------------------------------


def group_key(row: Row, names: list[str]) -> tuple:
    """Equal keys are equal: null equals null, NaN equals NaN, -0.0 equals 0.0."""
    return tuple(canonical(row.values[name]) for name in names)


def canonical(value: Any) -> Any:
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return value


# Functions ----------------------------------------------------------------------------------------------------------


def evaluate(function: str, values: list) -> Any:
    """An aggregate function over the window's values, oldest first."""
    if function == "count(*)":
        return len(values)
    if function == "first":
        return values[0]
    if function == "last":
        return values[-1]
    present = [value for value in values if value is not None]
    if function == "count":
        return len(present)
    if function == "count distinct":
        return len({canonical(value) for value in present})
    if not present:
        return None
    if function == "sum":
        return total(present)
    if function.startswith("percentile"):
        return percentile(present, float(function.split()[1]))
    if function == "avg":
        summed = total(present)
        return float(summed) / len(present)
    best = present[0]
    for value in present[1:]:
        if _above(value, best) if function == "max" else _above(best, value):
            best = value
    return best


def _above(x: Any, y: Any) -> bool:
    if isinstance(x, float) and math.isnan(x):
        return not math.isnan(y)
    return x > y


def percentile(values: list, share: float) -> float:
    ordered = sorted(values, key=lambda value: (math.isnan(value), 0 if math.isnan(value) else value))
    place = share * (len(values) - 1)
    below = math.floor(place)
    low, high = float(ordered[below]), float(ordered[math.ceil(place)])
    if low == high:
        return low
    return low * (1.0 - (place - below)) + high * (place - below) if place > below else low


def total(values: list) -> Any:
    if all(isinstance(value, int) for value in values):
        result = sum(values)
        if not -(2**63) <= result < 2**63:
            raise Overflow
        return result
    if any(math.isnan(value) for value in values) or {math.inf, -math.inf} <= set(values):
        return math.nan
    if math.inf in values or -math.inf in values:
        return math.inf if math.inf in values else -math.inf
    try:
        return math.fsum(values) + 0.0
    except OverflowError:  # on the way, perhaps: fractions know
        exact = sum(map(Fraction, values))
        try:
            return float(exact)
        except OverflowError:
            return math.inf if exact > 0 else -math.inf


# Aggregate ----------------------------------------------------------------------------------------------------------


def aggregate(items, *, calls, window, every, by, partial=True, end=True):
    """`calls` are (name, function, column); `window` and `every` are ("count", n), ("time", µs) or ("punctuated",)."""
    history: dict[tuple, list[Row]] = {}  # all tuples since the group's last tumbling window
    counts: dict[tuple, int] = {}
    spoke: dict[tuple, int] = {}
    out: list[tuple[int, Row | Mark]] = []
    tumbling = window == every
    boundary = None

    def speak(group, rows, key):
        values = {name: rows[-1].values[name] for name in by}
        for name, function, column in calls:
            values[name] = evaluate(function, [row.values[column] if column else None for row in rows])
        out.append((0, Row(key, values)))

    def speak_at(b):
        said = False
        for group, rows in history.items():
            if window[0] == "time":
                rows = [row for row in rows if b - window[1] <= row.key[0] < b]
            elif spoke.get(group, 0) == counts[group]:
                continue
            else:
                rows = rows[-window[1] :]
            if rows:
                speak(group, rows, (b, TIMER, b // every[1], None if by else 0))
                spoke[group] = counts[group]
                said = True
        return said

    def speak_until(limit):
        nonlocal boundary
        while boundary is not None and boundary <= limit:
            said = speak_at(boundary)
            boundary += every[1]
            if limit == math.inf and not said:
                boundary = None

    def end_sessions(limit):
        """Those that are over by `limit`, in the order of their ends. A row exactly at the gap still belongs to it."""
        over = [(rows[-1].key[0] + window[1] + 1, group) for group, rows in history.items()]
        for end, group in sorted((entry for entry in over if entry[0] <= limit), key=lambda entry: entry[0]):
            speak(group, history.pop(group), (end, TIMER, end, None if by else 0))

    for _, item in items:
        if isinstance(item, Mark):
            if window[0] == "punctuated":
                for group, rows in history.items():
                    speak(group, rows, (*item.key[:3], None))
                history.clear()
            out.append((0, item))
            continue
        ts = item.key[0]
        if window[0] == "session":
            end_sessions(ts)
        if every[0] == "time":
            if boundary is None:
                boundary = ts // every[1] * every[1] + every[1]
            speak_until(ts)
        group = group_key(item, by)
        rows = history.setdefault(group, [])
        rows.append(item)
        counts[group] = counts.get(group, 0) + 1
        if every[0] == "count" and counts[group] % every[1] == 0:
            if window[0] == "time":
                speak(group, [row for row in rows if row.key[0] > ts - window[1]], item.key)
            elif partial or len(rows) >= window[1]:
                speak(group, rows[-window[1] :], item.key)
                if tumbling:
                    rows.clear()
    if end and every[0] == "time":
        speak_until(math.inf)
    if end and window[0] == "session":
        end_sessions(math.inf)
    return out


# Join ---------------------------------------------------------------------------------------------------------------


def join(items, *, on, windows, per_group, columns, where=None, numbered=True, how="inner"):
    """`on` are pairs of columns; `columns` the names of left's and right's columns in the output."""
    shared = {left for left, right in on if left == right}
    kept: tuple[list[Row], list[Row]] = ([], [])
    out: list[tuple[int, Row | Mark]] = []
    now = -math.inf
    last_trigger, count = None, 0

    def held(port):
        kind, *size = windows[port]
        rows = kept[port]
        if kind == "time":
            return [row for row in rows if row.key[0] > now - size[0]]
        if kind == "count" and not per_group:
            return rows[-size[0] :]
        if kind == "count":
            names = [pair[port] for pair in on]
            groups: dict[tuple, list[Row]] = {}
            for row in rows:
                groups.setdefault(group_key(row, names), []).append(row)
            recent = {id(row) for members in groups.values() for row in members[-size[0] :]}
            return [row for row in rows if id(row) in recent]
        return []

    for port, item in items:
        if isinstance(item, Mark):
            if numbered:
                n = count - 1 if last_trigger == item.key[:3] else 0
                item = Mark((*item.key[:3], max(0, n)))
            out.append((0, item))
            continue
        now = max(now, item.key[0])
        own = [pair[port] for pair in on]
        others = [pair[1 - port] for pair in on]
        pairs = []
        if not any(item.values[name] is None for name in own):
            for other in held(1 - port):
                if any(other.values[name] is None for name in others):
                    continue
                if group_key(item, own) != group_key(other, others):
                    continue
                left, right = (item, other) if port == 0 else (other, item)
                pair = {name: left.values[name] for name in columns[0]}
                pair |= {name: right.values[name] for name in columns[1]}
                if where is not None and not where(pair):
                    continue
                if how != "inner":
                    pair |= {name: item.values[name] for name in shared}
                pairs.append(pair)
        if not pairs and how in (("left", "right")[port], "full"):
            missing = dict.fromkeys([*columns[0], *columns[1]])
            pairs.append(missing | {name: value for name, value in item.values.items() if name in missing})
        for pair in pairs:
            if last_trigger != item.key[:3]:
                last_trigger, count = item.key[:3], 0
            out.append((0, Row((*item.key[:3], count) if numbered else item.key, pair)))
            count += 1
        if windows[port][0] != "zero":
            kept[port].append(item)
    return out


# Sort, barrier, union, punctor, split ---------------------------------------------------------------------------------


def sort(items, *, by, window, end=True):
    """`by` are (column, descending)."""
    waiting: list[Row] = []
    out: list[tuple[int, Row | Mark]] = []
    boundary = last = None
    numbered: dict[tuple, int] = {}

    def give_out(key):
        rows = list(waiting)
        for name, descending in reversed(by):
            rows.sort(key=lambda row: _sortable(row.values[name]), reverse=False)
            if descending:
                numbers = [row for row in rows if _sortable(row.values[name])[0] == 0]
                rest = [row for row in rows if _sortable(row.values[name])[0] != 0]
                rows = sorted(numbers, key=lambda row: _sortable(row.values[name]), reverse=True) + rest
        for row in rows:
            n = numbered.get(key, 0)
            numbered[key] = n + 1
            out.append((0, Row((*key, n), row.values)))
        if rows:
            out.append((0, Mark((*key, numbered[key] - 1))))
        waiting.clear()
        return bool(rows)

    for _, item in items:
        if isinstance(item, Mark):
            if not give_out(item.key[:3]):
                out.append((0, item))
            continue
        ts = item.key[0]
        if window[0] == "time":
            if boundary is not None and ts >= boundary:
                give_out((boundary, TIMER, boundary // window[1]))
            boundary = ts // window[1] * window[1] + window[1]
        waiting.append(item)
        last = item.key[:3]
        if window[0] == "count" and len(waiting) == window[1]:
            give_out(last)
    if end and last is not None:
        give_out((boundary, TIMER, boundary // window[1]) if window[0] == "time" else last)
    return out


def _sortable(value: Any) -> tuple:
    """Numbers, then NaN, then null."""
    if value is None:
        return (2, 0)
    if isinstance(value, float) and math.isnan(value):
        return (1, 0)
    return (0, value.encode() if isinstance(value, str) else value)


def barrier(items, *, ports):
    queues: list[list[Row]] = [[] for _ in range(ports)]
    out = []
    for port, item in items:
        if isinstance(item, Mark):
            continue
        queues[port].append(item)
        if all(queues):
            values: dict = {}
            for queue in queues:
                values |= queue.pop(0).values
            out.append((0, Row(item.key, values)))
    return out


def union(items, *, numbered):
    out = []
    counts: dict[tuple, int] = {}
    for _, item in items:
        key = item.key
        if numbered and isinstance(item, Row):
            n = counts.get(key[:3], 0)
            counts[key[:3]] = n + 1
            key = (*key[:3], n)
        elif numbered:
            key = (*key[:3], max(0, counts.get(key[:3], 0) - 1))
        out.append((0, Row(key, item.values) if isinstance(item, Row) else Mark(key)))
    return out


def punctor(items, *, condition, before=False):
    out = []
    for _, item in items:
        out.append((0, item))
        if isinstance(item, Row) and condition(item.values):
            if before:
                ts, src, seq, n = item.key
                out.insert(-1, (0, Mark((ts, src, seq, n - 1) if n else (ts, src, seq - 1, 2**63 - 1))))
            else:
                out.append((0, Mark(item.key)))
    return out


def split(items, *, routes, otherwise):
    out = []
    ports = len(routes) + otherwise
    for _, item in items:
        if isinstance(item, Mark):
            out += [(port, item) for port in range(ports)]
            continue
        port = next((port for port, route in enumerate(routes) if route(item.values)), len(routes))
        if port < ports:
            out.append((port, item))
    return out


def delay(items, *, by):
    out = []
    for _, item in items:
        key = (item.key[0] + by, *item.key[1:])
        out.append((0, Row(key, item.values) if isinstance(item, Row) else Mark(key)))
    return out


def scan(items, *, by, variables, shown, where):
    """`variables` are (name, initial, update of a dict), `shown` the output's (name, of a dict)."""
    state: dict[tuple, dict] = {}
    out = []
    for _, item in items:
        if isinstance(item, Mark):
            out.append((0, item))
            continue
        own = state.setdefault(group_key(item, by), {name: initial for name, initial, _ in variables})
        for name, _, update in variables:
            own[name] = update(item.values | own)
        seen = item.values | own
        if where(seen):
            out.append((0, Row(item.key, {name: value(seen) for name, value in shown})))
    return out
