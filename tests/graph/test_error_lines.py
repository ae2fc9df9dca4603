"""An error in an app names the line of the user's file that caused it, whichever method of the builder found it.

The app is loaded as the command line does; the user's file is this one.
"""

import re
import sys
from pathlib import Path

import pytest

from riprap.apps.catalogue import load_app
from riprap.base.errors import RiprapError
from riprap.graph.aggregates import apply
from riprap.graph.annotations import backup, checkpoint, continuous, full_replication, ha_group, persist, retain
from riprap.graph.builder import App, Stream
from riprap.graph.windows import count, session_window, time


def a_stream(name="S"):
    return App("app").source(name, "k string, x double")


class NoOperator:
    def __init__(self, size):
        self.size = size


# Each has something wrong: first what we look for, then a value of a type that nobody foresaw.
WRONG = {
    "App": [lambda: App("app", protect=checkpoint(every="1s")), lambda: App("app", protect=7)],
    "App.source": [lambda: App("app").source("S", "x dubble"), lambda: App("app").source("S", 7)],
    "App.feedback": [lambda: App("app").feedback("L", "x double", delay="0s"), lambda: App("app").feedback("L", 7)],
    "App.table": [
        lambda: App("app").table("no-such-file.parquet", name="T"),
        lambda: App("app").table(7, name="T"),
    ],
    "App.build": [lambda: App("app").build(), lambda: App("app").build(7)],
    "Stream.filter": [lambda: a_stream().filter("y > 1", name="F"), lambda: a_stream().filter(7, name="F")],
    "Stream.where": [lambda: a_stream().where("x >", name="F"), lambda: a_stream().where(None, name="F")],
    "Stream.select": [lambda: a_stream().select("y", name="P"), lambda: a_stream().select(7, name="P")],
    "Stream.map": [lambda: a_stream().map("y AS z", name="M"), lambda: a_stream().map(7, name="M")],
    "Stream.rename": [lambda: a_stream().rename({"y": "z"}, name="R"), lambda: a_stream().rename(7, name="R")],
    "Stream.drop": [lambda: a_stream().drop("y", name="D"), lambda: a_stream().drop([], name="D")],
    "Stream.scan": [lambda: a_stream().scan(state={"n": "0"}, name="C"), lambda: a_stream().scan(state=7, name="C")],
    "Stream.delay": [lambda: a_stream().delay("soon", name="L"), lambda: a_stream().delay(None, name="L")],
    "Stream.aggregate": [
        lambda: a_stream().aggregate("sum(y) AS s", window=count(2), name="A"),
        lambda: a_stream().aggregate("sum(x) AS s", window=7, name="A"),
    ],
    "Stream.join": [
        lambda: a_stream().join(a_stream(), on="k", left_window=count(1), right_window=count(1), name="J"),
        lambda: a_stream().join("other", on="k", left_window=count(1), right_window=count(1), name="J"),
    ],
    "Stream.join_table": [
        lambda: a_stream().join_table("users.parquet", on="k", name="J"),
        lambda: a_stream().join_table(7, name="J"),
    ],
    "Stream.drop_duplicates": [
        lambda: a_stream().drop_duplicates("y", name="D"),
        lambda: a_stream().drop_duplicates("x", within=7, name="D"),
    ],
    "Stream.window_time": [lambda: a_stream().window_time(name="W"), lambda: a_stream().window_time(7)],
    "Stream.map_python": [
        lambda: a_stream().map_python("z", len, "y", returns="long", name="F"),
        lambda: a_stream().map_python("z", len, "k", returns=7, name="F"),
    ],
    "Stream.map_batches": [
        lambda: a_stream().map_batches(len, "x dubble", name="F"),
        lambda: a_stream().map_batches(len, 7, name="F"),
    ],
    "Stream.stateful": [
        lambda: a_stream().stateful(len, "x long", by="nope", name="F"),
        lambda: a_stream().stateful(7, "x long", by="k", name="F"),
    ],
    "Stream.sort": [lambda: a_stream().sort("y", window=count(2), name="O"), lambda: a_stream().sort(7, name="O")],
    "Stream.barrier": [lambda: a_stream().barrier(a_stream(), name="B"), lambda: a_stream().barrier("x", name="B")],
    "Stream.punctuate": [lambda: a_stream().punctuate(name="P"), lambda: a_stream().punctuate(7, name="P")],
    "Stream.split": [lambda: a_stream().split("y > 1", name="X"), lambda: a_stream().split(7, name="X")],
    "Stream.union": [lambda: a_stream().union(a_stream(), name="U"), lambda: a_stream().union("other", name="U")],
    "Stream.apply": [
        lambda: a_stream().apply(NoOperator, name="N"),
        lambda: a_stream().apply(NoOperator, name="N", size=3),
    ],
    "Stream.late": [lambda: a_stream().late("never"), lambda: a_stream().late(None)],
    "Stream.feed": [lambda: a_stream().feed("L"), lambda: a_stream().feed(7)],
    "Stream.sink": [lambda: a_stream("Out").sink("Out"), lambda: a_stream().sink(7)],
    "Stream.broadcast": [lambda: a_stream().broadcast(7)],
    "count": [lambda: count(0), lambda: count("two")],
    "time": [lambda: time("0s"), lambda: time(None)],
    "session_window": [lambda: session_window("0s"), lambda: session_window(None)],
    "checkpoint": [lambda: checkpoint(every="0s"), lambda: checkpoint(every=None)],
    "ha_group": [lambda: ha_group("g", 1), lambda: ha_group("g", "two")],
    "full_replication": [lambda: full_replication(0), lambda: full_replication("two")],
    "persist": [lambda: persist(-1), lambda: persist("x")],
    "continuous": [lambda: continuous("never"), lambda: continuous(every=7)],
    "retain": [lambda: retain("x"), lambda: retain(None)],
    "backup": [lambda: backup(7)],
    "apply": [lambda: apply(len, "x", name="n", type="text"), lambda: apply(7)],
}
CASES = [(name, number) for name, wrong in WRONG.items() for number in range(len(wrong))]


