"""Mutated plans, topologies, `run.json` and arguments: whatever is made of them, it is one sentence and a known code.

Mutations are seeded: `make test` tries the same few thousand each time, `make soak` goes on for hours from a seed of
its own. A case that fails is shown whole, and again by its seed.
"""

import json
import os
import random
import time

import pytest
from refusals import CODES, check_sentence, ended, no_spark, run_settings  # noqa: F401

from riprap.api.run_settings import read_settings, resumed_app
from riprap.apps.catalogue import load_app
from riprap.base.errors import RiprapError, as_sentence
from riprap.graph.plan_file import read_plan
from riprap.planner.backup_plan import given_backups
from riprap.planner.problem import problem
from riprap.planner.topology_files import read_profile, read_topology

BARGAINS = "bargain-discovery"
GRAPH = load_app(BARGAINS)
HOURS = float(os.environ.get("RIPRAP_FUZZ_HOURS", "1"))

PLAN = f"""app = "{BARGAINS}"

[operators.Aggregator]
checkpoint = "1s"
backup = true
persist = [0]
ha_group = "trades"

[operators.VWAP]
ha_group = "trades"

[ha_groups.trades]
replicas = 2
"""
TOPOLOGY = {
    "name": "pipe",
    "tasks": [
        {"name": "a", "T": "1.5s", "cost": 120000},
        {"name": "b", "checkpoint": "2s", "cost": 5},
        {"name": "c", "T": 3, "cost": 0},
    ],
    "edges": [["a", "b"], {"from": "b", "to": "c"}, {"from": "c", "to": "a", "feedback": True}],
}
PROFILE = {"operators": {"Aggregator": {"T": "0.4s", "checkpoint": "1s", "cost": 120000}}}
SETTINGS = run_settings(PLAN, {"Aggregator": 2}, {"Source": "market.parquet"}, 1000.0, 10)

# What gets in where it should not.
STRANGE = [
    None, True, False, 0, 1, -1, 7, 2**31, 2**63, 10**30, -(10**30), 0.5, -0.0, 1e300, "", " ", "0", "1s", "1e400s",
    "-1s", "nan", "inf", "²", "[/b]", "[bold]", ":smile:", "a\nb", "\x1b[31m", "ü" * 50, "x" * 3000, "../..", "/", "=",
    "A=B", ",", "=,=", "{}", [], {}, [[]], [None], {"a": 1}, {"": {}}, [1, "a", {}], "Aggregator", "Sink", "Source",
]  # fmt: skip
ARGUMENTS = {
    "graph": [BARGAINS, "--plan", "plan.toml", "--svg", "g.svg", "--explain", "--json"],
    "plan": [BARGAINS, "--recovery", "2s", "--latency", "1s", "--sink", "Sink=2s", "--k", "1", "--cost", "count",
             "--must", "VWAP", "--must-not", "Sink", "--algorithm", "dag", "--out", "p.toml", "--time-limit", "1s"],
    "run": [BARGAINS, "--plan", "plan.toml", "--fuse", "auto", "--parallelism", "Aggregator=2", "--rate", "1000",
            "--for", "10s", "--kill", "Aggregator@1s", "--tuples", "100", "--seed", "1", "--out", "o", "--json"],
    "run-bounded": [BARGAINS, "--tuples", "100", "--seed", "1", "--partitions", "2", "--out", "o"],
    "assess": [BARGAINS, "--scale", "demo", "--fault", "loss", "--state", "kept", "--targets", "auto", "--offsets", "9",
               "--outages", "1s", "--rates", "peak", "--reps", "1", "--golden", "1", "--section", "9", "--threshold",
               "3%", "--percentile", "90", "--osf", "sum(gain)", "--jitter", "1", "--failover", "2s", "--explain"],
    "stream": ["show", "s", "--json"],
    "data": ["market", "--out", "d.parquet", "--tuples", "100", "--symbols", "9", "--zipf", "1.1", "--format", "arrow"],
}  # fmt: skip


def mutated_value(value, random_):
    """A value in which one thing somewhere is another."""
    if isinstance(value, dict) and value and random_.random() < 0.8:
        key = random_.choice(list(value))
        changed = dict(value)
        match random_.randrange(5):
            case 0:
                del changed[key]
            case 1:
                changed[str(random_.choice(STRANGE))] = changed.pop(key)
            case 2:
                changed[key] = random_.choice(STRANGE)
            case _:
                changed[key] = mutated_value(value[key], random_)
        return changed
    if isinstance(value, list) and value and random_.random() < 0.8:
        at = random_.randrange(len(value))
        match random_.randrange(4):
            case 0:
                return value[:at] + value[at + 1 :]
            case 1:
                return [*value[:at], value[at], *value[at:]]
            case _:
                return [*value[:at], mutated_value(value[at], random_), *value[at + 1 :]]
    if isinstance(value, str) and value and random_.random() < 0.3:
        return mutated_text(value, random_)
    return random_.choice(STRANGE)


