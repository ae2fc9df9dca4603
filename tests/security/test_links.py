"""A symbolic link in place of any file or directory of a directory that we own: nothing behind it is touched.

Directories are made by the product itself, and every entry of each is replaced by a link to a copy outside.
"""

import hashlib
import os
import shutil
import socket
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from tests.cli.refusals import no_spark, refused  # noqa: F401
from tests.durable import (
    test_mutated_assessments,
    test_mutated_campaigns,
    test_mutated_checkpoints,
    test_mutated_runs,
    test_mutated_streams,
)
from tests.durable.mutations import attempt, patience

from riprap.base import files
from riprap.base.errors import DataError, RiprapError
from riprap.base.owner import owned

CASES = {
    "assessment": test_mutated_assessments.CASE,
    "campaign": test_mutated_campaigns.CASE,
    "checkpoints": test_mutated_checkpoints.CASE,
    "run": test_mutated_runs.CASE,
    "stream": test_mutated_streams.CASE,
}
RIPRAP = Path(sys.executable).with_name("riprap")
PATIENCE = 600  # seconds; only how long a test that fails takes


def content(path: Path) -> dict[str, str]:
    """Everything at or below a path, with a digest of every file."""
    found = [path, *path.rglob("*")] if path.is_dir() else [path]
    return {str(p): hashlib.sha256(p.read_bytes()).hexdigest() if p.is_file() else "" for p in found}


def linked(sample: Path, place: Path):
    """For every entry of a directory: a copy in which it is a link, the link, and what it leads to."""
    entries = sorted(path.relative_to(sample) for path in sample.rglob("*"))
    assert entries
    for entry in entries:
        for each in ("work", "outside"):
            shutil.rmtree(place / each, ignore_errors=True)
        shutil.copytree(sample, place / "work")
        (place / "outside").mkdir()
        link, target = place / "work" / entry, place / "outside" / "target"
        link.rename(target)
        link.symlink_to(target)
        yield place / "work", link, target


