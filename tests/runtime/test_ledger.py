"""Ledgers survive kill -9, go on from the life before, and know their layout."""

import os
import signal
import subprocess
import sys

import pytest

from riprap.base.errors import DataError
from riprap.graph.keys import END_KEY, START_KEY, OrderKey
from riprap.runtime.ledger import memory_ledger, open_ledger, read_ledger

NAMES = ["in:A→B[0→0]:next", *(f"out:B→C[0→0]:{part}" for part in ("ts", "src", "seq", "n")), "received"]

KILLED = """
import os, signal, sys
from pathlib import Path
from riprap.runtime.ledger import open_ledger
ledger = open_ledger(Path(sys.argv[1]), 1, sys.argv[2:])
ledger["received"] = 41
ledger.add("received", 1)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_numbers_survive_kill_9(tmp_path):
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path), *NAMES], env=dict(os.environ), check=False)
    assert done.returncode == -signal.SIGKILL
    assert read_ledger(tmp_path, NAMES)["received"] == 42


def test_each_life_goes_on_from_the_one_before_and_cannot_spoil_it(tmp_path):
    first = open_ledger(tmp_path, 1, NAMES)
    first["received"] = 3
    second = open_ledger(tmp_path, 2, NAMES)
    assert second["received"] == 3
    second.add("received", 1)
    first["received"] = 99  # a life that does not know that it was replaced
    assert read_ledger(tmp_path, NAMES)["received"] == 4
    assert open_ledger(tmp_path, 3, NAMES)["received"] == 4


def test_another_layout_is_refused(tmp_path):
    open_ledger(tmp_path, 1, NAMES)
    with pytest.raises(DataError, match="another layout"):
        read_ledger(tmp_path, NAMES[1:])


@pytest.mark.parametrize("key", [OrderKey(5, -1, 7, 9), END_KEY], ids=str)
def test_a_key_comes_back(key):
    ledger = memory_ledger(NAMES)
    assert ledger.key("out:B→C[0→0]") == START_KEY
    ledger.set_key("out:B→C[0→0]", key)
    assert ledger.key("out:B→C[0→0]") == key
    assert ledger["in:A→B[0→0]:next"] == ledger["received"] == 0
