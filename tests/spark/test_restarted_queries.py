"""Queries that fail only because the machine is busy are tried again; others as often as was asked for."""

import pytest
from pyspark.errors import StreamingQueryException

from riprap.spark.queries import Restarted

LATE = "[STREAM_FAILED] … Python worker failed to connect back."


class Query:
    def __init__(self, failure: str | None) -> None:
        self._failure = StreamingQueryException(failure) if failure is not None else None

    def exception(self):
        return self._failure

    def awaitTermination(self):
        if self._failure is not None:
            raise self._failure


def queries(*failures: str | None):
    coming = iter(failures)
    return lambda: Query(next(coming))


@pytest.mark.parametrize("restarts", [0, 3])
def test_a_source_whose_process_came_late_is_tried_again(restarts):
    running = Restarted(queries(LATE, LATE, None), restarts)
    assert running.until(Query.awaitTermination).exception() is None
    assert running.restarts == 0
    running = Restarted(queries(LATE, None), restarts)
    running.look()
    assert running.query.exception() is None


def test_one_that_always_comes_late_fails():
    with pytest.raises(StreamingQueryException, match="connect back"):
        Restarted(queries(*[LATE] * 100)).until(Query.awaitTermination)


def test_another_failure_is_counted():
    assert Restarted(queries("killed", "killed", None), 2).until(Query.awaitTermination).exception() is None
    with pytest.raises(StreamingQueryException, match="broken"):
        Restarted(queries("killed", "broken", None), 1).until(Query.awaitTermination)
    with pytest.raises(StreamingQueryException, match="broken"):
        Restarted(queries("broken", None)).until(Query.awaitTermination)


def test_sessions_wait_for_python_on_a_busy_machine(spark):
    """Spark's own 15 s are too few where forty processes share two cores."""
    told = spark.sparkContext._jvm.PythonUtils.getPythonAuthSocketTimeout(spark.sparkContext._jsc)
    assert int(told) >= 120