@pytest.mark.parametrize("kind", CASES)
def test_nothing_behind_a_link_is_touched(kind, tmp_path):
    case = CASES[kind]
    case.make(tmp_path / "sample")
    said = []
    for work, link, target in linked(tmp_path / "sample", tmp_path):
        before = content(target)
        for action in case.actions:
            with patience():
                said.append(attempt(partial(action, work)))
            assert content(target) == before, (link, action.__name__)
        if link.is_symlink():  # else it was taken away, and what it led to was not
            with pytest.raises(DataError, match=f"{link} is a symbolic link"), owned(work, "run"):
                pass
            assert content(target) == before
    assert any("is a symbolic link" in sentence for sentence in said if sentence)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run with checkpoints, backups and logs, ended before its time."""
    place = tmp_path_factory.mktemp("run")
    plan = "app = 'wordcount'\n[operators.Count]\ncheckpoint = '200ms'\nbackup = true\n"
    (place / "plan.toml").write_text(plan)
    done = subprocess.run(
        [RIPRAP, "run", "wordcount", "--tuples", "20000", "--rate", "5000", "--for", "2s", "--plan", "plan.toml",
         "--fuse", "none", "--out", "run"],
        cwd=place, capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return place / "run"


@pytest.mark.usefixtures("no_spark")
def test_a_run_with_a_link_in_it_is_not_resumed(run, tmp_path):
    seen = 0
    for work, link, target in linked(run, tmp_path):
        before = content(target)
        assert f"{link} is a symbolic link" in refused("run", "--resume", work)
        assert content(target) == before
        seen += 1
    assert seen > 20


@pytest.mark.usefixtures("no_spark")
@pytest.mark.parametrize(
    "command",
    [
        ["run", "wordcount", "--out"],
        ["assess", "wordcount", "--out"],
        ["prove", "wordcount", "--for", "10s", "--out"],
        ["model", "wordcount", "--out"],
        ["compare", "wordcount", "--out"],
    ],
)
def test_no_command_writes_through_a_link(command, tmp_path):
    for name in (".owner", "results.json", "results.jsonl", "campaign", "model.html", "faults.jsonl"):
        out, target = tmp_path / "out", tmp_path / "outside"
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir()
        target.write_text("kept")
        (out / name).symlink_to(target)
        assert refused(*command, out)
        assert target.read_text() == "kept"
        assert (out / name).is_symlink()


def test_what_a_user_names_may_be_reached_by_a_link(tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "there")
    place = files.real(tmp_path / "link" / "run")
    with owned(place, "run"):
        files.write_text(place / "file", "text")
    assert (tmp_path / "there" / "run" / "file").read_text() == "text"


# The module that opens files ------------------------------------------------------------------------------------------

DEEDS = {
    "read": files.read_bytes,
    "write": lambda path: files.write_text(path, "x"),
    "append": lambda path: files.open_file(path, "ab").close(),
    "create": lambda path: os.close(files.descriptor(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)),
    "truncate": lambda path: files.truncate(path, 0),
    "map": files.mapped,
    "look": files.status,
    "list": files.names,
    "make": files.make,
    "sync": files.sync_directory,
}


@pytest.mark.parametrize("walked", [False, True])
@pytest.mark.parametrize("deed", DEEDS)
def test_links_are_refused_wherever_they_are(deed, walked, tmp_path, monkeypatch):
    if walked:  # as where the system does not tell where a directory lies
        monkeypatch.setattr(files, "_directory", files._walked)
    outside = tmp_path / "outside"
    (outside / "folder").mkdir(parents=True)
    (outside / "folder" / "file").write_text("kept")
    root = tmp_path / "root"
    root.mkdir()
    (root / "folder").symlink_to(outside / "folder")
    (root / "file").symlink_to(outside / "folder" / "file")
    (root / "nowhere").symlink_to(outside / "new")
    before = content(outside)
    for name in ("folder", "file", "nowhere", "folder/file", "folder/new", "folder/new/file", "nowhere/file"):
        with pytest.raises(RiprapError, match="is a symbolic link"):
            DEEDS[deed](root / name)
        assert content(outside) == before


@pytest.mark.parametrize("walked", [False, True])
def test_names_of_links_change_and_what_they_lead_to_does_not(walked, tmp_path, monkeypatch):
    if walked:
        monkeypatch.setattr(files, "_directory", files._walked)
    target = tmp_path / "target"
    target.mkdir()
    (target / "file").write_text("kept")
    for name in ("a", "b", "c"):
        (tmp_path / name).symlink_to(target)
    files.unlink(tmp_path / "a")
    files.remove_tree(tmp_path / "b")
    files.write_text(tmp_path / "new", "new")
    files.rename(tmp_path / "new", tmp_path / "c")
    assert (tmp_path / "c").read_text() == "new"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c", "target"]
    assert (target / "file").read_text() == "kept"


# Pipes and sockets ----------------------------------------------------------------------------------------------------

SPECIAL = {"pipe": os.mkfifo, "socket": lambda path: socket.socket(socket.AF_UNIX).bind(str(path))}


@pytest.mark.parametrize("kind", CASES)
def test_a_pipe_in_place_of_a_file_hangs_nothing(kind, tmp_path):
    case, sample, work = CASES[kind], tmp_path / "sample", tmp_path / "work"
    case.make(sample)
    said = []
    for file in sorted(path.relative_to(sample) for path in sample.rglob("*") if path.is_file()):
        shutil.rmtree(work, ignore_errors=True)
        shutil.copytree(sample, work)
        (work / file).unlink()
        os.mkfifo(work / file)
        with patience():
            said += [attempt(partial(action, work)) for action in case.actions]
    assert case.recovers or any("is a pipe, a socket or a device" in sentence for sentence in said if sentence)


@pytest.mark.parametrize("special", SPECIAL)
@pytest.mark.parametrize("deed", ["read", "write", "append", "create", "truncate", "map"])
def test_only_files_are_opened(deed, special, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    SPECIAL[special]("one")
    with pytest.raises(DataError, match="one is a pipe, a socket or a device"):
        DEEDS[deed](tmp_path / "one")
