"""Planning a read from the index alone: how to divide it, where it starts, how far a number of bytes reaches."""

from typing import NamedTuple

import numpy as np

from riprap.streams.positions import Bounds
from riprap.streams.segment import read_entries, read_start, segment_name, walk
from riprap.streams.stream import PersistentStream


class Stretch(NamedTuple):
    """Rows of consecutive segments, from a position to an exclusive end, and their approximate size in bytes."""

    from_position: int
    to_position: int
    size: int


def stretches(stream: PersistentStream, bounds: Bounds, least_bytes: int) -> list[Stretch]:
    """What is stable within `bounds`, divided where segments meet; neighbours are joined up to `least_bytes`."""
    end = stream.stable()
    found = stream.catalogue(end)
    stop = end.position if bounds.to_position is None else min(bounds.to_position, end.position)
    parts = [
        (item.position, item.next_position, item.end)
        for item in found.finished[found.first(bounds) :]
        if not bounds.excludes(item.range)
    ]
    parts.append((found.next_position, end.position, end.offset))
    made: list[Stretch] = []
    for first, last, size in parts:
        low, high = max(first, bounds.from_position), min(last, stop)
        if low >= high:
            continue
        if made and made[-1].to_position == low and made[-1].size < least_bytes:
            made[-1] = Stretch(made[-1].from_position, high, made[-1].size + size)
        else:
            made.append(Stretch(low, high, size))
    return made


def beginning(stream: PersistentStream, bounds: Bounds) -> int:
    """The position of the first batch that can have rows within `bounds`; the stable end if there is none."""
    first = next(iter(stream.read(from_ts=bounds.from_ts, from_seq=bounds.from_seq, columns=[])), None)
    return stream.stable().position if first is None else first.header.position


def after_bytes(stream: PersistentStream, position: int, size: int) -> int:
    """The position that about `size` bytes from `position` on reach; at least one index run further."""
    end = stream.stable()
    found = stream.catalogue(end)
    for item in found.finished[found.first(Bounds(position)) :]:
        if item.next_position <= position:
            continue
        file = stream.files.open(segment_name(item.segment))
        try:
            entries = read_entries(file, item)
        finally:
            file.close()
        at = max(int(np.searchsorted(entries["position"], position, "right")) - 1, 0)
        taken = item.end - int(entries["offset"][at])
        if taken > size:
            reach = int(np.searchsorted(entries["offset"], entries["offset"][at] + size, "right")) - 1
            reached = max(reach, at + 1)
            return int(entries["position"][reached]) if reached < len(entries) else item.next_position
        size -= taken
        position = item.next_position
    if position >= end.position:
        return end.position
    file = stream.files.open(segment_name(end.segment))
    try:
        start = read_start(file)
        reached = position
        for item_ in walk(file, start.carry.stream, start.end, end.offset, start.carry.position, bodies=False):
            if item_.header.end > position:
                size -= item_.header.length
                if size < 0 and reached > position:
                    break
                reached = item_.header.end
        return reached
    finally:
        file.close()
