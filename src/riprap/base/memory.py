"""Memory that is given back is soon wanted again: a process that works in batches keeps what it has.

A page that the system has to find and clear takes longer than to fill it, several times as long in a virtual machine.
The C library gives back what is free at the end of its heap beyond 128 KiB, and maps large pieces each time anew; the
allocator that Arrow brings clears pages of 2 MiB at once and gives them back after 10 ms. Elements make and drop
batches of megabytes hundreds of times a second.
"""

import ctypes
from contextlib import suppress

import pyarrow as pa

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of `mallopt`
_KEPT = 64 << 20  # bytes at the end of the heap that are not given back
_MAPPED = 32 << 20  # bytes from which a piece is mapped on its own: the most that the library allows


def keep_memory() -> None:
    """Let this process reuse what it frees, for Arrow's buffers too. Where the C library is another, that is its own
    affair.
    """
    pa.set_memory_pool(pa.system_memory_pool())
    with suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_MMAP_THRESHOLD, _MAPPED)
        mallopt(_TRIM_THRESHOLD, _KEPT)
