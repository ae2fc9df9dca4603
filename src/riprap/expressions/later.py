"""Compiled functions that are loaded when they are first called, not when their module is.

Loading machine code from Numba's cache takes tens of milliseconds a function, and Numba itself half a second. Whoever
only builds a graph calls none of them. Processes that are to answer at once load them beforehand, with `load`.
"""

from collections.abc import Callable
from functools import cached_property
from typing import Any

_ALL: list["Later"] = []


class Later:
    """Called as what `make` makes of a function."""

    def __init__(self, function: Callable[..., Any], make: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
        self.__doc__, self.__name__ = function.__doc__, function.__name__
        self.plain, self._make = function, make
        _ALL.append(self)

    @cached_property
    def made(self) -> Callable[..., Any]:
        return self._make(self.plain)

    def __call__(self, *arguments: Any) -> Any:
        return self.made(*arguments)


def load() -> None:
    """All of those whose modules have been imported."""
    for one in _ALL:
        one.made  # noqa: B018  (it is made when it is looked at)
