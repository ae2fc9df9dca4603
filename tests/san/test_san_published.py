"""The published evaluation: the validation table to its last digit that matters, and the statements about the
figures.
"""

import pytest

from riprap.san.replicate import in_threads
from riprap.san.streaming.scenario import AVAILABILITY, tainted
from riprap_papers.san.configurations import CONFIGURATIONS, TAKEN
from riprap_papers.san.crash_statements import CRASHES
from riprap_papers.san.evaluation import READINGS, VALIDATION, evaluate, forced_crash

# One process for all tests that use the same networks: each is compiled once.
pytestmark = pytest.mark.xdist_group("san-streaming")


@pytest.fixture(scope="module")
def rows():
    return evaluate(in_threads(2), replications=250)


@pytest.mark.parametrize("operator", VALIDATION)
def test_validation_table(rows, operator):
    found = {row.metric: row for row in rows if row.table == "validation" and row.case == operator}
    availability, count = VALIDATION[operator]
    assert found["availability"].ours == pytest.approx(availability, abs=0.001)
    assert found["tainted tuples"].ours == pytest.approx(count, rel=0.01)


def test_statements_hold_except_the_one_documented(rows):
    failed = [row.case for row in rows if row.bound == "holds" and row.reading in ("", TAKEN.name) and row.ours != 1.0]
    assert failed == ["HA groups make approximately half the tainted tuples at 5.56E-04/s"]


def test_the_reading_that_is_taken_meets_most_statements(rows):
    met = [row.ours for row in rows if row.table == READINGS]
    assert len(met) == len(CONFIGURATIONS)
    best = CONFIGURATIONS.index(TAKEN)
    assert all(met[best] > held for number, held in enumerate(met) if number != best), met


def test_bounds(rows):
    found = {(row.table, row.metric): row for row in rows if row.reading in ("", TAKEN.name)}
    assert found[CRASHES, "largest difference in availability"].ours < 0.0115, "documented: 0.0094"
    assert found[CRASHES, "ratio of tainted tuples"].ours == pytest.approx(0.39, abs=0.03)
    assert found["figure 5.15: output rate", "tuples/s at the sink"].ours == pytest.approx(65.78, rel=0.01)
    for row in rows:
        if row.table.startswith("figure 5.14") and row.metric == "tainted tuples":
            assert row.ours < 300 * 1.07, "documented: up to 2.5 % above, and 250 replications scatter by 2 %"


@pytest.mark.soak
@pytest.mark.parametrize("operator", VALIDATION)
def test_validation_table_tuple_by_tuple(operator):
    job = forced_crash(operator).job("tokens")
    means = dict(zip(job.names, job.rows(0, 80).mean(axis=0), strict=True))
    availability, count = VALIDATION[operator]
    assert means[AVAILABILITY] == pytest.approx(availability, abs=0.001)
    assert means[tainted("Sink")] == pytest.approx(count, rel=0.01)
