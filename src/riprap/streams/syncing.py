"""Syncs beside the writer, for streams whose appends do not wait for one (`stability="async"`).

A sync of much that was written takes as long as the disk does. Nobody waits for it here, so it must not hold up what is
appended meanwhile: it runs in a thread of its own, on a descriptor of its own, one at a time. What goes wrong is raised
by the next look.
"""

import os
import threading


class BackgroundSync:
    """Of one writer."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._failure: OSError | None = None

    @property
    def busy(self) -> bool:
        if self._failure is not None:
            raise self._failure
        return self._thread is not None and self._thread.is_alive()

    def start(self, file: int) -> None:
        """Sync what was written to a file so far; it may be closed meanwhile."""
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
        """Wait for one that is under way."""
        if self._thread is not None:
            self._thread.join()
