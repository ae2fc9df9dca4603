"""The file names of a unit's checkpoints, and the fencing of older incarnations of the element.

    PE/epoch-EPOCH                  a claim: the element's incarnation of that epoch has started
    PE/UNIT/EPOCH-NUMBER.manifest   a checkpoint; the greatest (epoch, number) is the newest
    PE/UNIT/EPOCH-NUMBER.part       a part that manifests reference; numbered separately

Ids of elements and units are percent-encoded. Epochs and numbers have ten digits, so names sort like numbers.
"""

import re
from typing import NamedTuple
from urllib.parse import quote

from riprap.checkpoints.storage import Storage
from riprap.streams.stream_errors import Fenced

MANIFEST, PART = "manifest", "part"
_FILE = re.compile(r"([0-9]{10})-([0-9]{10})\.(manifest|part)")
_CLAIM = re.compile(r"epoch-([0-9]{10})")


class File(NamedTuple):
    """A file of a unit, by the components of its name; files compare like checkpoints."""

    epoch: int
    number: int
    kind: str

    @property
    def name(self) -> str:
        return f"{self.epoch:010d}-{self.number:010d}.{self.kind}"


def folder_of(pe: str, unit: str) -> str:
    return f"{quote(pe, safe='')}/{quote(unit, safe='')}"


def files_in(storage: Storage, folder: str, kind: str) -> list[File]:
    """Files of one kind, oldest first."""
    files = (parsed(name) for name in storage.names(folder))
    return sorted(file for file in files if file is not None and file.kind == kind)


def parsed(name: str) -> File | None:
    """The file of a unit with this name; None if the name is not one of those."""
    match = _FILE.fullmatch(name)
    return File(int(match[1]), int(match[2]), match[3]) if match is not None else None


class Claim:
    """The right of one incarnation to write. It ends when a newer incarnation claims the element."""

    def __init__(self, storage: Storage, pe: str, epoch: int) -> None:
        self._storage, self._pe, self._epoch = storage, pe, epoch
        self._folder = quote(pe, safe="")
        self.check()
        storage.write(f"{self._folder}/epoch-{epoch:010d}", b"")
        for older in self._claims():
            if older < epoch:
                storage.delete(f"{self._folder}/epoch-{older:010d}")

    def check(self) -> None:
        """Call it before writing a manifest. A newer claim between the two is harmless: epochs, not write times, decide
        which manifest is the newest.
        """
        newest = max(self._claims(), default=self._epoch)
        if newest > self._epoch:
            raise Fenced(
                f"element {self._pe}: a checkpoint of epoch {self._epoch} is refused, because epoch {newest} has "
                "replaced it; this incarnation has to stop"
            )

    def _claims(self) -> list[int]:
        matches = (_CLAIM.fullmatch(name) for name in self._storage.names(self._folder))
        return [int(match[1]) for match in matches if match is not None]
