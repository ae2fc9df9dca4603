"""Reuse of the files of trimmed segments.

Writing to a page that the system has to allocate first takes three to thirty times as long as writing to one that the
file already has. So the files of a few trimmed segments are retained, and the next segments overwrite them.

The previous content stays behind the new end until it is overwritten. It is never mistaken for new data: a file is
reused only by a segment that starts after every position in it, and a reader checks the expected position of each
message. A finished segment has no such rest, and neither has one whose writer closed it.
"""

import contextlib
from pathlib import Path

from riprap.base import files
from riprap.streams.segment import segment_name
from riprap.streams.segment_summary import Summary

MAX_SPARES = 4
_ENDING = ".spare.tmp"  # omitted from every listing


class Spares:
    """The spare files of one writer."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._waiting: list[tuple[int, Path]] = []  # position after the last row, file
        for name in files.names(directory):
            if name.endswith(_ENDING):  # left by a writer that was killed
                files.unlink(directory / name, missing_ok=True)

    def keep(self, trimmed: Summary) -> None:
        """Retain the file of a trimmed segment, or delete it if there are enough."""
        path = self._directory / segment_name(trimmed.segment)
        if len(self._waiting) >= MAX_SPARES:
            files.unlink(path, missing_ok=True)
            return
        spare = path.with_name(path.name + _ENDING)
        with contextlib.suppress(FileNotFoundError):  # deleted by another process
            files.rename(path, spare)
            files.truncate(spare, trimmed.end)  # without its record, so that it does not look finished
            self._waiting.append((trimmed.next_position, spare))

    def take(self, name: Path, position: int) -> bool:
        """Rename a spare file for a segment that starts at `position`; False: there is none."""
        while self._waiting and self._waiting[0][0] < position:
            with contextlib.suppress(FileNotFoundError):
                files.rename(self._waiting.pop(0)[1], name)
                return True
        return False

    def close(self) -> None:
        while self._waiting:
            files.unlink(self._waiting.pop()[1], missing_ok=True)
