"""Ledgers: counts go on from life to life, whatever a life that was killed at its birth left behind."""

import pytest

from riprap.runtime.ledger import open_ledger, read_ledger

NAMES = ["in:a:next", "in:a:missed"]


def test_a_life_goes_on_with_the_counts_of_the_one_before(tmp_path):
    first = open_ledger(tmp_path, 1, NAMES)
    first["in:a:next"] = 7
    first.add("in:a:missed", 5)
    second = open_ledger(tmp_path, 2, NAMES)
    second.add("in:a:missed", 1)
    first.add("in:a:missed", 100)  # it does not know that it was replaced
    assert read_ledger(tmp_path, NAMES) == {"in:a:next": 7, "in:a:missed": 6}


def test_a_life_killed_at_its_birth_leaves_the_counts_alone(tmp_path, monkeypatch):
    open_ledger(tmp_path, 1, NAMES)["in:a:next"] = 7

    class Killed(BaseException):
        pass

    def kill(*_):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr("pathlib.Path.replace", kill)
        with pytest.raises(Killed):
            open_ledger(tmp_path, 2, NAMES)
    assert open_ledger(tmp_path, 3, NAMES)["in:a:next"] == 7
