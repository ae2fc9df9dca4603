"""Objectives that cannot be: one sentence each, before anything starts."""

import pytest
from tests.cli.test_commands import refused

APP = "bargain-discovery"


def said(tmp_path, text: str, *more: str) -> str:
    slo = tmp_path / "slo.toml"
    slo.write_text(text)
    message = str(refused("protect", APP, "--slo", str(slo), "--out", str(tmp_path / "out"), *more))
    assert "\n" not in message
    assert not (tmp_path / "out").exists()
    return message


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[sinks.Snik]\nexactly_once = true", "bargain-discovery has no such sink"),
        ('[default]\nwrong = "101%"', "write a share from 0 to 1"),
        ('[default]\nrecovery = "soon"', "write a time"),
        ("[sinks.Sink]\nscore_at_least = 0.9", "--score Sink=module:function"),
        ('[failures]\nmtbf = "7d"', "asks for nothing"),
    ],
)
def test_a_wrong_file_of_objectives(tmp_path, text, says):
    assert says in said(tmp_path, text)


def test_a_score_that_does_not_fit(tmp_path):
    text = "[sinks.Sink]\nscore_at_least = 0.9"
    assert "does not fit sink Sink" in said(tmp_path, text, "--score", "Sink=sum(gian)")


def test_no_objectives_and_no_file(tmp_path):
    assert "write it to a file" in str(refused("protect", APP))
    assert "none.toml" in str(refused("protect", APP, "--slo", str(tmp_path / "none.toml")))


def test_a_score_that_raises_does_so_before_anything_starts(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "raising_scores.py").write_text("def precision(rows):\n    return rows['gain'].to_pylist()[0] / 0\n")
    text = "[sinks.Sink]\nscore_at_least = 0.9"
    message = said(tmp_path, text, "--score", "Sink=raising_scores:precision", "--tuples", "5000")
    assert "precision" in message
    assert "ZeroDivisionError" in message
