"""`record`: what the sources of an existing PySpark job bring, kept for assessments.

recording = riprap.record("job.py", out="recorded", seconds="10m", hash=["email"])
recording.paths                # {"clicks": recorded/clicks.parquet}
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from riprap.apps.catalogue import is_job
from riprap.base.errors import UsageError
from riprap.base.tabular import Tabular
from riprap.spark.jobs.captured_job import CapturedJob
from riprap.spark.jobs.job_files import captured
from riprap.spark.source_recorder import SourceRecording, record_sources


@dataclass(frozen=True)
class JobRecording(Tabular):
    """The recorded sources of a job."""

    out: Path
    sources: tuple[SourceRecording, ...]

    @property
    def paths(self) -> dict[str, Path]:
        """By source, for `inputs` of an assessment."""
        return {each.source: self.out / f"{each.source}.parquet" for each in self.sources if each.rows}

    def rows(self) -> list[dict[str, Any]]:
        return [
            {
                "source": each.source,
                "rows": each.rows,
                "seconds": each.span / 1e6,
                "rate": each.rate,
                "peak": each.peak,
                "late": each.late,
                "latest": each.latest / 1e6,
            }
            for each in self.sources
        ]


def record_job(
    job: str | CapturedJob,
    out: Path,
    seconds: float,
    *,
    hash: Sequence[str] = (),
    drop: Sequence[str] = (),
    spark: Any = None,
    tell: Callable[[float], None] | None = None,
) -> JobRecording:
    """`job`: a script, as `job.py`, or `job.py:QUERY` for the sources of one of its queries."""
    if isinstance(job, str) and not is_job(job):
        raise UsageError(f"{job} is no PySpark job: write job.py, job.py:QUERY, or the file of a pipeline")
    if seconds <= 0:
        raise UsageError("a recording must last longer than 0s")
    found = captured(job, spark) if isinstance(job, str) else job
    return JobRecording(out, tuple(record_sources(found, out, seconds, hashed=hash, dropped=drop, tell=tell)))
