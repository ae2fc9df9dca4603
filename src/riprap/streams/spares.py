"""Segments that were trimmed, to be written again.

A page that the system has to find before it can be written takes three to thirty times as long to write as one that
the file has already. So the files of a few trimmed segments are kept, and the next segments are written over them.

What lay in such a file lies behind the new end until it is overwritten. It is never taken for something new: a file is
used again only by a segment that begins behind every position in it, and a reader wants the expected position of each
message. A finished segment has no such rest, nor has one whose writer closed it.
"""

import contextlib
from pathlib import Path

from riprap.base import files
from riprap.streams.segment import segment_name
from riprap.streams.segment_summary import Summary

MOST = 4
_ENDING = ".spare.tmp"  # which every listing leaves out


class Spares:
    """Of one writer."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._waiting: list[tuple[int, Path]] = []  # position behind the last row, file
        for name in files.names(directory):
            if name.endswith(_ENDING):  # left by a writer that was killed
                files.unlink(directory / name, missing_ok=True)

    def keep(self, trimmed: Summary) -> None:
        """Take the file of a segment that nobody will read again, or delete it where there are enough."""
        path = self._directory / segment_name(trimmed.segment)
        if len(self._waiting) >= MOST:
            files.unlink(path, missing_ok=True)
            return
        spare = path.with_name(path.name + _ENDING)
        with contextlib.suppress(FileNotFoundError):  # somebody else has deleted it
            files.rename(path, spare)
            files.truncate(spare, trimmed.end)  # without its record, so that it does not look finished
            self._waiting.append((trimmed.next_position, spare))

    def take(self, name: Path, position: int) -> bool:
        """Give a spare file another name, for a segment that begins at `position`; False: there is none."""
        while self._waiting and self._waiting[0][0] < position:
            with contextlib.suppress(FileNotFoundError):
                files.rename(self._waiting.pop(0)[1], name)
                return True
        return False

    def close(self) -> None:
        while self._waiting:
            files.unlink(self._waiting.pop()[1], missing_ok=True)
