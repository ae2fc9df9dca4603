"""Kills and power cuts while appends are gathered, each a pure function of a seed: before they are written, in the
middle of the write, between write and sync. What is left is a prefix of what was appended, whole appends with their
records; nothing of it is missing that was acknowledged or that a reader has seen; and who comes back goes on behind it.

A crash is an image of the directory: that of a kill as it is, for what was written is the kernel's; that of a power cut
without some of what was not synced. The next life begins with the image, and the writer of before is forgotten.
"""

import shutil
import threading
from random import Random

import pytest
from tests.simulation.schedules import batches
from tests.simulation.shares import soak
from tests.streams.test_gathering import SCHEMA, rows_from

from riprap.streams import OrderKey, PersistentStream
from riprap.streams.log import Log
from riprap.streams.mark import MARK
from riprap.streams.reader import StoredMark
from riprap.streams.segment import segment_name
from riprap.streams.verify import verify


def history(random: Random) -> list[dict]:
    """What a producer appends: batches, some with a record, and punctuations; items are numbered."""
    made, row, number = [], 0, 0
    for _ in range(random.randint(10, 40)):
        if made and random.random() < 0.1:
            made.append({"row": row, "rows": 0, "last": number})
            number += 1
            continue
        rows = random.choice([1, 1, 2, 7, 40])
        made.append({
            "row": row, "rows": rows, "last": number + rows - 1,
            "payload": random.choice([b"", b"", b"p"]),
            "record": b"record %d" % number if random.random() < 0.2 else b"",
        })  # fmt: skip
        row, number = row + rows, number + rows
    return made


def said(entries: list[dict]) -> list[tuple]:
    """Item by item, what a stream is to have of these."""
    found = []
    for entry in entries:
        if not entry["rows"]:
            found.append(("punctuation", entry["last"]))
            continue
        first = entry["last"] - entry["rows"] + 1
        found += [(first + at, f"row {entry['row'] + at}", entry["payload"]) for at in range(entry["rows"])]
        if entry["record"]:
            found.append(("record", entry["record"]))
    return found


def told(path) -> list[tuple]:
    """The same, of a stream."""
    found = []
    for item in PersistentStream.open(path).read(marks=True):
        if isinstance(item, StoredMark):
            found.append((item.kind, item.payload if item.kind == "record" else item.header.sequence))
            continue
        first = item.header.sequence - item.batch.num_rows + 1
        texts = item.batch.column("text").to_pylist()
        found += [(first + at, text, item.payload) for at, text in enumerate(texts)]
    return found


class Disk:
    """What would be left of a stream if everything ended at a point; takes the image of one of them."""

    def __init__(self, path, image, random: Random, *, power: bool, stability: str, crashes: bool = True) -> None:
        self.path, self.image, self._random, self._power, self.stability = path, image, random, power, stability
        self.crashed, self.kind = False, ""
        self.futures: list = []
        self.kept = 0  # appends that have to be there
        self.seen: list[tuple] = []
        self.open = threading.Event()  # whether the writer may write
        self.open.set()
        self._left = random.randint(0, 40) if crashes else 10**9  # points before the end
        self._synced = (0, 0, b"", 0)  # segment, bytes of it, mark, appends that were acknowledged
        self._lock = threading.Lock()

    def acknowledged(self) -> int:
        return sum(future.done() for future in self.futures)

    def synced(self, log: Log) -> None:
        """All that was written survives a power cut from here on."""
        end, mark = log.end(), self.path / MARK
        held = mark.read_bytes() if mark.exists() else b""
        self._synced = (end.segment, end.offset, held, self.acknowledged())

    def point(self, kind: str, log: Log, since: int | None = None) -> None:
        """`since`: where the write began that this is the end of."""
        with self._lock:
            self._left -= 1
            if self._left >= 0 or self.crashed:
                return
            self.crashed, self.kind = True, kind
            end = log.end()
            shutil.copytree(self.path, self.image)
            survives = not self._power or self.stability == "fsync"
            self.kept = self.acknowledged() if survives else self._synced[3]
            self.seen = told(self.path) if survives else []
            least = end.offset if since is None else since
            if self._power:
                segment, least, mark, _ = self._synced
                assert segment == end.segment, "a segment that ends is synced"
                if self._random.random() < 0.5 and mark:
                    (self.image / MARK).write_bytes(mark)
            with open(self.image / segment_name(end.segment), "r+b") as file:
                file.truncate(self._random.randint(least, end.offset))


