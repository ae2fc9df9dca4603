import pytest
from hypothesis import given
from hypothesis import strategies as st

from riprap.base.errors import UsageError
from riprap.base.quantities import format_duration, format_size, parse_duration, parse_size


@given(st.integers(0, 10**15))
def test_duration_text_reads_back(microseconds):
    assert parse_duration(format_duration(microseconds)) == microseconds


@pytest.mark.parametrize(("text", "expected"), [("500ms", 500_000), ("1.5s", 1_500_000), (" 2 m", 120_000_000)])
def test_durations(text, expected):
    assert parse_duration(text) == expected


@pytest.mark.parametrize("text", ["", "5", "s", "-1s", "1 fortnight"])
def test_bad_durations_say_what_to_write(text):
    with pytest.raises(UsageError, match=r"500ms, 1.5s"):
        parse_duration(text)


def test_sizes():
    assert parse_size("64KiB") == 65536
    assert parse_size("10") == 10
    assert format_size(65536) == "64 KiB"
    assert format_size(1023 * 1024) == "1023 KiB"
