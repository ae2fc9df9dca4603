"""Looking into JSON that a person may have written: every slip gets a sentence that says where it is."""

from collections.abc import Mapping
from typing import Any

from riprap.base.documents import shortened
from riprap.base.errors import DataError, known

LARGEST = 1e15  # of a cost or a measure: beyond it solvers work with nothing but rounding


def as_object(value: Any, where: str, keys: tuple[str, ...] | None = None) -> Mapping[str, Any]:
    """`value` if it is an object, with no keys but `keys` where these are given."""
    if not isinstance(value, dict):
        raise DataError(f"{where}: expected an object in braces, got {shortened(value)}")
    for key in value:
        if keys is not None and key not in keys:
            raise DataError(f"{where}: unknown key {key}; known are {known(keys, key)}")
    return value
