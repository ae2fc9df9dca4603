"""Captures DataFrames of a notebook or a program: each is a query, nothing is started."""

from collections.abc import Sequence
from typing import Any

from riprap.base.errors import UsageError
from riprap.spark.jobs.assembling import assembled
from riprap.spark.jobs.captured_job import CapturedJob
from riprap.spark.jobs.capturing import CaptureLog
from riprap.spark.jobs.recorded_writers import WriteRequest
from riprap.spark.jobs.user_lines import users_place


def capture_frames(frames: Any, name: str) -> CapturedJob:
    """The job that writes one DataFrame, or several that may share sources; streaming or static, and not started."""
    listed: Sequence[Any] = list(frames) if isinstance(frames, list | tuple) else [frames]
    for frame in listed:
        if not hasattr(frame, "schema") or not hasattr(frame, "sparkSession"):
            raise UsageError(f"from_spark takes a DataFrame or a list of them, not a {type(frame).__name__}")
    if not listed:
        raise UsageError("from_spark needs at least one DataFrame")
    log, place = CaptureLog(), users_place()
    for number, frame in enumerate(listed, 1):
        query = name if len(listed) == 1 else f"{name}-{number}"
        log.writes.append(WriteRequest(frame, "frame", name=query, place=place))
    return assembled(name, "", log, listed[0].sparkSession)
