"""Reading JSON that a person may have written: every slip gets a sentence that says where it is."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from riprap.base.errors import DataError, known


def read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text())
    except FileNotFoundError:
        raise DataError(f"there is no file {path}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"cannot read {path}: {error}") from error
    except RecursionError:
        raise DataError(f"{path} is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise DataError(f"{path} is not JSON: {error.msg} at line {error.lineno}") from None


def as_object(value: Any, where: str, keys: tuple[str, ...] | None = None) -> Mapping[str, Any]:
    """`value` if it is an object, with no keys but `keys` where these are given."""
    if not isinstance(value, dict):
        raise DataError(f"{where}: expected an object in braces, got {json.dumps(value)[:60]}")
    for key in value:
        if keys is not None and key not in keys:
            raise DataError(f"{where}: unknown key {key}; known are {known(keys, key)}")
    return value
