"""Compiled functions that are loaded on their first call, not when their module is imported.

Loading machine code from Numba's cache takes tens of milliseconds per function, and importing Numba half a second. A
process that only builds a graph calls none of them. Processes that must respond at once load them with `load`.
"""

from collections.abc import Callable
from functools import cached_property
from typing import Any

_ALL: list["LazyFunction"] = []


class LazyFunction:
    """A function that `compiler` compiles on its first call."""

    def __init__(
        self, function: Callable[..., Any], compiler: Callable[[Callable[..., Any]], Callable[..., Any]]
    ) -> None:
        self.__doc__, self.__name__ = function.__doc__, function.__name__
        self.plain, self._compiler = function, compiler
        _ALL.append(self)

    @cached_property
    def compiled(self) -> Callable[..., Any]:
        return self._compiler(self.plain)

    def __call__(self, *arguments: Any) -> Any:
        return self.compiled(*arguments)


def load() -> None:
    """Compile or load all lazy functions of imported modules."""
    for function in _ALL:
        function.compiled  # noqa: B018  (reading the property compiles it)
