"""Errors of streams, other than bad arguments."""

from riprap.base.errors import DataError


class Damaged(DataError):
    """Bytes of a stream whose checksum does not match. Names the file and the offset of the first bad message."""

    def __init__(self, file: str, offset: int, what: str) -> None:
        super().__init__(
            f"{file} is damaged at byte {offset}: {what}; everything before it was read and is sound "
            "(`riprap stream verify` lists all damage)"
        )
        self.file = file
        self.offset = offset
        self.what = what

    def __reduce__(self) -> tuple[type["Damaged"], tuple[str, int, str]]:
        return Damaged, (self.file, self.offset, self.what)  # Spark pickles errors across processes


class Fenced(DataError):
    """A newer epoch has replaced the producer. Its later appends are not acknowledged."""


class Busy(DataError):
    """Another process is writing the stream, and the caller's epoch does not replace it."""
