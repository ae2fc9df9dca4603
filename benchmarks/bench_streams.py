"""Persistent streams against what one would do without them: plain writes, plain reads, a file per batch."""

import json
import os
import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from benchmarks.harness import Result, at_least, at_most, reported, side_by_side
from riprap.base.randomness import generator
from riprap.streams import PersistentStream
from riprap.streams.stream_files import LocalFiles

TS = pa.timestamp("us", "UTC")
BLOCKS = (64, 184, 736)  # KiB: 184 tuples of 256 B (with their overhead), 1 KiB and 4 KiB, as in the thesis
TUPLES = 184
TOTAL = 64 << 20  # bytes written per round, over all streams


def run() -> Iterator[Result]:
    with tempfile.TemporaryDirectory(prefix="riprap-bench-") as scratch:
        directory = Path(scratch)
        yield from appends(directory)
        yield from latency(directory)
        yield from replay(directory)
        yield from seek(directory)
        yield from small_files(directory)


def blocks(kib: int, count: int, first: int = 0) -> tuple[pa.Schema, list[pa.RecordBatch]]:
    """Batches of 184 tuples whose columns take `kib` KiB; the payload is random and shared."""
    width = kib * 1024 // TUPLES - 16
    schema = pa.schema([("_ts", TS), ("_seq", pa.int64()), ("payload", pa.binary(width))])
    data = generator(1, "payload", kib).bytes(TUPLES * width)
    payload = pa.Array.from_buffers(pa.binary(width), TUPLES, [None, pa.py_buffer(data)])
    made = []
    for number in range(first, first + count):
        seq = np.arange(number * TUPLES, (number + 1) * TUPLES)
        made.append(pa.record_batch([pa.array(seq, TS), pa.array(seq), payload], schema=schema))
    return schema, made


def concurrently(tasks: list[Callable[[], None]]) -> float:
    """Seconds until all of them are done, each in a thread of its own."""
    threads = [threading.Thread(target=task) for task in tasks]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.perf_counter() - start


def appends(directory: Path) -> Iterator[Result]:
    for kib in BLOCKS:
        for streams in (1, 2, 4, 8):
            count = TOTAL // (kib * 1024) // streams
            schema, made = blocks(kib, count)
            block = generator(2, "block").bytes(kib * 1024)
            taken: dict[str, list[float]] = {"plain": [], "stream": []}
            for round_ in range(6):
                for name, measure in (("plain", _plain), ("stream", _stable)):
                    elapsed = measure(directory, streams, schema, made, block)
                    if round_:
                        taken[name].append(elapsed)
            plain, stream = (statistics.median(taken[name]) for name in ("plain", "stream"))
            rate = streams * count * kib * 1024 / 1e6
            how = f"MB/s over all: stable appends {rate / stream:.0f}, plain write+fdatasync {rate / plain:.0f}"
            yield at_least(f"stable appends, {kib} KiB, {streams} streams", plain / stream, 0.85, how)


