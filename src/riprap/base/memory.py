"""Makes the allocators keep freed memory, because a process that works in batches soon needs it again.

To allocate and clear a page costs the kernel more than it costs us to fill it, several times as much in a virtual
machine. The C library returns free memory at the end of its heap beyond 128 KiB to the kernel and maps large blocks
afresh each time; Arrow's bundled allocator clears pages of 2 MiB at once and returns them after 10 ms. Elements create
and drop batches of megabytes hundreds of times a second.
"""

import ctypes
from contextlib import suppress

import pyarrow as pa

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of `mallopt`
_RETAINED = 64 << 20  # bytes at the end of the heap that are not returned to the kernel
_MAPPED = 32 << 20  # bytes from which a block gets a mapping: the maximum of the C library


def keep_memory() -> None:
    """Let this process reuse the memory that it frees, also for Arrow's buffers. Without glibc, only Arrow's pool is
    set.
    """
    pa.set_memory_pool(pa.system_memory_pool())
    with suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_MMAP_THRESHOLD, _MAPPED)
        mallopt(_TRIM_THRESHOLD, _RETAINED)
