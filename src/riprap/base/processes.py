"""Keeps the working directory and the script's directory off `sys.path` in the Python processes that we start.

A file there with the name of a library (`uuid.py`, `pandas.py`) would be imported in its place.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager

SAFE_PATH = "PYTHONSAFEPATH"  # "1" in a process's environment, inherited by its children; like `python -P`


@contextmanager
def safe_path() -> Iterator[None]:
    """Set it while a library starts a process with this environment."""
    before = os.environ.get(SAFE_PATH)
    os.environ[SAFE_PATH] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[SAFE_PATH]
        else:
            os.environ[SAFE_PATH] = before
