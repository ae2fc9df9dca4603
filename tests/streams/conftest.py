import shutil
import tempfile
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def memory_root(tmp_path_factory):
    """A directory in memory, where there is one: for tests that would do little but sync."""
    base = "/dev/shm" if Path("/dev/shm").is_dir() else tmp_path_factory.mktemp("memory")
    directory = Path(tempfile.mkdtemp(dir=base, prefix="riprap-test-"))
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
def memory_path(memory_root):
    return Path(tempfile.mkdtemp(dir=memory_root))
