"""Write to a disk that may be full: retry for a limited time, then raise one clear error.

Fault model: a full disk (or an exhausted quota) has room again when someone deletes files. So a write is retried every
half second for `PATIENCE` seconds, and then raises an error of the environment. Nothing that was acknowledged before is
lost. `PATIENCE` is shorter than the time after which a processing element counts as stuck, so a run pauses and
continues. A write must be repeatable from its start.
"""

import errno
import os
from collections.abc import Callable
from typing import TypeVar

from riprap.base.clock import SYSTEM_CLOCK, Clock
from riprap.base.errors import MissingPrerequisite

PATIENCE = 30.0  # seconds
_RETRY_INTERVAL = 0.5  # seconds
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # no room, quota exhausted, file size limit

T = TypeVar("T")


class DiskFull(MissingPrerequisite):
    """The disk was still full after `PATIENCE` seconds."""


def is_full(error: BaseException) -> bool:
    """Whether the operating system reported a full disk."""
    return isinstance(error, OSError) and error.errno in _FULL


def retry_while_full(write: Callable[[], T], path: str | os.PathLike[str], clock: Clock = SYSTEM_CLOCK) -> T:
    """Call `write`, which writes to `path`, and return its result; retry while the disk is full, up to `PATIENCE`."""
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
                    f"the disk of {os.fspath(path)} has been full for {PATIENCE:.0f} s: free space and continue "
                    "(a run: riprap run --resume DIR; an assessment: the same command again)"
                ) from error
        clock.sleep(_RETRY_INTERVAL)
