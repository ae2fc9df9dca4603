"""Where a worker finds the user's modules: in the driver's places, after everything that is installed.

No Python process that Riprap starts has its working directory on the path (`base/processes.py`). A pickled task refers
to the user's functions by module, so the places must be known before the rest of the task is unpickled.
"""

import os
import sys
from collections.abc import Callable
from functools import partial
from typing import Any


class _Places:
    """Directories; unpickling them adds them to `sys.path`."""

    def __init__(self, places: tuple[str, ...]) -> None:
        self._places = places

    def __reduce__(self) -> tuple[Any, ...]:
        return _added, (self._places,)


def _added(places: tuple[str, ...]) -> _Places:
    sys.path += [place for place in places if place not in sys.path]
    return _Places(places)


def for_worker(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function to be called in a worker."""
    places = tuple(dict.fromkeys(os.path.abspath(place) for place in sys.path if os.path.isdir(place or ".")))
    return partial(_called, _Places(places), function)  # pickled in this order


def _called(_: _Places, function: Callable[..., Any], *arguments: Any) -> Any:
    return function(*arguments)
