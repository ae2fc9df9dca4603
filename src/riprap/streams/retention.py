"""What may be deleted: whole finished segments, oldest first, never past a registered reader unless forced.

A reader registers, in `readers/NAME.json`, the position of its *oldest* retained checkpoint: the earliest that it may
read again. Registering and trimming exclude each other (`Files.exclusive`), so an accepted position stays readable. A
run registers too, with its directory: it retains what it needs to be resumed, until it has read its inputs to their
end, or trimming is forced past it.

A crash while trimming leaves some of the segments deleted, oldest first. A damaged registration stops trimming. Before
anything is deleted, the new start is written to `trimmed.json`: rows that are missing without it were lost.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import takewhile

from riprap.base.clock import Clock
from riprap.base.errors import DataError, UsageError
from riprap.streams.description import StreamSettings
from riprap.streams.segment import segment_name
from riprap.streams.segment_summary import Summary
from riprap.streams.stream_errors import Damaged
from riprap.streams.stream_files import Files, get_document, put_document

READERS = "readers"
TRIMMED = "trimmed.json"
_NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]*$")


@dataclass(frozen=True)
class RegisteredReader:
    position: int
    run: str = ""  # the directory of the run that it belongs to


def register(files: Files, first: int, name: str, reader: RegisteredReader) -> None:
    """`first` is the position of the oldest retained row; called within `files.exclusive()`."""
    position = reader.position
    if not _NAME.match(name):
        raise UsageError(f"a reader's name may have letters, digits, '.', '_' and '-' only, not {name!r}")
    if position < first:
        raise DataError(f"reader {name} needs position {position}, but the stream was trimmed up to {first}")
    put_document(files, f"{READERS}/{name}.json", {key: value for key, value in asdict(reader).items() if value != ""})


def unregister(files: Files, name: str) -> None:
    files.delete(f"{READERS}/{name}.json")


def registered(files: Files) -> dict[str, RegisteredReader]:
    """By name; raises `Damaged` if a registration cannot be read."""
    found = {}
    for name in files.names(READERS):
        if name.endswith(".json"):
            content = get_document(files, f"{READERS}/{name}")
            position, run = content.get("position"), content.get("run", "")
            if not isinstance(position, int) or not isinstance(run, str):
                raise Damaged(f"{files.location}/{READERS}/{name}", 0, "a document without a position")
            found[name[:-5]] = RegisteredReader(position, run)
    return found


Discard = Callable[[Summary], None]  # replaces the deletion of a trimmed segment's file


def delete(files: Files, oldest_first: Sequence[Summary], force: bool, discard: Discard | None = None) -> list[Summary]:
    """Delete segments in this order, up to the first that a registered reader needs; returns those deleted."""
    with files.exclusive():
        readers = registered(files)
        needed = min((reader.position for reader in readers.values()), default=None) if not force else None
        doomed = list(takewhile(lambda item: needed is None or item.next_position <= needed, oldest_first))
        if doomed:
            end = doomed[-1].next_position
            put_document(files, TRIMMED, {"position": end})
            for name, reader in readers.items():
                if reader.run and reader.position < end:  # forced: that run cannot resume, so its registration is void
                    unregister(files, name)
        for item in doomed:
            if discard is None:
                files.delete(segment_name(item.segment))
            else:
                discard(item)
    return doomed


def trimmed(files: Files) -> int:
    """The position before which rows may have been deleted; raises `Damaged` if its document cannot be read."""
    try:
        position = get_document(files, TRIMMED).get("position")
    except FileNotFoundError:
        return 0
    if not isinstance(position, int):
        raise Damaged(f"{files.location}/{TRIMMED}", 0, "a document without a position")
    return position


def enforce(
    files: Files, finished: Sequence[Summary], settings: StreamSettings, clock: Clock, discard: Discard | None = None
) -> None:
    """Delete segments beyond the age or size that the settings retain. Called at every roll."""
    if settings.retain_age is None and settings.retain_bytes is None:
        return
    excess = sum(item.end for item in finished) - (settings.retain_bytes or 0)
    doomed = []
    for item in finished:
        too_much = settings.retain_bytes is not None and excess > 0
        too_old = settings.retain_age is not None and clock.now() - item.finished_at > settings.retain_age
        if not too_much and not too_old:
            break
        doomed.append(item)
        excess -= item.end
    delete(files, doomed, force=False, discard=discard)