def live(disk: Disk, entries: list[dict], epoch: int, random: Random, monkeypatch) -> None:
    """One life: appends what the stream does not have, until the disk has crashed or all is there."""
    write, sync, begin = Log.write, Log.sync, Log.__init__

    def watched_begin(log, *arguments):
        begin(log, *arguments)
        disk.synced(log)

    def watched_write(log, messages):
        disk.open.wait()
        disk.point("gathered", log)
        since = log.end().offset
        write(log, messages)
        disk.point("written", log, since)

    def watched_sync(log, *_):
        disk.point("not synced", log)
        sync(log)
        disk.synced(log)

    with monkeypatch.context() as patch:
        patch.setattr("riprap.streams.writer.GATHERED", 60.0)  # seconds: until somebody waits
        patch.setattr(Log, "__init__", watched_begin)
        patch.setattr(Log, "write", watched_write)
        patch.setattr(Log, "sync", watched_sync)
        patch.setattr(Log, "sync_beside", watched_sync)
        patch.setattr("riprap.streams.writer._SYNC_EVERY", 0 if random.random() < 0.3 else 10**12)
        writer = PersistentStream.open(disk.path).writer(producer="p", epoch=epoch)
        stored = [entry for entry in entries if entry["last"] <= writer.last_sequence]
        assert said(stored) == told(disk.path), "what the writer goes on behind is what is there"
        disk.futures = [_Done() for _ in stored]
        disk.synced(writer._log)
        for entry in entries[len(stored) :]:
            if disk.crashed:
                break
            if disk.stability == "fsync" and random.random() < 0.3:
                disk.open.clear()  # what follows is gathered behind a write that takes its time
            disk.futures.append(appended(writer, entry))
            if random.random() < 0.2:
                disk.open.set()
                writer.flush()
            elif disk.open.is_set():
                disk.point("queued", writer._log)
            if random.random() < 0.4:
                disk.open.set()
        disk.open.set()
        writer.close()


class _Done:
    def done(self) -> bool:
        return True


def appended(writer, entry: dict):
    if not entry["rows"]:
        return writer.mark(OrderKey(entry["row"]), kind="punctuation", sequence=entry["last"])
    watermark = OrderKey(entry["row"]) if entry["last"] % 3 == 0 else None
    rows = rows_from(entry["row"], entry["rows"])
    return writer.append(
        rows, sequence=entry["last"], watermark=watermark, payload=entry["payload"], record=entry["record"]
    )


def check(seed: int, place, monkeypatch) -> list[str]:
    """Gives at which points it crashed."""
    random = Random(f"gathered {seed}")
    entries, stability = history(random), random.choice(["async", "async", "fsync"])
    path, points = place / f"{seed}-0", []
    PersistentStream.create(path, SCHEMA, stability=stability, memory_bytes=0)
    for epoch in range(1, random.randint(2, 5)):
        power = random.random() < 0.5
        disk = Disk(path, place / f"{seed}-{epoch}", random, power=power, stability=stability)
        live(disk, entries, epoch, random, monkeypatch)
        if not disk.crashed:
            break
        shutil.rmtree(path)
        path = disk.image
        points.append(f"{'power' if power else 'kill'}, {stability}, {disk.kind}")
        left = told(path)
        whole = [count for count in range(len(entries) + 1) if said(entries[:count]) == left]
        assert whole, "a prefix of whole appends"
        assert whole[-1] >= disk.kept, "what was acknowledged is there"
        assert left[: len(disk.seen)] == disk.seen, "what a reader has seen is there"
    last = Disk(path, path, random, power=False, stability=stability, crashes=False)
    live(last, entries, 9, random, monkeypatch)
    assert told(path) == said(entries), "each once"
    assert verify(PersistentStream.open(path)).damage == []
    return points


def check_all(seed: int, place, monkeypatch) -> list[str]:
    try:
        return check(seed, place, monkeypatch)
    except Exception as error:
        raise AssertionError(f"check({seed}) of {__name__} repeats it") from error


@pytest.mark.parametrize("seeds", batches(60), ids=str)
def test_a_crash_while_appends_are_gathered_leaves_whole_ones_and_none_is_missing(seeds, tmp_path, monkeypatch):
    points = [point for seed in seeds for point in check_all(seed, tmp_path, monkeypatch)]
    assert len(set(points)) > 5  # or nothing was tried


@pytest.mark.soak
def test_thousands_of_crashes_while_appends_are_gathered(tmp_path, monkeypatch):
    def one(seed: int) -> None:
        check_all(seed, tmp_path, monkeypatch)
        shutil.rmtree(tmp_path)
        tmp_path.mkdir()

    soak(1000, 4000, one)
