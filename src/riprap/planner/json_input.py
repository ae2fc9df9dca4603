"""Checks of JSON that may be written by hand: every error names its place in the file."""

from collections.abc import Mapping
from typing import Any

from riprap.base.documents import shortened
from riprap.base.errors import DataError, known

LARGEST = 1e15  # of a cost or a measurement: above it, rounding errors dominate


def as_object(value: Any, where: str, keys: tuple[str, ...] | None = None) -> Mapping[str, Any]:
    """`value`, checked to be an object; if `keys` is given, without other keys."""
    if not isinstance(value, dict):
        raise DataError(f"{where}: expected an object in braces, got {shortened(value)}")
    for key in value:
        if keys is not None and key not in keys:
            raise DataError(f"{where}: unknown key {key}; known are {known(keys, key)}")
    return value
