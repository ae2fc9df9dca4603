"""Writing to a disk that may be full: wait for room, for a stated time, and then say so in one sentence.

Fault model. A disk that is full (or a quota that is used up) gets room again when somebody deletes something, so a
write is tried again, every half second, for `PATIENCE` seconds. Then it is an error of the environment, and nothing of
what was acknowledged before is lost. The time is below that after which a processing element counts as stuck, so a run
pauses and goes on. Whatever is written has to be such that it can be written again from its beginning.
"""

import errno
import os
from collections.abc import Callable
from typing import TypeVar

from riprap.base.clock import SYSTEM_CLOCK, Clock
from riprap.base.errors import MissingPrerequisite

PATIENCE = 30.0  # seconds
_AGAIN = 0.5  # seconds between two tries
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # no room, a quota, a limit on the size of files

T = TypeVar("T")


class DiskFull(MissingPrerequisite):
    """A disk without room, after having waited for it."""


def is_full(error: BaseException) -> bool:
    """Whether this is a system's word for a disk without room."""
    return isinstance(error, OSError) and error.errno in _FULL


def when_room(write: Callable[[], T], path: str | os.PathLike[str], clock: Clock = SYSTEM_CLOCK) -> T:
    """What `write` returns, which writes to `path`: tried again while the disk is full, but not for ever."""
    since = None
    while True:
        try:
            return write()
        except OSError as error:
            if not is_full(error):
                raise
            since = clock.monotonic() if since is None else since
            if clock.monotonic() - since >= PATIENCE:
                raise DiskFull(
                    f"the disk of {os.fspath(path)} is full and had no room for {PATIENCE:.0f} s: free space and go on "
                    "(a run: riprap run --resume DIR; an assessment: the same command again)"
                ) from error
        clock.sleep(_AGAIN)
