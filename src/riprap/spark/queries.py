"""Streaming queries that are restarted when they fail.

For each Python source Spark starts a process that has ten seconds to import pyspark and to connect; no setting changes
that. On a busy machine it takes longer, and the query fails before its first row. That is no fault of the query, so it
is restarted from its checkpoint.
"""

from collections.abc import Callable

from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming import StreamingQuery

_LATE, _LATE_STARTS = "failed to connect back", 20


class Restarted:
    """A query with a checkpoint. `restarts`: how many failures of another kind it survives."""

    def __init__(self, start: Callable[[], StreamingQuery], restarts: int = 0) -> None:
        self._start, self._most = start, restarts
        self._late = 0
        self.restarts = 0
        self.query = start()

    def look(self) -> None:
        """Restart the query if it has failed."""
        failed = self.query.exception()
        if failed is not None:
            self._again(failed)

    def until(self, done: Callable[[StreamingQuery], object]) -> StreamingQuery:
        """Wait with a method of the query, such as `awaitTermination`."""
        while True:
            try:
                done(self.query)
                return self.query
            except StreamingQueryException as failed:
                self._again(failed)

    def _again(self, failed: Exception) -> None:
        if _LATE in str(failed):
            self._late += 1
        else:
            self.restarts += 1
        if self._late > _LATE_STARTS or self.restarts > self._most:
            raise failed
        self.query = self._start()
