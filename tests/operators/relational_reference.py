"""What Spark's relational operators mean, tuple by tuple, in plain Python. It shares no code with the implementation.

Tuples that leave a window together are numbered by a hash that the reference does not know: it leaves `n` None and
gives them in any order.
"""

import math

from tests.operators.reference import Mark, Row, group_key


def drop_duplicates(items, *, by, within):
    passed: dict[tuple, int] = {}  # key → time of the tuple that passed
    out = []
    for _, item in items:
        if isinstance(item, Row):
            key, ts = group_key(item, by), item.key[0]
            if key in passed and (within is None or ts - passed[key] < within):
                continue
            passed[key] = ts
        out.append((0, item))
    return out


def join_table(items, *, table, on, how, where, numbered):
    """`table`: rows as dicts."""
    out, last, count = [], None, 0
    shared = {left for left, right in on if left == right}
    for _, item in items:
        if isinstance(item, Mark):
            key = (*item.key[:3], max(0, count - 1) if last == item.key[:3] else 0) if numbered else item.key
            out.append((0, Mark(key)))
            continue
        found = []
        for row in table:
            if any(item.values[left] is None or row[right] is None for left, right in on):
                continue
            pair = {name: value for name, value in row.items() if name not in shared} | item.values
            mine = group_key(item, [left for left, _ in on])
            if mine == group_key(Row((), row), [right for _, right in on]) and (where is None or where(pair)):
                found.append(pair)
        nothing = {name: None for name in table[0] if name not in shared} | item.values
        rows = {
            "inner": found,
            "left": found or [nothing],
            "left_semi": [item.values] if found else [],
            "left_anti": [] if found else [item.values],
        }[how]
        for row in rows:
            if last != item.key[:3]:
                last, count = item.key[:3], 0
            out.append((0, Row((*item.key[:3], count) if numbered else item.key, row)))
            count += 1
    return out


def expiring_join(items, *, on, sizes, columns, where, how, rank):
    """`columns`: the names of left's and right's columns in the output."""
    kept: tuple[list, list] = ([], [])  # [row, whether it has had a match]
    emptied = {"left": (0,), "right": (1,), "full": (0, 1), "left_anti": (0,)}.get(how, ())
    out = []
    last, count = None, 0

    def leave(now):
        gone = [
            (entry[0].key[0] + sizes[port], entry[0].key[2], port, entry[0])
            for port in emptied
            for entry in kept[port]
            if entry[0].key[0] + sizes[port] <= now and not entry[1]
        ]
        for at, seq, port, row in sorted(gone, key=lambda entry: entry[:2]):
            values = {name: row.values.get(name) for name in dict.fromkeys([*columns[0], *columns[1]])}
            other = set(columns[1 - port]) - set(columns[port])
            out.append((0, Row((at, rank, seq, None), values | dict.fromkeys(other))))
        for port in (0, 1):
            kept[port][:] = [entry for entry in kept[port] if entry[0].key[0] + sizes[port] > now]

    for port, item in items:
        leave(item.key[0])
        entry = [item, False]
        own, others = [pair[port] for pair in on], [pair[1 - port] for pair in on]
        emitted = []
        for other in kept[1 - port]:
            if any(item.values[name] is None for name in own) or group_key(item, own) != group_key(other[0], others):
                continue
            left, right = (entry, other) if port == 0 else (other, entry)
            pair = right[0].values | left[0].values
            if where is not None and not where(pair):
                continue
            if how not in ("left_semi", "left_anti"):
                emitted.append({name: pair[name] for name in dict.fromkeys([*columns[0], *columns[1]])})
            elif how == "left_semi" and not left[1]:
                emitted.append({name: left[0].values[name] for name in columns[0]})
            entry[1] = other[1] = True
        for values in emitted:
            if last != item.key[:3]:
                last, count = item.key[:3], 0
            out.append((0, Row((*item.key[:3], count), values)))
            count += 1
        kept[port].append(entry)
    leave(math.inf)
    return out
