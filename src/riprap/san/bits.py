"""The position of the lowest set bit, as one machine instruction."""

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic


@intrinsic
def lowest(_context: Any, word: Any) -> Any:
    """0 for …1, 1 for …10, and so on; undefined for 0."""

    def emit(_: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), emit
