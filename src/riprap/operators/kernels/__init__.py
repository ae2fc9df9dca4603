"""Compiled array functions: no Arrow, no objects, no I/O; arrays in, arrays out, some updated in place where a
docstring says so.

They are compiled by Numba on first use, cached on disk, and release the interpreter lock. With NUMBA_DISABLE_JIT=1 they
run as plain Python with the same results, which the tests check.
"""

from typing import Any

from numba import njit

# The one way kernels are compiled. No fastmath: results must not depend on how a compiler reorders sums.
kernel: Any = njit(cache=True, nogil=True)
