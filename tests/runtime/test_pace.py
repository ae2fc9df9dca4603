"""When rows of a source are due."""

import pytest

from riprap.runtime.host import SourcePace

STEP = 5_000


@pytest.mark.parametrize("rate", [1_000.0, 333.3, 2e6, 4.8e6, 4_812_345.6, 50e6])
def test_who_waits_until_the_next_look_finds_rows(rate):
    """Also where rows are closer than the clock can tell: who looks too soon looks again at once, for ever."""
    pace, begun, position = SourcePace(rate), 7_000_000, 0
    for _ in range(100):
        look = pace.next_poll(begun, begun, position)
        due = pace.rows(begun, look, position, 10**9)
        assert due > 0
        assert pace.rows(begun, look - 1, position, 10**9) == 0, "it could have looked sooner"
        assert (look - begun) % STEP == 0
        position += due
