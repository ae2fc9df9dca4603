"""Values out of files as dataclasses: what fits is taken, what does not is one sentence that says where."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest

from riprap.base.documents import parse_json, parse_toml
from riprap.base.errors import DataError
from riprap.base.quantities import Duration
from riprap.base.shapes import raising_misshapen, shaped


@dataclass(frozen=True)
class Thing:
    name: str
    count: int
    share: float
    every: Duration
    sizes: tuple[int, ...]
    pair: tuple[str, float]
    how: Literal["a", "b"]
    inputs: Mapping[str, Path]
    maybe: float | None = None
    texts: str | Sequence[str] = ()
    sure: bool = False


GOOD = {
    "name": "x", "count": 3, "share": 1, "every": 5, "sizes": [1, 2], "pair": ["p", 2], "how": "a",
    "inputs": {"Source": "m.arrow"},
}  # fmt: skip


def test_what_fits_is_taken():
    found = shaped(Thing, GOOD | {"texts": ["a", "b"], "maybe": 2}, "here")
    assert found == Thing(
        "x", 3, 1.0, Duration(5), (1, 2), ("p", 2.0), "a", {"Source": Path("m.arrow")}, 2.0, ("a", "b")
    )
    assert isinstance(found.share, float)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"name": 3}, "here: name is 3; expected text"),
        ({"count": 3.0}, "count is 3.0; expected a whole number"),
        ({"count": True}, "count is True; expected a whole number"),
        ({"share": "1"}, "share is '1'; expected a number"),
        ({"share": float("nan")}, "expected a number"),
        ({"every": None}, "every is None; expected a whole number"),
        ({"sizes": 4}, "sizes is 4; expected a list"),
        ({"sizes": [1, "a"]}, "sizes is"),
        ({"pair": ["p"]}, "pair is"),
        ({"how": "c"}, "how is 'c'; expected one of a, b"),
        ({"how": []}, "how is []"),
        ({"inputs": {"Source": 5}}, "inputs is"),
        ({"inputs": []}, "inputs is"),
        ({"maybe": "x"}, "expected a number or nothing"),
        ({"texts": 5}, "texts is 5"),
        ({"sure": 1}, "sure is 1; expected true or false"),
        ({"colour": 1}, "'colour' is unknown"),
    ],
)
def test_what_does_not_is_named(change, words):
    with pytest.raises(DataError) as refused:
        shaped(Thing, GOOD | change, "here")
    assert words in str(refused.value)


def test_what_is_missing_is_named():
    for name in GOOD:
        with pytest.raises(DataError, match=f"here: {name} is missing"):
            shaped(Thing, {key: value for key, value in GOOD.items() if key != name}, "here")
    with pytest.raises(DataError, match="expected a table of values, got"):
        shaped(Thing, [1], "here")


@pytest.mark.parametrize("wrong", [KeyError("a"), TypeError(), ValueError("b"), AttributeError(), OverflowError("c")])
def test_taking_apart_what_is_of_another_shape(wrong):
    with pytest.raises(DataError, match=r"f\.json is no proof"), raising_misshapen("f.json is no proof"):
        raise wrong


@pytest.mark.parametrize("digits", ["9" * 20, "9" * 400, "-" + "9" * 19, "9" * 5_000])
def test_whole_numbers_of_more_than_64_bits_are_refused(digits):
    with pytest.raises(DataError, match=r"f: .*(64 bits|digits)|f is not .*(64 bits|digits)"):
        parse_json(f'{{"a": [{digits}]}}', "f")
    with pytest.raises(DataError, match=r"64 bits|digits"):
        parse_toml(f"a = [[{digits}]]", "f")