def test_every_public_method_is_here():
    public = {
        f"{kind.__name__}.{name}"
        for kind in (App, Stream)
        for name in dir(kind)
        if callable(getattr(kind, name)) and not name.startswith("_")
    }
    assert public <= set(WRONG)


@pytest.mark.parametrize(("name", "number"), CASES)
def test_the_line_is_the_users(name, number, monkeypatch):
    build = WRONG[name][number]
    monkeypatch.setattr(sys.modules[__name__], "app_with_an_error", build, raising=False)
    with pytest.raises(RiprapError) as refused:
        load_app(f"{__name__}:app_with_an_error")
    [(file, line)] = re.findall(r"\((\S+), line (\d+)\)$", str(refused.value))
    own = {code[2] for code in build.__code__.co_lines()}
    assert file == __file__
    assert int(line) in own or name == "Stream.apply"  # the line of the user's operator where that refuses


def module(tmp_path, monkeypatch, name, text):
    Path(tmp_path / f"{name}.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path / f"{name}.py"


HEAD = "from riprap import App\n"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (HEAD + 'app = App("a")\napp.source("S", "x dubble")\n', 3),  # while it is imported
        (HEAD + 'def build():\n    a = App("a")\n    a.source("S", "x dubble")\n', 4),
        (HEAD + "import json\ndef build():\n    json.loads('{')\n", 4),  # not the library's line
        (HEAD + "import numpy as np\ndef build():\n    np.zeros((2, 2)).reshape(3)\n", 4),
        (HEAD + "def build():\n    raise SystemExit\n", 3),
        (HEAD + "def build(:\n", 2),
    ],
)
def test_a_module_of_the_users(text, line, tmp_path, monkeypatch):
    name = f"app_with_line_{abs(hash(text))}"
    file = module(tmp_path, monkeypatch, name, text)
    with pytest.raises(RiprapError, match=rf"\(({re.escape(str(file))}|{name}.py), line {line}\)$"):
        load_app(f"{name}:{'app' if 'app =' in text else 'build'}")


def test_an_app_that_nobody_built(tmp_path, monkeypatch):
    """Its graph is checked as a whole when it is loaded, at no line of the user's; the file is named."""
    file = module(tmp_path, monkeypatch, "app_unbuilt", HEAD + 'app = App("a")\n')
    with pytest.raises(RiprapError, match=rf"has no source.*\({re.escape(str(file))}\)$"):
        load_app("app_unbuilt:app")
