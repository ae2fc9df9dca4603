"""Bad input, case by case: one sentence, the documented code, and before anything starts."""

import json
from itertools import pairwise

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from refusals import ended, no_spark, refused, run_settings  # noqa: F401

BARGAINS = "bargain-discovery"
TYPES = {"ticker": pa.string(), "type": pa.string(), "price": pa.float64(), "size": pa.int64(), "bid": pa.float64()}

pytestmark = pytest.mark.usefixtures("no_spark")


@pytest.fixture(scope="module")
def market(tmp_path_factory):
    from riprap.apps.market import generate

    path = tmp_path_factory.mktemp("market") / "market.parquet"
    pq.write_table(generate(2_000, 1), path)
    return path


def changed(market, tmp_path, name, change):
    path = tmp_path / f"{name}.parquet"
    pq.write_table(change(pq.read_table(market)), path)
    return path


def set_column(name, values):
    return lambda table: table.set_column(table.schema.get_field_index(name), name, values(table))


# Durations and numbers ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", BARGAINS, "--for", "1e400s"],
        ["run", BARGAINS, "--kill", "Aggregator@1e400s"],
        ["run", BARGAINS, "--for", "9" * 400 + "d"],
        ["plan", BARGAINS, "--recovery", "1e400s", "--latency", "1s"],
        ["plan", BARGAINS, "--recovery", "2s", "--latency", "1e308d"],
        ["plan", BARGAINS, "--recovery", "2s", "--latency", "1s", "--sink", "Sink=1e999h"],
        ["plan", BARGAINS, "--recovery", "2s", "--latency", "1s", "--time-limit", "1e400s"],
        ["model", BARGAINS, "--recovery", "1e400s"],
        ["assess", BARGAINS, "--outages", "1e400s"],
        ["assess", BARGAINS, "--state", "checkpoint(1e400s)"],
    ],
)
def test_an_overflow_in_any_duration(arguments):
    assert "is too long: a duration is at most 100 years" in refused(*arguments)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", BARGAINS, "--rate", "inf"], "--rate inf: write a finite number"),
        (["run", BARGAINS, "--rate", "nan"], "'--rate'"),
        (["run", BARGAINS, "--rate", "-1"], "'--rate'"),
        (["run", BARGAINS, "--tuples", "99999999999999"], "99,999,999,999,999 tuples are too many to generate"),
        (["run", BARGAINS, "--tuples", "9" * 40], "--tuples: the number has too many digits"),
        (["run-bounded", BARGAINS, "--tuples", "99999999999999"], "too many to generate"),
        (["run", BARGAINS, "--parallelism", "Aggregator=²"], "write a whole number from 1 to 1024"),
        (["run", BARGAINS, "--parallelism", "Aggregator=99999999"], "write a whole number from 1 to 1024"),
        (["run", BARGAINS, "--parallelism", "Aggregator=-1"], "write a whole number from 1 to 1024"),
        (["run", BARGAINS, "--for", "0s"], "longer than 0s"),
        (["run", BARGAINS, "--seed", "-3"], "'--seed'"),
        (["model", BARGAINS, "--hours", "inf"], "--hours inf: write a finite number"),
        (["model", BARGAINS, "--hours", "1e300"], "--hours 1e+300: write a number"),
        (["model", BARGAINS, "--crash-rate", "nan"], "--crash-rate nan: write a finite number"),
        (["model", BARGAINS, "--runs", "1e400"], "--runs"),
        (["model", BARGAINS, "--rates", "1,inf"], "--rates inf: write a number"),
        (["model", BARGAINS, "--confidence", "nan"], "--confidence nan: write a share"),
        (["assess", BARGAINS, "--threshold", "inf"], "--threshold inf: write a share"),
        (["assess", BARGAINS, "--offsets", "1e999"], "offset inf: write a whole number"),
        (["data", "market", "--out", "x.parquet", "--tuples", "99999999999999"], "too many to generate"),
        (["data", "market", "--out", "x.parquet", "--zipf", "nan"], "--zipf nan: write a finite number"),
        (["plan", BARGAINS, "--recovery", "2s", "--latency", "1s", "--k", "99999999"], "'--k'"),
        (["compare", "wordcount", "--repetitions", "99999999"], "'--repetitions'"),
    ],
)
def test_numbers_that_are_none_or_too_large(arguments, words):
    assert words in refused(*arguments)


