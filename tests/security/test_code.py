"""No directory names code, and no file in a working directory, or beside an app, takes the place of a library."""

import json
import multiprocessing
import subprocess
import sys
from importlib.machinery import PathFinder
from importlib.metadata import packages_distributions
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from riprap.api.impact import read_request
from riprap.api.request import AssessRequest
from riprap.api.run import resume
from riprap.api.run_settings import RunSettings, read_settings, resumed_app
from riprap.apps.catalogue import load_app, load_function
from riprap.base.errors import RiprapError, UsageError
from riprap.base.processes import safe_path

PATIENCE = 600  # seconds; only how long a test that fails takes
RIPRAP = Path(sys.executable).with_name("riprap")
APP = """\
import pyarrow as pa
from helper import doubled
from riprap import App
from riprap.operators.user import Rows, UserOperator

class Doubled(UserOperator):
    stateful = False
    one_per_trigger = True
    def output_schemas(self, inputs): return [pa.schema([("x", pa.int64())])]
    def process(self, port, batch):
        return [Rows(pa.record_batch([doubled(batch.column("x"))], names=["x"]))]

app = App("own")
(twice,) = app.source("In", "x long").apply(Doubled, name="Doubled")
twice.sink("Out")
"""
HELPER = "import pyarrow.compute as pc\ndef doubled(column): return pc.multiply(column, 2)\n"


def plant(directory: Path, *, but: tuple[str, ...] = ()) -> Path:
    """A file for every library that is installed here, each of which notes that it ran; returns where."""
    ran = directory.parent / "ran"
    for name in {*sys.stdlib_module_names, *packages_distributions()} - {"riprap", *but}:
        found = PathFinder.find_spec(name) if name.isidentifier() else None
        if found is not None and found.origin is not None:  # a namespace yields to any module
            (directory / f"{name}.py").write_text(f"open({str(ran)!r}, 'a').write({name + ' '!r})\n")
    return ran


@pytest.fixture
def own(tmp_path):
    """A directory with an app, a module that it needs, and what an enemy put beside them."""
    directory = tmp_path / "own"
    directory.mkdir()
    ran = plant(directory)
    (directory / "clicks.py").write_text(APP)
    (directory / "helper.py").write_text(HELPER)
    count = 4_000
    table = pa.table({"_ts": pa.array(range(count), pa.timestamp("us")), "_seq": range(count), "x": range(count)})
    pq.write_table(table, directory / "in.parquet")
    yield directory
    assert not ran.exists(), f"planted modules ran: {ran.read_text()}"


def ran_in(directory: Path, *arguments: object) -> subprocess.CompletedProcess:
    return subprocess.run(
        [RIPRAP, *map(str, arguments)], cwd=directory, capture_output=True, text=True, timeout=PATIENCE, check=False
    )


def test_planted_modules_never_run_and_those_of_an_app_are_found_everywhere(own):
    """In the driver, the nursery, Spark's daemon and the workers; in a run, a resumed one and a bounded one."""
    first = ran_in(
        own, "run", "clicks:app", "--input", "in.parquet", "--out", "run", "--rate", 1_000, "--for", "1s",
        "--fuse", "none", "--protocol", "coordinated", "--interval", "200ms",
    )  # fmt: skip
    assert first.returncode == 0, first.stderr

    settings = read_settings(own / "run")
    with pytest.raises(UsageError, match="code is never loaded from a directory"):
        resumed_app(own / "run", settings, None)
    with pytest.raises(UsageError, match="is not the app that the run in"):
        resumed_app(own / "run", settings, "wordcount")

    again = ran_in(own, "run", "--resume", "run", "--app", "clicks:app", "--for", "60s", "--json")
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["sinks"]["Out"]["tuples"] == 4_000

    bounded = ran_in(own, "run-bounded", "clicks:app", "--input", "in.parquet", "--out", "bounded")
    assert bounded.returncode == 0, bounded.stderr
    assert sum(pq.read_table(own / "bounded" / "Out").column("x").to_pylist()) == 3_999 * 4_000


