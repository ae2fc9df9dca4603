"""Spark's classes as the JVM has them in memory, kept in the user's cache: a JVM that maps them starts sooner.

A JVM loads and checks some ten thousand classes from Spark's jars until a session is there. The first one that a
command starts writes those that it has loaded to a file when it ends (`-XX:ArchiveClassesAtExit`), which takes it some
seconds once; later ones map it (`-XX:SharedArchiveFile`). The JVM looks itself whether an archive fits its class path
and version, and does without one that does not; the file's name stands for both, so that another gets its own.

A crash leaves nothing in the cache: the archive is written elsewhere, and moved there when it is whole. As its content
is executed it is used only from a directory that belongs to the user and that nobody else can write.
"""

import hashlib
import os
import shutil
import stat
from contextlib import suppress
from pathlib import Path

# Nothing of what a JVM has to say about archives is for the user: it goes on without.
_SILENT = "-Xshare:auto -Xlog:disable"


class ClassArchive:
    """Of the JVM of one command. `options` are what it is started with; `draft` is what it writes, if it does."""

    def __init__(self, java: str | None, spark: str, options: str, scratch: Path | None) -> None:
        """`options` of the JVM: others may need other classes. `scratch`: where to write a new one; None: nowhere."""
        self.draft: Path | None = None
        self.options = ""
        found = None if java is None else _place(java, spark, options)
        if found is None:
            return
        self._kept = found
        if found.exists():
            self.options = f"{_SILENT} -XX:SharedArchiveFile={found}"
        elif scratch is not None:
            self.draft = scratch / "classes.jsa"
            self.options = f"{_SILENT} -XX:ArchiveClassesAtExit={self.draft}"

    def keep(self) -> None:
        """Move what the JVM has written, when it has ended, to where others find it."""
        if self.draft is None or not self.draft.exists():
            return
        new = self._kept.with_suffix(f".{os.getpid()}")
        with suppress(OSError):  # a full disk, a cache that is gone: the next one tries again
            shutil.move(self.draft, new)
            new.replace(self._kept)
        new.unlink(missing_ok=True)


def _place(java: str, spark: str, options: str) -> Path | None:
    """Where the archive of this Java and this Spark is, or would be; None where none can be kept."""
    place = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "riprap" / "classes"
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        status, runner = place.stat(), Path(java).resolve()
        jars = sorted((entry.name, entry.stat().st_size) for entry in os.scandir(Path(spark, "jars")))
        known = f"{runner}\0{runner.stat().st_mtime_ns}\0{spark}\0{jars}\0{options}"
    except OSError:
        return None
    if status.st_uid != os.getuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH) or not os.access(place, os.W_OK):
        return None
    if " " in str(place):  # options are divided at spaces
        return None
    return place / f"{hashlib.sha256(known.encode()).hexdigest()[:40]}.jsa"