# Files ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["graph", "run", "run-bounded", "model", "profile"])
def test_plans_that_are_not_utf8(tmp_path, command):
    (tmp_path / "plan.toml").write_bytes(b'app = "\xff\xfe"')
    assert "it is not UTF-8 text" in refused(command, BARGAINS, "--plan", tmp_path / "plan.toml")


def test_a_profile_is_not_written_as_if_it_were_json(tmp_path):
    assert f"name it {tmp_path / 'p.toml'}" in refused("profile", BARGAINS, "--out", tmp_path / "p.json")


def test_other_files_that_are_not_utf8(tmp_path):
    for name in ("t.json", "p.toml", "p.json"):
        (tmp_path / name).write_bytes(b"\xff\xfe{}")
    assert "UTF-8" in refused("plan", tmp_path / "t.json", "--recovery", "1s")
    for name in ("p.toml", "p.json"):
        assert "UTF-8" in refused("plan", BARGAINS, "--recovery", "1s", "--profile", tmp_path / name)
    assert "UTF-8" in refused("model", BARGAINS, "--profile", tmp_path / "p.toml")
    (tmp_path / "assessment.json").write_bytes(b"\xff")
    assert "UTF-8" in refused("plan", BARGAINS, "--from-assessment", tmp_path, "--budget", "cpu=1")
    (tmp_path / "run.json").write_bytes(b"\xff")
    assert "UTF-8" in refused("run", "--resume", tmp_path)


def test_deep_nesting(tmp_path):
    deep = "[" * 200_000
    (tmp_path / "plan.toml").write_text("app = " + deep)
    assert "nested too deeply" in refused("graph", BARGAINS, "--plan", tmp_path / "plan.toml")
    (tmp_path / "t.json").write_text(deep)
    assert "nested too deeply" in refused("plan", tmp_path / "t.json", "--recovery", "1s")
    (tmp_path / "run.json").write_text('{"format": 1, "app": ' + deep)
    assert "nested too deeply" in refused("run", "--resume", tmp_path)


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ("checkpoint = [1, 2]", "write an interval"),
        ("checkpoint = 5", "write an interval"),
        ("checkpoint = {}", "write an interval"),
        ('checkpoint = "1e400s"', "write an interval"),
        ("checkpoint = inf", "is not TOML"),
        ("backup = [true]", "write true or false"),
        ("backup = nan", "is not TOML"),
        ('persist = ["x"]', "write a list of output ports"),
        ("persist = [[0]]", "write a list of output ports"),
        ("persist = [9]", "persists output 9"),
        ("ha_group = []", "write the name of a group"),
        ("ha_group = {a = 1}", "write the name of a group"),
        ("ha_group = 1.5", "write the name of a group"),
    ],
)
def test_plan_values_of_any_type(tmp_path, entry, words):
    (tmp_path / "plan.toml").write_text(f'app = "{BARGAINS}"\n[operators.Aggregator]\n{entry}\n')
    assert words in refused("graph", BARGAINS, "--plan", tmp_path / "plan.toml")