def test_a_process_of_its_own_has_no_working_directory_on_its_path(tmp_path, monkeypatch):
    """As the driver of a proof is."""
    directory = tmp_path / "here"
    directory.mkdir()
    ran = plant(directory)
    monkeypatch.chdir(directory)
    child = multiprocessing.get_context("spawn").Process(target=print)
    with safe_path():
        child.start()
    child.join(PATIENCE)
    assert child.exitcode == 0
    assert not ran.exists(), ran.read_text()


NUMBA = """
import sys
import riprap.cli.commands as commands
from riprap.cli.main import main

def command(**_):
    import subprocess
    show = "import numba; print([numba.config.CACHE_DIR])"
    exec(show)
    subprocess.run([sys.executable, "-c", show], check=True)

commands.app = command
main()
"""


def test_numba_loads_no_machine_code_that_a_working_directory_names(tmp_path, monkeypatch):
    """Its configuration file may name the directory; Numba needs PyYAML to read it, as many environments have it."""
    (tmp_path / "library").mkdir()
    (tmp_path / "library" / "yaml.py").write_text("def safe_load(file): return {'cache_dir': file.read()}")
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / ".numba_config.yaml").write_text("planted")
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "library"))
    done = subprocess.run(
        [sys.executable, "-P", "-c", NUMBA], cwd=tmp_path / "here", capture_output=True, text=True, check=False
    )
    assert sorted(done.stdout.split()) == ["['']", "['']"], done.stderr


# Files that name code -------------------------------------------------------------------------------------------------

CODE = ["pydoc:cli", "cProfile:main", "planted:app", "riprap.apps.bargain_discovery:build", "clicks:app"]


@pytest.fixture
def planted(tmp_path, monkeypatch):
    (tmp_path / "planted.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\ndef app(): pass\nscore = app\n")
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("name", CODE)
def test_a_run_directory_names_no_code(planted, name):
    graph = load_app("bargain-discovery").fingerprint
    settings = RunSettings(app=name, graph=graph, inputs={"Source": "m.parquet"}).to_json()
    (planted / "run.json").write_text(json.dumps(settings))
    with pytest.raises(RiprapError, match="is damaged: app is"):
        resume(planted)
    (planted / "run.json").write_text(json.dumps({**settings, "app": ""}))
    with pytest.raises(UsageError, match="code is never loaded from a directory"):
        resumed_app(planted, read_settings(planted), None)


@pytest.mark.parametrize("osf", ["planted:score", ["Sink=planted:score"], {"Sink": "planted:score"}])
def test_an_assessment_names_no_code(planted, osf):
    kept = {"inputs": {"Source": "m.parquet"}, "osf": osf}
    (planted / "request.json").write_text(json.dumps(kept))
    graph = load_app("bargain-discovery")
    with pytest.raises(UsageError, match=r"code is never loaded from a directory: give it again with `osf="):
        read_request(planted, AssessRequest, graph, planted / "plan.toml")
    assert read_request(planted, AssessRequest, graph, planted / "plan.toml", ["sum(gain)"]).osf == ["sum(gain)"]


def test_a_function_is_of_the_module_that_was_named(tmp_path, monkeypatch):
    (tmp_path / "lending.py").write_text("from pydoc import cli\nfrom shutil import rmtree\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    with pytest.raises(UsageError, match="is a function of pydoc, not of lending"):
        load_app("lending:cli")
    with pytest.raises(UsageError, match="is a function of shutil, not of lending"):
        load_function("lending:rmtree")
    assert sys.path[-1] == str(tmp_path)


def test_the_directory_of_a_bundled_app_or_a_library_is_not_added(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plant(tmp_path)
    load_app("wordcount")
    with pytest.raises(UsageError):
        load_app("json:dumps")
    assert str(tmp_path) not in sys.path