def _plain(directory: Path, streams: int, _: pa.Schema, made: list[pa.RecordBatch], block: bytes) -> float:
    files = [os.open(directory / f"plain-{at}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC) for at in range(streams)]

    def loop(file: int) -> None:
        for _ in made:
            os.write(file, block)
            os.fdatasync(file)

    elapsed = concurrently([lambda file=file: loop(file) for file in files])  # type: ignore[misc]
    for at, file in enumerate(files):
        os.close(file)
        (directory / f"plain-{at}").unlink()
    return elapsed


def _stable(directory: Path, streams: int, schema: pa.Schema, made: list[pa.RecordBatch], _: bytes) -> float:
    paths = [directory / f"stream-{at}" for at in range(streams)]
    writers = [PersistentStream.create(path, schema).writer() for path in paths]

    def loop(writer) -> None:
        for batch in made:
            writer.append(batch)
        writer.flush()

    elapsed = concurrently([lambda writer=writer: loop(writer) for writer in writers])  # type: ignore[misc]
    for writer, path in zip(writers, paths, strict=True):
        writer.close()
        shutil.rmtree(path)
    return elapsed


def latency(directory: Path) -> Iterator[Result]:
    """One append at a time, waited for, in turn with one plain write and fdatasync of as many bytes."""
    for kib in BLOCKS:
        schema, made = blocks(kib, 300)
        block = generator(2, "block").bytes(kib * 1024)
        file = os.open(directory / "plain", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        plain, stream = [], []
        with PersistentStream.create(directory / "latency", schema).writer() as writer:
            for batch in made:
                start = time.perf_counter()
                writer.append(batch).result()
                between = time.perf_counter()
                os.write(file, block)
                os.fdatasync(file)
                stream.append(between - start)
                plain.append(time.perf_counter() - between)
        os.close(file)
        shutil.rmtree(directory / "latency")
        for percent in (50, 99):
            ours, theirs = (float(np.percentile(times, percent)) * 1e6 for times in (stream, plain))
            how = f"append until stable {ours:.0f} µs, plain write+fdatasync {theirs:.0f} µs"
            yield reported(f"added latency, {kib} KiB, p{percent}", ours - theirs, "µs", how)


def replay(directory: Path) -> Iterator[Result]:
    for kib in BLOCKS:
        count = (192 << 20) // (kib * 1024)
        schema, made = blocks(kib, count)
        path = directory / "replay"
        stream = PersistentStream.create(path, schema, stability="async", segment_bytes=1 << 40)
        with stream.writer() as writer:
            for batch in made:
                writer.append(batch)
            writer.finish_segment()
        file = path / "00000000.arrow"

        def with_pyarrow(file: Path = file) -> int:
            with pa.OSFile(str(file)) as source:
                reader = pa.ipc.open_file(source)
                return sum(reader.get_batch(at).num_rows for at in range(reader.num_record_batches))

        def with_stream(path: Path = path) -> int:
            return sum(item.batch.num_rows for item in PersistentStream.open(path).read())

        assert with_pyarrow() == with_stream() == count * TUPLES
        warm = side_by_side({"pyarrow": with_pyarrow, "stream": with_stream}, rounds=7)
        rows = {name: count * TUPLES / seconds for name, seconds in warm.items()}
        how = (
            f"rows/s: replay with checksums {rows['stream']:,.0f}, pyarrow batch by batch {rows['pyarrow']:,.0f}; warm"
        )
        yield at_least(f"replay, {kib} KiB, warm", rows["stream"] / rows["pyarrow"], 0.8, how)
        cold: dict[str, list[float]] = {"pyarrow": [], "stream": []}
        for _ in range(3):
            for name, task in (("pyarrow", with_pyarrow), ("stream", with_stream)):
                _forget(file)
                start = time.perf_counter()
                task()
                cold[name].append(time.perf_counter() - start)
        slow = {name: count * TUPLES / statistics.median(times) for name, times in cold.items()}
        how = f"rows/s: replay {slow['stream']:,.0f}, pyarrow {slow['pyarrow']:,.0f}; page cache dropped before each"
        yield reported(f"replay, {kib} KiB, cold", slow["stream"] / slow["pyarrow"], "×", how)
        shutil.rmtree(path)
        yield from _followers(directory, kib, schema, made, rows["pyarrow"])


def _forget(file: Path) -> None:
    """Drop a file from the page cache, and from nobody else's."""
    descriptor = os.open(file, os.O_RDONLY)
    os.fdatasync(descriptor)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)


def _followers(
    directory: Path, kib: int, schema: pa.Schema, made: list[pa.RecordBatch], pyarrow_rate: float
) -> Iterator[Result]:
    """One that catches up with what was written before it came, against a plain read; and one that is there while rows
    are appended, from an empty stream to the last row. The latter sees nothing that was not written, so it is held
    against a plain write of as many bytes that is then read."""
    path, rows = directory / "follow", len(made) * TUPLES
    block = generator(2, "block").bytes(kib * 1024)

    def until_the_last(reader) -> None:
        for item in reader:
            if item.next_position == rows:
                return

    def catch_up() -> None:
        until_the_last(PersistentStream.open(path).read(follow=True))

    def plain() -> None:
        with open(directory / "plain", "wb", buffering=0) as file:
            for _ in made:
                file.write(block)
        into = pa.allocate_buffer(len(block))
        with open(directory / "plain", "rb", buffering=0) as file:
            while file.readinto(memoryview(into)):
                pass
        (directory / "plain").unlink()

    def live() -> None:
        stream = PersistentStream.create(directory / "live", schema, stability="async")
        with stream.writer() as writer:
            reader = stream.read(follow=True)
            concurrently([lambda: until_the_last(reader), lambda: [writer.append(batch) for batch in made] and None])
            served.append((reader.counts.live, reader.counts.stored))
            reader.close()
            took.append(time.perf_counter())
        shutil.rmtree(directory / "live")

    with PersistentStream.create(
        path, schema, stability="async", memory_bytes=0, segment_bytes=1 << 40
    ).writer() as writer:
        for batch in made:
            writer.append(batch)
        writer.flush()
        caught = rows / side_by_side({"follower": catch_up}, rounds=5)["follower"]
    shutil.rmtree(path)
    how = f"rows/s of one that catches up with an open segment {caught:,.0f}, pyarrow {pyarrow_rate:,.0f}; warm"
    name = f"follower that catches up, {kib} KiB, over a plain read"
    yield (
        at_least(name, caught / pyarrow_rate, 0.5, how)
        if kib == 184
        else reported(name, caught / pyarrow_rate, "×", how)
    )
    served: list[tuple[int, int]] = []
    took: list[float] = []
    times: dict[str, list[float]] = {"plain": [], "live": []}
    for round_ in range(6):
        for kind, task in (("plain", plain), ("live", live)):
            begin = time.perf_counter()
            task()
            if round_:  # without closing the stream, which syncs it
                times[kind].append((took[-1] if kind == "live" else time.perf_counter()) - begin)
    beside, alone = (statistics.median(times[kind]) for kind in ("live", "plain"))
    how = (
        f"{rows / beside:,.0f} rows/s while appended, plain write and read {rows / alone:,.0f}, plain read alone "
        f"{pyarrow_rate:,.0f}; batches from memory {served[-1][0]}, from disk {served[-1][1]}"
    )
    name = f"live follower, {kib} KiB, over a plain write and read"
    yield at_least(name, alone / beside, 0.5, how) if kib == 184 else reported(name, alone / beside, "×", how)


def seek(directory: Path) -> Iterator[Result]:
    """Batches of one row: as many entries as possible for the bytes."""
    schema = pa.schema([("_ts", TS), ("_seq", pa.int64())])
    taken = {}
    path = directory / "seek"
    stream = PersistentStream.create(path, schema, stability="none")
    written = 0
    for count in (1_000, 10_000, 100_000, 1_000_000):
        with stream.writer() as writer:
            while written < count:
                seq = np.arange(written, written + 1_000)
                rows = pa.record_batch([pa.array(seq * 1_000, TS), pa.array(seq)], schema=schema)
                writer.append_all([rows.slice(at, 1) for at in range(1_000)])
                written += 1_000
            writer.finish_segment()
        opened = PersistentStream.open(path)
        times = []
        for wanted in generator(3, "seek", count).integers(0, count, 300):
            start = time.perf_counter()
            found = next(opened.read(from_ts=int(wanted) * 1_000))
            times.append(time.perf_counter() - start)
            assert found.batch["_seq"][0].as_py() == wanted
        taken[count] = statistics.median(times)
        yield reported(
            f"find a timestamp among {count:,} batches", taken[count] * 1e6, "µs", "median of 300, first row read"
        )
    shutil.rmtree(path)
    growth = taken[1_000_000] / taken[1_000]
    yield at_most("find a timestamp, a million batches over a thousand", growth, 4, "logarithmic is 2, linear 1,000")


def small_files(directory: Path) -> Iterator[Result]:
    """The same batches, each committed as a small file of its own: what a lake format does with short batches."""
    from riprap.spark.session import session

    schema, made = blocks(184, 40)

    def with_stream() -> None:
        with PersistentStream.create(directory / "files-stream", schema).writer() as writer:
            for batch in made:
                writer.append(batch).result()
        shutil.rmtree(directory / "files-stream")

    def with_commits() -> None:
        lake = LocalFiles(directory / "files-lake")
        for number, batch in enumerate(made):
            sink = pa.BufferOutputStream()
            pyarrow.parquet.write_table(pa.table(batch), sink, compression="none")
            lake.put(f"part-{number:05d}.parquet", sink.getvalue())
            lake.put(f"_log/{number:020d}.json", json.dumps({"add": f"part-{number:05d}.parquet"}).encode())
        shutil.rmtree(directory / "files-lake")

    taken = side_by_side({"stream": with_stream, "commits": with_commits}, rounds=3)
    how = "184 KiB batches, each waited for: a stream against a synced Parquet file and a renamed log entry per batch"
    yield reported("stream over file-per-batch commits", taken["commits"] / taken["stream"], "×", how)
    spark = session()
    frames = [spark.createDataFrame(pa.table(batch)) for batch in made[:8]]
    frames[0].write.mode("append").parquet(str(directory / "files-spark"))
    start = time.perf_counter()
    for frame in frames[1:]:
        frame.write.mode("append").parquet(str(directory / "files-spark"))
    per_batch = (time.perf_counter() - start) / (len(frames) - 1)
    ours = taken["stream"] / len(made)
    how = (
        f"per 184 KiB batch: Spark's file sink {per_batch * 1e3:.0f} ms (not synced), stable append {ours * 1e3:.2f} ms"
    )
    yield reported("stream over Spark's file sink", per_batch / ours, "×", how)
    spark.stop()
