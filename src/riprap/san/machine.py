"""Helpers of generated simulators: lowest bit of a set, repair of the tournament tree, integral of a reward."""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic


@intrinsic
def lowest(_context: Any, word: Any) -> Any:
    """Position of the lowest set bit, as one machine instruction: 0 for …1, 1 for …10; undefined for 0."""

    def emit(_: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), emit


@intrinsic
def borrowed(_context: Any, array: Any) -> Any:
    """`array` without reference counting; valid while its owner exists. Counting references on every call costs more
    than a completion."""

    def emit(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        view = context.make_array(array)(context, builder, arguments[0])
        view.meminfo = ir.Constant(view.meminfo.type, None)
        return view._getvalue()

    return array(array), emit


@njit(cache=True)
def repair(tree: np.ndarray, node: int) -> None:
    """Restore "a node is the smaller of its two children" on the path from `node` to the root."""
    while node > 1:
        node >>= 1
        tree[node] = min(tree[2 * node], tree[2 * node + 1])


@njit(cache=True)
def integrate(index: int, f: np.ndarray, rewards: np.ndarray, rate: np.ndarray, since: np.ndarray) -> None:
    """Adds the integral of a rate reward since its rate last changed; f is [now, start, horizon]."""
    begin = max(since[index], f[1])
    if f[0] > begin:
        rewards[index] += rate[index] * (f[0] - begin)
    since[index] = f[0]