SETTINGS = run_settings(None, {}, {"Source": "m.parquet"}, None, None)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ([], "is not of a run"),
        ("text", "is not of a run"),
        ({"format": 7}, "is not of a run"),
        ({"app": 5}, "app is 5"),
        ({"app": None}, "app is None"),
        ({"app": "pydoc:cli"}, "app is 'pydoc:cli'"),
        ({"graph": 5}, "graph is 5"),
        ({"graph": "another"}, "is not the app that the run in"),
        ({"app": ""}, "code is never loaded from a directory: give the app again"),
        ({"plan": ["x"]}, "plan is ['x']"),
        ({"plan": "app = ["}, "is not TOML"),
        ({"fuse": "some"}, "fuse is 'some'"),
        ({"fuse": []}, "fuse is []"),
        ({"parallelism": [1]}, "parallelism is [1]"),
        ({"parallelism": {"Aggregator": "2"}}, "parallelism is"),
        ({"parallelism": {"Aggregator": 10**9}}, "at most 1024 are possible"),
        ({"parallelism": {"Nobody": 2}}, "Nobody"),
        ({"inputs": {"Source": 5}}, "inputs is"),
        ({"inputs": {}}, "no input for source Source"),
        ({"inputs": {"Source": "gone.parquet"}}, "gone.parquet, does not exist"),
        ({"rate": "fast"}, "rate is 'fast'"),
        ({"rate": -1}, "rate is -1"),
        ({"seconds": True}, "seconds is True"),
        ({"seconds": []}, "seconds is []"),
        ({"shards": {"Aggregator": 0}}, "shards is"),
        (
            {"shards": {"Aggregator": 3}},
            "this run had Aggregator in 3 shards and would have it in 1: each shard recovers from its own log",
        ),
    ],
)
def test_a_run_json_of_the_wrong_shape(tmp_path, change, words):
    content = SETTINGS | change if isinstance(change, dict) else change
    (tmp_path / "run.json").write_text(json.dumps(content))
    assert words in refused("run", "--resume", tmp_path)


def test_a_run_json_without_an_entry(tmp_path):
    for name in SETTINGS:
        (tmp_path / "run.json").write_text(json.dumps({key: v for key, v in SETTINGS.items() if key != name}))
        assert name in refused("run", "--resume", tmp_path)


def test_names_with_markup(tmp_path):
    tasks = [{"name": name, "T": 1} for name in ("[/b]", "[bold]x", ":smile:", "[link=x]")]
    edges = [[a["name"], b["name"]] for a, b in pairwise(tasks)]
    (tmp_path / "t.json").write_text(json.dumps({"name": "[/]", "tasks": tasks, "edges": edges}))
    assert ended("plan", tmp_path / "t.json", "--recovery", "2s")[0] == 0
    assert "[/x]" in refused("plan", tmp_path / "t.json", "--recovery", "2s", "--must", "[/x]")
    assert "[/b]" in refused("graph", "[/b]")


# Inputs ---------------------------------------------------------------------------------------------------------------

COMMANDS = ["run", "run-bounded", "assess", "profile", "model"]


@pytest.mark.parametrize("command", COMMANDS)
def test_inputs_are_looked_at_before_anything_starts(market, tmp_path, command):
    def said(name, change):
        return refused(command, BARGAINS, "--input", changed(market, tmp_path, name, change))

    assert "has no column price" in said("missing", lambda table: table.drop_columns(["price"]))
    assert "column price is string" in said("type", set_column("price", lambda t: t["price"].cast(pa.string())))
    assert "has no rows" in said("empty", lambda table: table.slice(0, 0))
    order = list(range(2_000))
    order[700], order[900] = 900, 700
    assert "_ts decreases at row 7" in said("unsorted", lambda table: table.take(order))
    seconds = [float(n) for n in range(2_000)]
    assert "its time column _ts is double" in said("float", set_column("_ts", lambda t: pa.chunked_array([seconds])))
    seconds[5] = float("nan")
    assert "its time column _ts is double" in said("nan", set_column("_ts", lambda t: pa.chunked_array([seconds])))
    text = pa.chunked_array([["now"] * 2_000])
    assert "its time column _ts is string" in said("text", set_column("_ts", lambda t: text))
    numbers = pa.chunked_array([seconds])
    late = pa.chunked_array([[*range(1_999), 2**62]])
    assert "is not in the years 1 to 9999" in said("late", set_column("_ts", lambda t: late))
    assert "_seq has to be whole numbers" in said("seq", set_column("_seq", lambda t: numbers))


def test_a_large_input_is_sampled(market, tmp_path, monkeypatch):
    from riprap.engine import input_check

    monkeypatch.setattr(input_check, "_FEW", 100)
    path = changed(market, tmp_path, "halves", lambda t: pa.concat_tables([t.slice(1000), t.slice(0, 1000)]))
    assert "_ts decreases" in refused("run", BARGAINS, "--input", path)


