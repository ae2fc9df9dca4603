"""Background syncs, for streams whose appends do not wait for one (`stability="async"`).

A sync of much data is slow. No append waits for it here, so it must not block later appends: it runs in its own thread,
on its own descriptor, one at a time. An error is raised by the next call of `busy`.
"""

import os
import threading


class BackgroundSync:
    """The background syncs of one writer."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._failure: OSError | None = None

    @property
    def busy(self) -> bool:
        if self._failure is not None:
            raise self._failure
        return self._thread is not None and self._thread.is_alive()

    def start(self, file: int) -> None:
        """Sync what was written to a file so far; the file may be closed in the meantime."""
        self._thread = threading.Thread(target=self._run, args=(os.dup(file),), name="riprap-sync", daemon=True)
        self._thread.start()

    def _run(self, file: int) -> None:
        try:
            os.fdatasync(file)
        except OSError as error:
            self._failure = error
        finally:
            os.close(file)

    def close(self) -> None:
        """Wait for a running sync."""
        if self._thread is not None:
            self._thread.join()
