"""The user's oracle beside the engine: bags of rows, against counters of Python."""

import math
from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from riprap.base.errors import UsageError
from riprap.proof.independent import disagreements

ROWS = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", "", "é", "NULL", "null", None]), st.sampled_from([0.0, -0.0, 1.5, math.nan, None])
    ),
    max_size=8,
)


def table(rows):
    return pa.table(
        {"k": pa.array([k for k, _ in rows], pa.string()), "x": pa.array([x for _, x in rows], pa.float64())}
    )


def bag(rows):
    return Counter((k, "nan" if x is not None and math.isnan(x) else x) for k, x in rows)


@given(ROWS, ROWS)
def test_rows_missing_and_too_many_are_those_of_two_counters(ours, theirs):
    found = disagreements({"S": table(ours)}, {"S": table(theirs)})
    missing, extra = bag(theirs) - bag(ours), bag(ours) - bag(theirs)
    if not missing and not extra:
        assert found == ()
    else:
        assert f"{missing.total()} rows missing, {extra.total()} too many" in found[0]


def test_floats_that_differ_in_the_last_digits_are_equal():
    ours, theirs = table([("a", 0.1 + 0.2)]), table([("a", 0.3)])
    assert disagreements({"S": ours}, {"S": theirs}) == ()
    assert disagreements({"S": ours}, {"S": table([("a", 0.30001)])}) != ()


def test_only_the_columns_of_the_oracle_are_compared():
    ours = table([("a", 1.5), ("b", 1.5)])
    assert disagreements({"S": ours}, {"S": ours.select(["k"])}) == ()


@pytest.mark.parametrize(
    ("oracle", "words"),
    [
        ({"T": table([])}, "returned T, which is not a sink; the sinks are S"),
        ({"S": pa.table({"kk": ["a"]})}, r"have a column kk; the sink has k, x \(did you mean k\?\)"),
        ({"S": pa.table({"k": ["a"], "x": ["none"]})}, "do not fit the sink's columns"),
    ],
)
def test_results_that_do_not_fit_are_refused(oracle, words):
    with pytest.raises(UsageError, match=words):
        disagreements({"S": table([])}, oracle)
