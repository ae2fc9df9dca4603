"""Checks of output paths, made before a command starts work, so that no result is refused afterwards."""

import os
from collections.abc import Callable
from pathlib import Path

from riprap.base.errors import UsageError
from riprap.base.files import refuse_links


def output_file(path: Path | None, option: str = "--out") -> None:
    """Raise if no file can be written there. Missing parent directories are fine: they are created."""
    if path is None:
        return
    _check(path, option, "give the name of a file", is_wrong=path.is_dir)


def output_directory(path: Path | None, option: str = "--out") -> None:
    """Raise if the path is not a directory, cannot become one, or contains links."""
    if path is None:
        return
    _check(path, option, "give the name of a directory", is_wrong=lambda: path.exists() and not path.is_dir())
    refuse_links(path)


def _check(path: Path, option: str, advice: str, *, is_wrong: Callable[[], bool]) -> None:
    try:
        if is_wrong():
            kind = "a directory" if path.is_dir() else "a file"
            raise UsageError(f"cannot write to {option} {path}: it is {kind}; {advice}")
        above = next(place for place in (path, *path.absolute().parents) if place.exists())
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot write to {option} {path}: {getattr(error, 'strerror', None) or error}") from error
    if above != path and not above.is_dir():
        raise UsageError(f"cannot write to {option} {path}: {above} is a file, not a directory")
    if not os.access(above, os.W_OK):
        raise UsageError(f"cannot write to {option} {path}: no permission to write to {above}")
