"""Keeps files in the working directory from becoming code in this process and in those that it starts.

Python would import a file with the name of a library (`uuid.py`, `pandas.py`) in the library's place. Numba reads
`.numba_config.yaml`, which can name a directory of machine code to load; environment variables take precedence.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager

SAFE_PATH = "PYTHONSAFEPATH"  # "1" in a process's environment, inherited by its children; like `python -P`
MACHINE_CODE = "NUMBA_CACHE_DIR"  # "": beside the modules, or in the user's own cache


def distrust_working_directory() -> None:
    """From now on, in this process and in all that it starts. Call it before Numba is imported."""
    os.environ[SAFE_PATH] = "1"
    os.environ.setdefault(MACHINE_CODE, "")


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
