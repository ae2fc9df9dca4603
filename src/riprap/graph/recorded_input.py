"""How the recorded input of a source is read, where the source is that of an existing job.

The rows are those that the job's reader gives; Spark computes their event time and puts them in its order, once.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa


@dataclass(frozen=True)
class RecordedInput:
    """For a source of a job. `options` may hold credentials, so it is never written to a file."""

    format: str  # of the job's reader: "kafka", "json", …
    line: str  # FILE, line N, of the reader
    schema: pa.Schema
    time: str  # the event time, as SQL over the columns; "": the order of the rows
    delay: int | None = None  # watermark delay in microseconds
    path: str | None = None  # files that the job reads: its recording unless another is given
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
