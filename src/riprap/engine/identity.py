"""Identifies an input by a digest of its content. A file that was written again keeps its identity if it is equal.

A file of up to 256 MiB is hashed completely. Of a larger file the digest covers the length, the last 64 KiB (the footer
of Parquet and Arrow files, which has the statistics of every column), 64 KiB at each of 256 positions, and the
modification time. Names do not count: a file may be moved.
"""

from hashlib import blake2b
from pathlib import Path

WHOLE = 256 << 20  # bytes; larger files are sampled
_SAMPLE = 64 << 10
_SAMPLES = 256
_BLOCK = 4 << 20


def content_digest(path: Path) -> str:
    """The digest of a file, or of all files below a directory in the order of their names."""
    total = blake2b(digest_size=16)
    for file in sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]:
        total.update(_file_digest(file))
    return total.hexdigest()


def _file_digest(path: Path) -> bytes:
    about = path.stat()
    total = blake2b(str(about.st_size).encode(), digest_size=16)
    with path.open("rb", buffering=0) as file:
        if about.st_size <= WHOLE:
            while block := file.read(_BLOCK):
                total.update(block)
            return total.digest()
        for number in range(_SAMPLES + 1):
            file.seek((about.st_size - _SAMPLE) * number // _SAMPLES)
            total.update(file.read(_SAMPLE))
    total.update(str(about.st_mtime_ns).encode())
    return total.digest()