def test_a_resumed_run_without_its_input(tmp_path):
    (tmp_path / "run.json").write_text(json.dumps(SETTINGS | {"inputs": {"Source": str(tmp_path / "gone.parquet")}}))
    assert "gone.parquet, does not exist" in refused("run", "--resume", tmp_path)


# Masters --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "master", ["", "nonsense", "local[0]", "local[²]", "local[99999999]", "spark://", "local[2", "1"]
)
@pytest.mark.parametrize("command", ["run", "prove", "run-bounded", "assess"])
def test_what_is_no_address_of_a_master(command, master):
    assert "spark://HOST:PORT" in refused(command, BARGAINS, "--master", master)


# Apps -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["sys:exit", "os:abort", "builtins:input", "builtins:print", "time:sleep", "os:path", "json:dumps", "sys:argv",
     "collections:OrderedDict", "math:pi", "re:compile", "this_is:not", ":", "a:", ":b", "..:x", ".x:y", "a b:c",
     "quitting:app", "broken:app", "raising:app", "needing:app", "leaving:app", "wrong:app",
     "riprap.graph.builder:App"],
)  # fmt: skip
def test_things_that_are_no_app(tmp_path, monkeypatch, name):
    modules = {
        "quitting": "raise SystemExit(0)",
        "broken": "def (",
        "raising": "def app(): return 1 / 0",
        "needing": "def app(x): return x",
        "leaving": "import sys\ndef app(): sys.exit(0)",
        "wrong": "app = [1, 2]",
    }
    for module, text in modules.items():
        (tmp_path / f"{module}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    assert refused("graph", name)


# Places ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", BARGAINS, "--out"],
        ["run-bounded", BARGAINS, "--out"],
        ["assess", BARGAINS, "--out"],
        ["model", BARGAINS, "--out"],
        ["reproduce", "yield", "--out"],
        ["run", "--resume"],
        ["stream", "show"],
        ["stream", "verify"],
        ["stream", "tail"],
        ["stream", "trim"],
        ["stream", "ls"],
    ],
)
def test_a_file_where_a_directory_is_expected(tmp_path, arguments):
    (tmp_path / "file").touch()
    assert "file" in refused(*arguments, tmp_path / "file")
    assert "file" in refused(*arguments, tmp_path / "file" / "below")


@pytest.mark.parametrize(
    "arguments",
    [
        ["graph", BARGAINS, "--svg"],
        ["profile", BARGAINS, "--tuples", "1000", "--out"],
        ["plan", BARGAINS, "--recovery", "2s", "--latency", "1s", "--out"],
        ["plan", BARGAINS, "--recovery", "2s", "--latency", "1s", "--report"],
        ["data", "market", "--tuples", "1000", "--format", "parquet", "--out"],
    ],
)
def test_a_directory_where_a_file_is_expected(tmp_path, arguments):
    assert str(tmp_path) in refused(*arguments, tmp_path)
    (tmp_path / "file").touch()
    assert "file" in refused(*arguments, tmp_path / "file" / "below")


