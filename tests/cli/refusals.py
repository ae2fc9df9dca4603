"""Runs `riprap` in this process, up to where Spark would start, and says how it ended as its user would see it."""

import contextlib
import io
import sys
from subprocess import CompletedProcess

import pytest

from riprap.api.run_settings import RunSettings
from riprap.apps.catalogue import load_app
from riprap.base.errors import MissingPrerequisite
from riprap.cli.main import main
from riprap.spark import launching, session

CODES = {0, 1, 2, 3, 130}


@pytest.fixture
def no_spark(monkeypatch, tmp_path):
    """Commands that get as far as starting Spark end there, with code 3."""

    def refuse(master, conf):
        raise MissingPrerequisite("this is where Spark would start")

    monkeypatch.setattr(session, "_build", refuse)
    monkeypatch.setattr(launching, "launch", lambda master, *, archive: None)
    monkeypatch.setattr(session.SparkSession, "getActiveSession", lambda: None)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("PYTHONSAFEPATH", "1")  # which every command sets for what it starts
    monkeypatch.chdir(tmp_path)


def run_settings(plan, parallelism, inputs, rate, seconds) -> dict:
    """What `run.json` has, of a run of bargain-discovery."""
    name = "bargain-discovery"
    return RunSettings(
        app=name, graph=load_app(name).fingerprint, plan=plan, parallelism=parallelism, inputs=inputs, rate=rate,
        seconds=seconds,
    ).to_json()  # fmt: skip


def ran(*arguments: object) -> CompletedProcess:
    """`riprap` in this process: exit code and output. What is no `SystemExit` is raised: it would be a traceback."""
    before, sys.argv = sys.argv, ["riprap", *map(str, arguments)]
    out, err = io.StringIO(), io.StringIO()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            main()
    except SystemExit as end:
        return CompletedProcess(sys.argv, end.code or 0, out.getvalue(), err.getvalue())
    finally:
        sys.argv = before
    raise AssertionError("main() always exits")


def ended(*arguments: object) -> tuple[int, str]:
    """Exit code, and what was said on stderr."""
    done = ran(*arguments)
    return done.returncode, done.stderr


def refused(*arguments: object, code: int = 2) -> str:
    """The sentence of a refusal; checks that it is one, with its code."""
    found, err = ended(*arguments)
    said = [line for line in err.splitlines() if line.startswith("riprap: ")]
    assert found == code, (arguments, found, err)
    assert len(said) == 1, (arguments, err)
    assert err.splitlines()[-1] == said[0], (arguments, err)
    check_sentence(said[0])
    return said[0].removeprefix("riprap: ")


def check_sentence(text: str) -> None:
    """What holds for every message: one line that can be read."""
    assert "\n" not in text
    assert "Traceback" not in text
    assert text.isprintable()
    assert 10 < len(text) < 1_000, text
