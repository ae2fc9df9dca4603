"""Python processes that we start: none has the working directory, or that of a script, first on its path.

A file there that is called like a library (`uuid.py`, `pandas.py`) would run in its place.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager

SAFE_PATH = "PYTHONSAFEPATH"  # "1" in a process's environment, and so in that of all that it starts; like `python -P`


@contextmanager
def safe_path() -> Iterator[None]:
    """For a process that a library starts with the environment of this one."""
    before = os.environ.get(SAFE_PATH)
    os.environ[SAFE_PATH] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[SAFE_PATH]
        else:
            os.environ[SAFE_PATH] = before
