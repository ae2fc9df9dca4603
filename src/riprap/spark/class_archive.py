"""A class data sharing (CDS) archive of Spark's classes in the user's cache: a JVM that maps it starts sooner.

A JVM loads and verifies about ten thousand classes from Spark's jars before a session is ready. The first JVM of a
command writes its loaded classes to a file at its end (`-XX:ArchiveClassesAtExit`), which takes some seconds once;
later ones map it (`-XX:SharedArchiveFile`). The JVM itself checks whether an archive fits its class path and version,
and ignores it if not; the file name is a hash of both, so that each combination has its own.

A crash leaves nothing in the cache: the archive is written elsewhere and moved there when it is complete. As its
content is executed, it is only used from a directory that the user owns and that nobody else can write to.
"""

import hashlib
import os
import shutil
import stat
from contextlib import suppress
from pathlib import Path

# Hide the JVM's messages about archives: it also runs without one.
_SILENT = "-Xshare:auto -Xlog:disable"


class ClassArchive:
    """The archive of one command's JVM. `options`: the JVM options for it; `draft`: the file it writes, if any."""

    def __init__(self, java: str | None, spark: str, options: str, scratch: Path | None) -> None:
        """`options` of the JVM: others may load other classes. `scratch`: where to write a new one; None: do not."""
        self.draft: Path | None = None
        self.options = ""
        archive = None if java is None else _place(java, spark, options)
        if archive is None:
            return
        self._archive = archive
        if archive.exists():
            self.options = f"{_SILENT} -XX:SharedArchiveFile={archive}"
        elif scratch is not None:
            self.draft = scratch / "classes.jsa"
            self.options = f"{_SILENT} -XX:ArchiveClassesAtExit={self.draft}"

    def keep(self) -> None:
        """After the end of the JVM: move its archive into the cache."""
        if self.draft is None or not self.draft.exists():
            return
        new = self._archive.with_suffix(f".{os.getpid()}")
        with suppress(OSError):  # a full disk, or the cache was deleted: the next command tries again
            shutil.move(self.draft, new)
            new.replace(self._archive)
        new.unlink(missing_ok=True)


def _place(java: str, spark: str, options: str) -> Path | None:
    """The path of the archive for this Java and this Spark; None if the cache cannot be used."""
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
    if " " in str(place):  # options are split at spaces
        return None
    return place / f"{hashlib.sha256(known.encode()).hexdigest()[:40]}.jsa"
