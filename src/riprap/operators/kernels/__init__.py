"""Compiled array functions: no Arrow, no objects, no I/O; arrays in, arrays out, some updated in place where a
docstring specifies it.

Numba compiles them on first use, caches them on disk, and they release the interpreter lock. With NUMBA_DISABLE_JIT=1
they run as plain Python with the same results, which the tests check.
"""

from typing import Any

from numba import njit

# All kernels are compiled like this. No fastmath: results must not depend on how a compiler reorders sums.
kernel: Any = njit(cache=True, nogil=True)
