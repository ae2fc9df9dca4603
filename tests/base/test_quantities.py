import pytest
from hypothesis import given
from hypothesis import strategies as st

from riprap.base.errors import UsageError
from riprap.base.quantities import format_duration, format_size, parse_duration, parse_size, show_duration


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


@pytest.mark.parametrize(
    ("microseconds", "text"),
    [(0, "0s"), (3_000_000, "3s"), (1_500_000, "1500ms"), (15_501_139, "15.5 s"), (1_234, "1234us"),
     (999_999_9, "10 s"), (999_999, "1 s"), (1_234_567, "1.23 s"), (119_999_999, "120 s"), (123_456_789, "2.06 min"),
     (7_212_345_678, "2 h"), (9_999_999_999_999, "116 d"), (3_153_600_000_000_001, "36,500 d")],
)  # fmt: skip
def test_durations_for_people(microseconds, text):
    assert show_duration(microseconds) == text
