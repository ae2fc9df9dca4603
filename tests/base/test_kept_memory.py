"""A process that keeps its memory asks the system for none to fill batches of the same size again and again."""

import subprocess
import sys

import pytest

# Arrays of NumPy's and of Arrow's of the sizes in which elements send; how many pages had to be found for them.
BATCHES = """
import resource
import numpy as np, pyarrow as pa
from riprap.base.memory import keep_memory

keep_memory()

def work():
    for _ in range(50):
        held = [np.full(3 << 20, 1, np.uint8) for _ in range(4)]
        held += [pa.array(np.arange(1 << 18)).cast(pa.float64()) for _ in range(4)]
        del held

work()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
work()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="asks for what Linux counts")
def test_batches_are_made_in_memory_that_is_there():
    """Else some 180,000 pages are found for 50 rounds."""
    done = subprocess.run([sys.executable, "-c", BATCHES], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 2_000
