"""`record`: what the sources of an existing PySpark job bring, kept for assessments.

recording = riprap.record("job.py", out="recorded", seconds="10m", hash=["email"])
recording.paths                # {"clicks": recorded/clicks.parquet}
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from riprap.base.errors import UsageError
from riprap.base.tabular import Tabular
from riprap.spark.jobs.captured_job import CapturedJob
from riprap.spark.jobs.scripts import capture_script
from riprap.spark.session import session
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
    if seconds <= 0:
        raise UsageError("a recording must last longer than 0s")
    found = _captured(job, spark) if isinstance(job, str) else job
    return JobRecording(out, tuple(record_sources(found, out, seconds, hashed=hash, dropped=drop, tell=tell)))


def _captured(name: str, spark: Any) -> CapturedJob:
    file, _, query = name.partition(".py:") if ".py:" in name else (name.removesuffix(".py"), "", "")
    if not name.endswith(".py") and not query:
        raise UsageError(f"{name} is no PySpark script: write job.py, or job.py:QUERY")
    captured = capture_script(Path(f"{file}.py"), session(spark))
    return captured.only(query) if query else captured
