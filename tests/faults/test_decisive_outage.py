"""Which of a target's outages its figures are those of."""

import pyarrow as pa
import pytest

from riprap.base.quantities import Duration
from riprap.faults.campaign_settings import CampaignSettings, Target
from riprap.faults.campaign_summary import summarise

GOLDEN = 10.0
ERRORS = {1: 0.0, 2: 2.0, 4: 0.5}  # by seconds of the outage: how wrong it makes the section of the fault


def tables(reps: int) -> tuple[pa.Table, pa.Table]:
    trials = [
        {
            "sink": "Out", "target": "Op", "state": "kept", "offset": 100, "end": 100 + 10 * seconds,
            "outage_us": seconds * 1_000_000,
            "rate": "average", "tuples": 10 * seconds, "rep": rep, "faulty": GOLDEN * (1 + error), "golden": GOLDEN,
            "sections": [1], "section_faulty": [GOLDEN * (1 + error)], "section_golden": [GOLDEN],
        }
        for seconds, error in ERRORS.items()
        for rep in range(reps)
    ]  # fmt: skip
    golden = [{"sink": "Out", "run": run, "scores": [GOLDEN], "sections": [GOLDEN] * 4} for run in range(reps)]
    return pa.Table.from_pylist(trials), pa.Table.from_pylist(golden)


@pytest.mark.parametrize(
    ("fault", "impact", "seconds"),
    [("loss", 0.25, 4), ("corrupt", 0.25, 4), ("corrupt-tuple", 4.0, 2), ("sdc", 4.0, 2)],
)
def test_a_strike_of_one_tuple_is_no_longer_than_another_and_the_worst_decides(fault, impact, seconds):
    settings = CampaignSettings((Target(("Op",)),), (100,), {"Out": "count(*)"}, fault, reps=2, golden=2, section=100)
    (found,) = summarise(settings, *tables(2), 400)
    assert found.paired.R == 1
    assert found.paired.I == found.unpaired.I == impact
    assert found.decisive.duration == Duration(seconds * 1_000_000)
    assert found.errors[0][0] == pytest.approx(ERRORS[seconds])