def test_arguments_that_are_no_such():
    assert "No such option: --nonsense" in refused("run", BARGAINS, "--nonsense")
    assert "see riprap run --help" in refused("run", BARGAINS, "--nonsense")
    assert "No such command 'rnu'" in refused("rnu")
    assert "Missing argument" in refused("graph")
    assert "Invalid value for '--tuples'" in refused("run", BARGAINS, "--tuples", "many")
    assert "--plan: the text has bytes that are not UTF-8" in refused("graph", BARGAINS, "--plan", "\udcff")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--reps", "0"], "--reps 0: expected a number from 1 to"),
        (["--reps", "999999999999"], "from 1 to 100000"),
        (["--golden", "0"], "--golden 0"),
        (["--section", "0"], "--section 0"),
        (["--section", "9" * 18], "--section 9999"),
        (["--percentile", "101"], "--percentile 101"),
        (["--offsets", "-1"], "is before the stream"),
        (["--offsets", "1000000"], "is beyond the stream"),
        (["--offsets", ""], "at least one offset"),
        (["--outages", "0s"], "longer than 0s"),
        (["--jitter", "-1"], "the bound of the jitter"),
        (["--jitter", "9" * 18], "the bound of the jitter"),
        (["--failover", "1e400s"], "is too long"),
        (["--fault", "duplicate", "--state", "lost"], "does not change state"),
    ],
)
def test_assessments_that_cannot_be(market, arguments, words):
    assert words in refused("assess", BARGAINS, "--input", market, *arguments)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--fault", "some"), ("--offsets", "-1"), ("--osf", "sum("), ("--outages", "long"), ("--plan", "none.toml"),
        ("--rates", "low"), ("--state", "half"), ("--targets", "Nope"), ("--threshold", "much"),
    ],
)  # fmt: skip
def test_an_assessment_that_cannot_be_makes_no_data(monkeypatch, option, value):
    def make(*given):
        raise AssertionError("data was made")

    monkeypatch.setattr("riprap.apps.samples.sample_inputs", make)
    assert refused("assess", BARGAINS, option, value)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--kill", "Nope@1s"],
        ["--kill", "Aggregator@@1s"],
        ["--fuse", "some"],
        ["--parallelism", "Nope=2"],
        ["--parallelism", "Aggregator=2,Aggregator=3"],
        ["--out", "full"],
    ],
)
def test_a_run_that_cannot_be_makes_no_data(tmp_path, monkeypatch, arguments):
    def make(*given):
        raise AssertionError("data was made")

    monkeypatch.setattr("riprap.cli.run.input_paths", make)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "something").touch()
    refused("run", BARGAINS, *arguments)


def test_an_option_with_one_value_is_given_once():
    assert "--rate is given more than once" in refused("run", BARGAINS, "--rate", "1", "--rate", "2")
    asked = ["plan", BARGAINS, "--latency", "1s", "--recovery", "2s"]
    assert "--recovery is given more than once" in refused(*asked, "--recovery=3s")
    assert "--parallelism is given more than once" in refused(
        "run", BARGAINS, "--parallelism", "Aggregator=2", "--parallelism", "VWAP=2"
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ["corruption", "--rate", "1e308"],
        ["failover", "--rate", "1e308"],
        ["failover", "--tuples", "999999999999"],
        ["joins", "--seconds", "1e308"],
        ["streams", "--seconds", "1e308"],
        ["san", "--runs", "999999999999"],
        ["yield", "--crashes", "999999999999"],
        ["yield", "--real", "--shards", "99999999"],
    ],
)
def test_experiments_that_would_never_end(tmp_path, arguments):
    before = sorted(tmp_path.iterdir())
    assert arguments[-2].strip("-") in refused("reproduce", *arguments)
    assert sorted(tmp_path.iterdir()) == before


def test_spark_is_not_said_to_start_for_input_that_cannot_be(market, tmp_path):
    path = changed(market, tmp_path, "short", lambda table: table.drop_columns(["price"]))
    _, said = ended("run", BARGAINS, "--input", path, "--out", tmp_path / "out")
    assert "has no column price" in said
    assert "starting Spark" not in said


@pytest.mark.parametrize("count", ["0", "-1", "99999999999"])
def test_partitions_that_cannot_be(market, count):
    assert "--partitions" in refused("run-bounded", BARGAINS, "--input", market, "--partitions", count)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", ["price", "_ts", "_seq"])
def test_a_column_that_is_there_twice(market, tmp_path, command, name):
    table = pq.read_table(market)
    if name not in table.schema.names:
        table = table.append_column(name, pa.array(range(table.num_rows)))
    table = table.append_column(name, table[name])
    with pa.OSFile(str(tmp_path / "twice.arrow"), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    assert f"has several columns {name}" in refused(command, BARGAINS, "--input", tmp_path / "twice.arrow")


@pytest.mark.parametrize("command", ["graph", "assess", "run", "prove"])
@pytest.mark.parametrize("name", ["nosuch.py", "nosuch.py:query", "nosuch.yml"])
def test_a_job_that_does_not_exist_is_refused_before_spark_starts(command, name):
    code, err = ended(command, name)
    assert code == 2, err
    assert f"{name.partition(':')[0]} does not exist; name a PySpark script" in err
