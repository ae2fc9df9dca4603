"""With bounds checked, an index that is out of them is an error: beyond the end, and before the beginning."""

import os
import subprocess
import sys
from pathlib import Path

from tests import bounds

TRIED = """
import numpy as np
from tests import bounds
bounds.begin()
from riprap.operators.kernels import kernel

@kernel
def at(values, index):
    return values[index]

@kernel
def last(values):
    return values[-1]

values = np.arange(3)
assert (at(values, 2), last(values)) == (2, 2)
for index in (3, -1, 1_000_000):
    try:
        at(values, index)
    except IndexError:
        continue
    raise SystemExit(f"index {index} was let pass")
"""


def test_indices_out_of_bounds_are_errors(tmp_path):
    (tmp_path / "tried.py").write_text(TRIED)
    environment = os.environ | {bounds.SETTING: "1", "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    environment["PYTHONPATH"] = str(Path(__file__).parents[2])
    subprocess.run([sys.executable, str(tmp_path / "tried.py")], env=environment, check=True)


def test_compiled_functions_are_found():
    found = bounds.declared()
    assert {"riprap.operators.kernels.selecting.by_part", "riprap.expressions.kernels.choose"} <= found
    assert "riprap.expressions.scalars.power" not in found, "it has no index"
