"""Where generated networks are kept, and imported from: a directory that nobody else can write to."""

import stat

import pytest

from riprap.san import compiled


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def mode(path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_it_is_the_users_own(home):
    found = compiled._cache_directory.__wrapped__()
    assert found.is_relative_to(home)
    assert mode(found) == 0o700


@pytest.mark.parametrize("open_to", [0o777, 0o720])
def test_one_that_others_could_have_written_to_is_not_used(home, open_to):
    (home / ".cache" / "riprap" / "networks").mkdir(parents=True)
    (home / ".cache" / "riprap" / "networks").chmod(open_to)
    found = compiled._cache_directory.__wrapped__()
    assert not found.is_relative_to(home / ".cache")
    assert mode(found) == 0o700


def test_one_of_somebody_else_is_not_used(home, monkeypatch):
    monkeypatch.setattr("os.getuid", lambda: 12345)
    found = compiled._cache_directory.__wrapped__()
    assert not found.is_relative_to(home / ".cache")
    assert mode(found) == 0o700