def mutated_text(text, random_):
    """Text in which something is gone, doubled, moved or replaced."""
    at, size = random_.randrange(len(text) + 1), random_.randrange(1, 12)
    piece = random_.choice(
        ["", "[", "]", "{", '"', "'", "\n", "=", ".", "-", "9" * 30, "inf", "1e999", "\0", "é", "[[", "#"]
    )
    match random_.randrange(4):
        case 0:
            return text[:at] + text[at + size :]
        case 1:
            return text[:at] + piece + text[at:]
        case 2:
            return text[:at] + text[at : at + size] * 2 + text[at + size :]
        case _:
            return text[:at] + piece + text[at + size :]


def mutated_bytes(text, random_):
    data = text.encode(errors="surrogatepass")
    if random_.random() < 0.1:
        at = random_.randrange(len(data) + 1)
        return data[:at] + bytes([random_.randrange(256)]) + data[at + 1 :]
    return data


# What a case is: it writes its files into a directory, and uses them ------------------------------------------------


def plan_case(place, random_):
    text = PLAN
    for _ in range(random_.randrange(1, 4)):
        if random_.random() < 0.5:
            lines = text.splitlines()
            at = random_.randrange(len(lines))
            key, equals, _ = lines[at].partition(" = ")
            strange = random_.choice(STRANGE)
            if equals:
                lines[at] = f"{key} = {'inf' if strange is None else json.dumps(strange)}"
            else:
                lines.insert(at, random_.choice(lines))
            text = "\n".join(lines)
        else:
            text = mutated_text(text, random_)
    path = place / "plan.toml"
    path.write_bytes(mutated_bytes(text, random_))
    return text, lambda: read_plan(path).apply(GRAPH)


def topology_case(place, random_):
    value = TOPOLOGY
    for _ in range(random_.randrange(1, 4)):
        value = mutated_value(value, random_)
    text = json.dumps(value)
    if random_.random() < 0.3:
        text = mutated_text(text, random_)
    path = place / "topology.json"
    path.write_bytes(mutated_bytes(text, random_))
    return text, lambda: given_backups(problem(read_topology(path), 10_000_000), ())


def profile_case(place, random_):
    value = mutated_value(PROFILE, random_)
    path = place / "profile.json"
    path.write_bytes(mutated_bytes(json.dumps(value), random_))
    return value, lambda: read_profile(path)


def settings_case(place, random_):
    value = SETTINGS
    for _ in range(random_.randrange(1, 4)):
        value = mutated_value(value, random_)
    text = json.dumps(value)
    if random_.random() < 0.2:
        text = mutated_text(text, random_)
    (place / "run.json").write_bytes(mutated_bytes(text, random_))

    def use():
        settings = read_settings(place)
        return settings.layout(resumed_app(place, settings, None))

    return text, use


CASES = {"plan": plan_case, "topology": topology_case, "profile": profile_case, "run.json": settings_case}


def try_case(kind, place, seed):
    random_ = random.Random(seed)
    shown, use = CASES[kind](place, random_)
    refusal = None
    try:
        use()
    except RiprapError as error:
        refusal = error
    except BaseException as error:
        raise AssertionError(f"{kind}, seed {seed}: {shown!r}") from error
    if refusal is not None:
        assert refusal.exit_code in CODES
        check_sentence(as_sentence(str(refusal)))


def try_arguments(place, seed):
    random_ = random.Random(seed)
    command = random_.choice(list(ARGUMENTS))
    arguments = list(ARGUMENTS[command])
    for _ in range(random_.randrange(1, 4)):
        at = random_.randrange(len(arguments))
        match random_.randrange(5):
            case 0:
                del arguments[at]
            case 1:
                arguments.insert(at, str(random_.choice(STRANGE)))
            case 2:
                arguments[at] = str(random_.choice(STRANGE))
            case 3:
                arguments[at] = mutated_text(arguments[at], random_).replace("\0", "")
            case _:
                arguments[at] = random_.choice(arguments)
        arguments = arguments or [""]
    try:
        code, err = ended(command, *arguments)
        assert code in CODES
        if code:
            said = [line for line in err.splitlines() if line.startswith("riprap: ")]
            assert len(said) == 1 or err.startswith("Usage") or not err, err
            for line in said:
                check_sentence(line)
    except BaseException as error:
        raise AssertionError(f"seed {seed}: riprap {command} {arguments!r}") from error


@pytest.mark.parametrize("kind", CASES)
def test_mutated_files_are_taken_or_refused_in_a_sentence(tmp_path, kind):
    for seed in range(600):
        try_case(kind, tmp_path, f"{kind}-{seed}")


def test_mutated_arguments_are_taken_or_refused_in_a_sentence(no_spark, tmp_path):  # noqa: F811
    (tmp_path / "plan.toml").write_text(PLAN)
    for seed in range(200):
        try_arguments(tmp_path, f"arguments-{seed}")


@pytest.mark.soak
def test_mutations_for_hours(no_spark, tmp_path):  # noqa: F811
    (tmp_path / "plan.toml").write_text(PLAN)
    first, deadline = random.randrange(2**32), time.monotonic() + HOURS * 3600
    for number in range(2**62):
        if time.monotonic() > deadline:
            return
        (tmp_path / "plan.toml").write_text(PLAN)
        try_arguments(tmp_path, f"{first}-{number}")
        for kind in CASES:
            try_case(kind, tmp_path, f"{first}-{number}")
