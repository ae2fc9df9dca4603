"""Aggregates and windows have Spark's results, over the same rows in a batch query."""

import pytest
from tests.spark.relational import SCHEMA, frame, ran, rows, same

from riprap.graph.builder import App
from riprap.graph.windows import session_window, sliding, tumbling

CALLS = [
    "count(*)", "count(x)", "sum(x)", "sum(i)", "avg(x)", "avg(i)", "mean(i)",
    "min(x)", "max(x)", "min(i)", "max(i)", "min(s)", "max(s)", "min(d)", "max(d)", "min(at)", "max(b)", "max(small)",
    "first(s)", "last(s)", "first(x, true)", "last(i, true)", "any_value(d)", "first_value(i) IGNORE NULLS",
    "stddev(x)", "std(i)", "stddev_samp(i)", "stddev_pop(x)", "variance(y)", "var_samp(i)", "var_pop(y)",
    "skewness(y)", "kurtosis(i)", "covar_samp(x, y)", "covar_pop(i, y)", "corr(y, i)",
    "max_by(s, i)", "min_by(d, x)", "max_by(x, s)", "min_by(i, at)",
    "collect_list(s)", "collect_list(i)", "collect_set(i)", "collect_set(s)", "array_agg(d)",
    "approx_count_distinct(i)", "percentile(x, 0.3)", "median(i)", "percentile_approx(i, 0.4)",
    "approx_percentile(y, 0.75, 1000)", "mode(b) FILTER (WHERE b)",
    "count_if(y > 1)", "bool_and(b)", "every(i > -5)", "bool_or(b)", "some(i = 12)", "any(b)",
    "bit_and(small)", "bit_or(i)", "bit_xor(i)",
    "count(*) FILTER (WHERE i > 0)", "sum(x) FILTER (WHERE b)", "max(s) FILTER (WHERE i > 0 AND b)",
    "first(s) FILTER (WHERE i > 0)", "last(i, true) FILTER (WHERE b)", "max_by(s, i) FILTER (WHERE b)",
    "collect_list(i) FILTER (WHERE i <> 2)", "corr(x, y) FILTER (WHERE b)",
]  # fmt: skip
NAMED = [f"{call} AS c{place}" for place, call in enumerate(CALLS)]
SETS = tuple(f"c{place}" for place, call in enumerate(CALLS) if call.startswith("collect_set"))


def aggregated(window, by, *calls):
    app = App("aggregates")
    stream = app.source("In", SCHEMA, time="at")
    stream.aggregate(*(calls or NAMED), "window_start() AS since", "window_end() AS until", window=window, by=by,
                     name="A").sink("Out")  # fmt: skip
    return app.build()


@pytest.mark.parametrize(("seed", "size"), [(1, 400), (3, 0), (4, 1)])
def test_aggregates_are_sparks(spark, seed, size):
    table = rows(seed, size)
    frame(spark, table).createOrReplaceTempView("rows")
    expected = spark.sql(
        f"SELECT k, {', '.join(NAMED)}, window.start AS since, window.end AS until FROM rows "
        "GROUP BY window(at, '40 seconds'), k"
    )
    same(ran(aggregated(tumbling("40s"), ["k"]), {"In": table}), expected, SETS)


@pytest.mark.parametrize(
    ("window", "spelled"),
    [
        (tumbling("10s", start="3s"), "window(at, '10 seconds', '10 seconds', '3 seconds')"),
        (sliding("10s", "4s"), "window(at, '10 seconds', '4 seconds')"),
        (sliding("10s", "3s", start="2s"), "window(at, '10 seconds', '3 seconds', '2 seconds')"),
        (sliding("12s", "4s", start="-1s"), "window(at, '12 seconds', '4 seconds', '-1 seconds')"),
        (session_window("7s"), "session_window(at, '7 seconds')"),  # rows are exactly 7 s apart, too
        (session_window("1us"), "session_window(at, '0.000001 seconds')"),
    ],
)
@pytest.mark.parametrize("by", [[], ["k", "b"]])
def test_windows_are_sparks(spark, window, spelled, by):
    table = rows(5, 300, start=1_700_000_000_000_000)
    frame(spark, table).createOrReplaceTempView("rows")
    # A distinct count makes Spark process rows in another order, so it is not beside last; over sessions Spark's own
    # distinct counts exceed the number of values, so it is not there.
    calls = ["count(*) AS n", "sum(i) AS s", "max(s) AS m", "count(distinct s) AS d", "count(distinct x) AS e"]
    calls = calls if not by and "session" not in spelled else [*calls[:3], "last(i) AS l"]
    expected = spark.sql(
        f"SELECT {''.join(f'{name}, ' for name in by)}{', '.join(calls)}, w.start AS since, w.end AS until FROM "
        f"(SELECT *, {spelled} AS w FROM rows) GROUP BY {', '.join(['w', *by])}"
        if "session" not in spelled
        else f"SELECT {''.join(f'{name}, ' for name in by)}{', '.join(calls)}, session_window.start AS since, "
        f"session_window.end AS until FROM rows GROUP BY {', '.join([spelled, *by])}"
    )
    same(ran(aggregated(window, by, *calls), {"In": table}, piece=17), expected)
