import shutil
import tempfile
from pathlib import Path

import pytest


@pytest.fixture
def memory_path(tmp_path):
    """A directory in memory, where there is one: for tests that would do little but sync."""
    if not Path("/dev/shm").is_dir():
        yield tmp_path
        return
    directory = Path(tempfile.mkdtemp(dir="/dev/shm", prefix="riprap-test-"))
    yield directory
    shutil.rmtree(directory, ignore_errors=True)
