"""Names, values, columns, files and errors with what a terminal obeys in them: none of it gets there.

ESC begins a command to a terminal, and so does a single character of the second block (C1); CR and BS write over what
was shown; overrides of direction make text look like another; a lone surrogate cannot be encoded at all.
"""

import io
import json
import logging
import subprocess
import sys

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.live import Live
from rich.table import Table

from riprap.base.errors import as_sentence, harmless
from riprap.cli import console, main
from riprap.streams import PersistentStream

OBEYED = "\x1b]0;owned\x07\x1b[2J\x9b31m\x9d\r\b\x7f\u202e\u2066\u200f\u061c\ud800"
EVIL = f"a{OBEYED}b"


def commands_in(text: str) -> list[str]:
    """Whatever in it is neither a letter nor the end of a line."""
    return [letter for letter in text if not letter.isprintable() and letter not in "\n\t\u00a0\u202f"]


@given(st.text())
def test_harmless_text_has_nothing_that_is_obeyed_and_keeps_the_rest(text):
    found = harmless(text)
    assert not any(ord(letter) < 32 and letter not in "\n\t" for letter in found)
    assert found.encode("utf-8").decode() == found
    if text.isprintable():
        assert found == text
    assert harmless(found) == found


@pytest.mark.parametrize("terminal", [True, False])
def test_a_console_obeys_itself_alone(terminal, monkeypatch):
    out = console._SafeConsole(file=io.StringIO(), force_terminal=terminal, width=400, highlight=False, markup=False)
    monkeypatch.setattr(console, "OUT", out)
    out.print(EVIL, style="red")
    table = Table(EVIL, title=EVIL)
    table.add_row(EVIL)
    assert console.print_table(table)
    with Live(table, console=out, refresh_per_second=1):
        pass
    told = out.file.getvalue()
    assert "owned" in told
    assert "\x1b]" not in told
    assert "[2J" not in told.replace("\\x1b[2J", "")
    assert not {"\x9b", "\x9d", "\x07", "\x7f", "\u202e", "\u2066", "\u200f", "\u061c", "\ud800", "\b"} & set(told)
    assert ("\x1b[31m" in told) == terminal, "its own colours stay"
    if not terminal:
        assert commands_in(told) == []


def test_json_is_harmless_and_says_the_same(capsys):
    value = {EVIL.replace("\ud800", ""): [EVIL.replace("\ud800", ""), "é…\n"]}
    console.print_json(value)
    told = capsys.readouterr().out
    assert commands_in(told) == []
    assert "é…" in told
    assert json.loads(told) == value


def test_what_is_logged_is_harmless():
    before = logging.lastResort.formatter
    try:
        main._escape_log_messages()
        record = logging.LogRecord("x", logging.WARNING, "x", 1, "refused: %s", (EVIL,), None)
        assert logging.lastResort.format(record).startswith("refused: a")
        assert commands_in(logging.lastResort.format(record)) == []
    finally:
        logging.lastResort.setFormatter(before)


def test_sentences_are_harmless():
    assert commands_in(as_sentence(f"column {EVIL} is unknown")) == []


def test_rows_of_a_stream_and_names_of_files(tmp_path):
    """The whole way, of a command that shows values, names of columns and a name of a file."""
    place = tmp_path / "a\x1b[2Jb"
    text = "x\x1b[2J\x9b\u202e\ny"
    schema = pa.schema([("_ts", pa.timestamp("us", "UTC")), ("_seq", pa.int64()), ("c\x1b[1m", pa.string())])
    with PersistentStream.create(place, schema).writer(producer="p", epoch=1) as writer:
        writer.append(pa.record_batch([pa.array([1], schema.types[0]), pa.array([1]), pa.array([text])], schema=schema))
        writer.flush()
    for arguments in (["tail", str(place)], ["show", str(place)], ["verify", str(place)], ["show", f"{place}\x1b[3J"]):
        done = subprocess.run(
            [sys.executable, "-m", "riprap.cli.main", "stream", *arguments],
            capture_output=True, text=True, encoding="utf-8", errors="strict", check=False,
        )  # fmt: skip
        assert commands_in(done.stdout + done.stderr) == [], arguments
        assert "Traceback" not in done.stderr, done.stderr
