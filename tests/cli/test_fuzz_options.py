"""Every option of every command with strange values, read from the definitions of the commands themselves.

A command is cut off where its work would begin, so what is tried is what it says before. `make test` takes the same few
hundred cases each time; `make soak` takes every value for every option.
"""

import random

import pytest
import typer
from refusals import CODES, check_sentence, ended, no_spark  # noqa: F401

from riprap.base.errors import MissingPrerequisite
from riprap.cli.commands import app

BARGAINS = "bargain-discovery"
SHARE = 400  # of all cases: in every run of the tests

# A command that has what it needs; every option is then given to it beside, or in place of, these.
GIVEN = {
    "graph": [BARGAINS], "profile": [BARGAINS], "assess": [BARGAINS], "model": [BARGAINS], "run": [BARGAINS],
    "run-bounded": [BARGAINS], "prove": [BARGAINS], "compare": ["nexmark-2"],
    "plan": [BARGAINS, "--recovery=2s", "--latency=1s"],
    "stream ls": ["."], "stream show": ["."], "stream verify": ["."], "stream tail": ["."], "stream trim": ["."],
    "stream export": [".", "--out=x.parquet"], "data market": ["--out=x.parquet"],
}  # fmt: skip

# Where the work of commands that need no Spark begins.
WORK = [
    "riprap.apps.samples.sample_inputs", "riprap.api.model.profile", "riprap.api.model.calibrate",
    "riprap.api.model.describe", "riprap.planner.exact.solve", "riprap_papers.published.backup_tables.reproduce",
    "riprap_papers.experiments.window_records.prices", "riprap_papers.experiments.join_checkpoints.measure",
    "riprap_papers.experiments.sampled_outage.points",
    "riprap_papers.experiments.persistent_chain.measure", "riprap_papers.experiments.yield_crashes.recorded",
    "riprap_papers.experiments.yield_kills.yield_kills",
    "riprap_papers.compare.comparison.results_of", "riprap_papers.compare.comparison.maxima_of",
    "riprap.apps.market.generate",
    "riprap.cli.doctor.java_version",
]  # fmt: skip

VALUES = [
    "", " ", "0", "1", "-1", "-0", "2", "7", "1.5", "-1.5", "1e3", "1e308", "1e400", "-1e400", "nan", "inf",
    "-inf", "NaN", "0x10", "1_000", "٣", "²", "½", "1,2", ",", ",,", "1,,2", "a,b", "=", "==", "a=", "=a",
    "a=b", "a=b=c", "a=1", "a=1s", "a=-1", "a=nan", "a=inf", "a=1e999", "@", "a@", "@1", "a@1", "a@1s", "a=b@1",
    "a=b@nan", "a@1s@2s", "1s", "0s", "-1s", "1e400s", "1ns", "0.0001us", "1 s", "1s 2s", "100y", "36501d", "s",
    "1x", "∞", "1%", "0%", "-5%", "100%", "101%", "1e9%", "%", "1-", "-", "1-2", "2-1", "0-0", "1-2-3", "--",
    "---", "auto", "none", "all", "None", "true", "False", "null", "{}", "[]", "[/b]", "[bold]", "[red]x",
    ":smile:", "\\", "\\n", "a\nb", "a\tb", "\r", "\x1b[31m", "\x7f", "ü", "名", "\u202e", "\U0001f4a5",
    "\udcff", "x" * 300, "x" * 5000, "9" * 19, "9" * 40, "-" + "9" * 30, "../..", "/", "/dev/null", "/dev/full",
    "/proc/self/mem", "/nowhere/x", ".", "..", "~", "file", "file/below", "folder", "*", "?", "$HOME", "`x`",
    "'", '"', ";", "|", "&", "<", ">", "%s", "{0}", "Source", "Sink", "Aggregator", "aggregator",
    "Aggregator=1", "Sink=1s", "Source=file", "sum(gain)", "sum(", "os:abort", "sys:exit", "a:b", ":", "a.b:c",
    "http://x", "spark://", "local[0]", "local[2]", "cpu=1", "cpu=-1", "cpu=nan", "memory=1", "memory=1ZB",
    "exact", "market", "count", "bytes",
]  # fmt: skip


def commands():
    """Each command that does something, by its name, with its parameters."""

    def below(command, name):
        if hasattr(command, "commands"):
            for each, sub in command.commands.items():
                yield from below(sub, [*name, each])
        else:
            yield " ".join(name), command.params

    return list(below(typer.main.get_command(app), []))


def cases(names=None):
    """(command, arguments) for every parameter and value."""
    for name, parameters in commands():
        if names is not None and not name.startswith(names):
            continue
        given = GIVEN.get(name, [])
        for parameter in parameters:
            if parameter.param_type_name == "argument":
                yield from ((name, [value, *given[1:]]) for value in VALUES)
            elif getattr(parameter, "is_flag", False):
                flags = [*parameter.opts, *parameter.secondary_opts]
                yield from ((name, [*given, flag, flag]) for flag in flags)
                yield from ((name, [*given, f"{flag}={value}"]) for flag in flags for value in ("", "1", "x"))
            else:
                option = parameter.opts[-1]
                yield from ((name, [*given, f"{option}={value}"]) for value in VALUES)
                yield name, [*given, option]
                yield name, [*given, f"{option}=1", f"{option}=2"]


@pytest.fixture
def no_work(monkeypatch, no_spark, tmp_path):  # noqa: F811
    def begin(*_, **__):
        raise MissingPrerequisite("this is where the work would begin")

    for place in WORK:
        monkeypatch.setattr(place, begin)
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()


def check(place, command, arguments):
    before = written(place)
    try:
        code, err = ended(*command.split(), *arguments)
        assert code in CODES
        if code:
            said = [line for line in err.splitlines() if line.startswith("riprap: ")]
            assert len(said) == 1 or err.startswith("Usage"), err
            for line in said:
                check_sentence(line)
        if code == 2:
            assert written(place) == before
    except BaseException as error:
        raise AssertionError(f"riprap {command} {arguments!r}") from error
    return code, err


def written(place):
    """What lies there, but for what commands keep for the next time."""
    return sorted(str(path) for path in place.rglob("*") if "cache" not in path.relative_to(place).parts)


def test_strange_values_are_taken_or_refused_in_a_sentence(no_work, tmp_path):
    everything = list(cases())
    for command, arguments in random.Random(16).sample(everything, SHARE):
        check(tmp_path, command, arguments)


@pytest.mark.soak
@pytest.mark.parametrize("name", [name for name, _ in commands()])
def test_every_value_for_every_option(no_work, tmp_path, name):
    for command, arguments in cases(name):
        check(tmp_path, command, arguments)
