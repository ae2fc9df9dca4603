"""Output score functions against the obvious loop: ratios, RMSE, functions of the user's own, and their digests."""

import math

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from riprap.base.errors import UsageError
from riprap.faults.golden_scores import GoldenScores
from riprap.faults.score_functions import digest, function_score, reads
from riprap.faults.scoring import parse_score
from riprap.faults.trial_outputs import OutputRows

SCHEMA = pa.schema([("k", pa.string()), ("x", pa.float64()), ("y", pa.float64()), ("i", pa.int64())])
ROWS = st.lists(
    st.tuples(
        st.one_of(st.none(), st.text(max_size=4)),
        st.one_of(st.none(), st.floats(-50, 50)),
        st.floats(-50, 50),
        st.integers(-9, 9),
        st.integers(0, 3),  # section
    ),
    max_size=25,
)


def batch(rows):
    return pa.RecordBatch.from_pylist([dict(zip(SCHEMA.names, row[:4], strict=True)) for row in rows], schema=SCHEMA)


def naive(text, rows):
    """The score in plain Python."""
    xs = [row[1] for row in rows if row[1] is not None]
    if text == "rmse(x, y)":
        off = [(row[1] - row[2]) ** 2 for row in rows if row[1] is not None]
        return math.sqrt(sum(off) / len(off)) if off else 0.0
    below = sum(row[3] for row in rows) if text == "sum(x) / sum(i)" else len(rows)
    return sum(xs) / below if below else 0.0


@pytest.mark.parametrize("text", ["rmse(x, y)", "sum(x) / sum(i)", "sum(x) / count(*)"])
@given(rows=ROWS)
def test_ratios_and_rmse(text, rows):
    score = parse_score(text, SCHEMA, "Out")
    values = score.values(batch(rows))
    assert score.over(values) == pytest.approx(naive(text, rows), abs=1e-9)
    section = np.array([row[4] for row in rows], np.int64)
    found = score.by_section(values, section, 4)
    for number in range(4):
        assert found[number] == pytest.approx(naive(text, [row for row in rows if row[4] == number]), abs=1e-9)


def longest_word(tuples):
    """A function that no sum could replace: it reads text, nulls and numbers."""
    words = [word or "" for word in tuples["k"].to_pylist()]
    return max(len(word) for word in words) + pc.max(tuples["i"]).as_py() / 10 + tuples["x"].null_count


@given(rows=ROWS)
def test_a_function_sees_the_tuples_as_they_were(rows):
    score = function_score(longest_word, SCHEMA, "Out")
    values = score.values(batch(rows))
    assert score.over(values) == (longest_word(pa.table(batch(rows).to_pydict(), SCHEMA)) if rows else 0.0)
    section = np.array([row[4] for row in rows], np.int64)
    for number, found in enumerate(score.by_section(values, section, 4)):
        own = [row for row in rows if row[4] == number]
        assert found == (longest_word(pa.table(batch(own).to_pydict(), SCHEMA)) if own else 0.0)
    assert np.concatenate([score.nothing, values]).dtype == values.dtype, "golden outputs and differences are joined"


def made(body, **names):
    """A function from text, as an editor would leave it."""
    space = dict(names)
    exec(f"def score(t):\n    return {body}", space)
    return space["score"]


def helper_one(t):
    return 1.0


def helper_two(t):
    return 2.0


def test_an_edited_function_is_another_one():
    assert digest(made("t.num_rows * 2")) == digest(made("t.num_rows * 2"))
    assert digest(made("t.num_rows * 2")) != digest(made("t.num_rows * 3"))
    assert digest(made("WEIGHT * 2", WEIGHT=1)) != digest(made("WEIGHT * 2", WEIGHT=2)), "a value that it refers to"
    assert digest(made("help(t)", help=helper_one)) != digest(made("help(t)", help=helper_two)), "one that it calls"
    assert digest(reads("x")(made("1.0"))) != digest(reads("y")(made("1.0")))


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda t: "much", "not a finite number"),
        (lambda t: float("nan"), "not a finite number"),
        (lambda t: 1 / 0, "failed: ZeroDivisionError"),
        (lambda t: t["nope"], "failed: KeyError"),
    ],
)
def test_functions_that_go_wrong_get_a_sentence(function, words):
    score = function_score(function, SCHEMA, "Out")
    with pytest.raises(UsageError, match=words):
        score.over(score.values(batch([("a", 1.0, 2.0, 3, 0)])))


def test_columns_that_are_not_there_get_a_sentence():
    with pytest.raises(UsageError, match="reads z; Out has"):
        function_score(reads("z")(longest_word), SCHEMA, "Out")
    long = function_score(lambda t: 1.0, SCHEMA, "Out")
    with pytest.raises(UsageError, match="longer than 64 bytes"):
        long.values(batch([("a" * 65, 1.0, 2.0, 3, 0)]))


@pytest.mark.parametrize("text", ["sum(x)", "avg(x)", "count(x)", "max(x)", "sum(x) / count(x)"])
def test_golden_runs_are_scored_as_if_everything_were_added_up_anew(text):
    draws = np.random.default_rng(5)
    score = parse_score(text, pa.schema([("x", pa.float64())]), "Out")

    def rows(size):
        value = draws.choice([0.1, 1e16, -1e16, 3.0, np.nan], size)
        batch = pa.record_batch({"x": pa.array(value, from_pandas=True)})
        identity = draws.integers(0, 400, size).astype(np.uint64)
        return OutputRows(draws.integers(0, 95, size), identity, identity, score.values(batch))

    settled = rows(300)
    affected = [np.unique(draws.integers(0, 400, size).astype(np.uint64)) for size in (40, 0, 200)]
    golden = GoldenScores(score, settled, affected, 10, 9)
    for size in (0, 1, 120):
        rest = rows(size)
        whole = OutputRows(*map(np.concatenate, zip(settled, rest, strict=True)))
        sections, units = golden.of(rest)
        expected = score.by_section(whole.value, np.minimum(whole.position // 10, 8), 9)
        assert sections.tolist() == expected.tolist()
        assert units.tolist() == [score.over(whole.value[np.isin(whole.identity, part)]) for part in affected]
