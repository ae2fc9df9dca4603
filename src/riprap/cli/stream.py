"""`riprap stream`: lists, shows, verifies, follows, exports and trims persistent streams."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from riprap.base.errors import CheckFailed, UsageError
from riprap.cli.arguments import Commands

if TYPE_CHECKING:
    import pyarrow as pa

app = Commands(help="List, show, verify, follow, export and trim persistent streams.", no_args_is_help=True)

Path_ = Annotated[str, typer.Argument(metavar="STREAM", help="Directory or URI of the stream.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
From = Annotated[str | None, typer.Option("--from", metavar="TS", help="First _ts: 2009-04-02T09:30:00Z or µs.")]
To = Annotated[str | None, typer.Option("--to", metavar="TS", help="End, exclusive.")]

_SHOWN_SEGMENTS = 20


@app.command("ls")
def ls(
    directory: Annotated[Path, typer.Argument(help="Where to search, at any depth.")] = Path(),
    json: Json = False,
) -> None:
    """List the streams below a directory, with sizes, time ranges and rates."""
    from rich.table import Table

    from riprap.base.quantities import format_count, format_size
    from riprap.cli.console import OUT, print_json, print_table
    from riprap.streams.overview import overview, streams_below
    from riprap.streams.stream import PersistentStream

    if not directory.is_dir():
        raise UsageError(f"{directory} is not a directory: give one that contains streams")
    found = [overview(PersistentStream.open(path)) for path in streams_below(directory)]
    if json:
        print_json([vars(item) for item in found])
        return
    if not found:
        OUT.print(f"no streams below {directory}", soft_wrap=True)
        return
    table = Table(box=None)
    for column in ("stream", "rows", "size", "from", "for", "rows/s"):
        table.add_column(column, justify="left" if column in ("stream", "from") else "right", no_wrap=True)
    rows = [
        (
            os.path.relpath(item.location, directory), format_count(item.rows), format_size(item.bytes),
            _second(item.min_ts), _length(item.min_ts, item.max_ts),
            "" if item.rows_per_second is None else format_count(item.rows_per_second),
        )
        for item in found
    ]  # fmt: skip
    for row in rows:
        table.add_row(*row)
    if not print_table(table):  # names are not broken: each gets a line
        for name, count, size, since, length, rate in rows:
            when = f", from {since} for {length}" if since else ""
            OUT.print(f"{name}\n    {count} rows, {size}{when}{f', {rate} rows/s' if rate else ''}", soft_wrap=True)


@app.command("show")
def show(stream: Path_, json: Json = False) -> None:
    """Show one stream: schema, settings, segments, registered readers, and whether it is being written."""
    from dataclasses import asdict

    from rich.table import Table

    from riprap.base.quantities import format_count, format_size
    from riprap.cli.console import OUT, print_json
    from riprap.records.listing import newest
    from riprap.streams.overview import overview, segment_table
    from riprap.streams.stream import PersistentStream

    opened = PersistentStream.open(stream)
    seen, segments, record = overview(opened), segment_table(opened), newest(opened)
    if json:
        columns = {field.name: str(field.type) for field in opened.schema}
        settings = asdict(opened.description.settings)
        recorded = None if record is None else vars(record)
        print_json({**vars(seen), "columns": columns, "settings": settings, "finished": segments, "record": recorded})
        return
    facts = {
        "stream": f"{seen.location}  ({seen.id})",
        "rows": f"{format_count(seen.rows)}, positions {format_count(seen.first_position)} to "
        f"{format_count(seen.next_position)}",
        "size": f"{format_size(seen.bytes)} in {seen.segments} segments",
        "time": f"{_when(seen.min_ts)} to {_when(seen.max_ts)}" if seen.rows else "no rows",
        "rate": f"{format_count(seen.rows_per_second)} rows/s, {format_size(int(seen.bytes_per_second or 0))}/s"
        if seen.rows_per_second
        else "",
        "columns": ", ".join(f"{field.name} {field.type}" for field in opened.schema),
        "settings": ", ".join(f"{name} {value}" for name, value in asdict(opened.description.settings).items()),
        "writer": "alive" if seen.written else "none",
        "records": ""
        if record is None
        else f"the newest is {record.frame}: {format_count(record.open)} windows are open, "
        f"{format_count(record.replay)} rows of input would be replayed",
        "readers": ", ".join(f"{name} at {format_count(at)}" for name, at in seen.readers.items()) or "none",
    }
    table = Table(box=None, show_header=False)
    for name, value in facts.items():
        if value:
            table.add_row(name, value)
    OUT.print(table)
    listing = Table(
        box=None, title=f"the newest {_SHOWN_SEGMENTS} finished" if len(segments) > _SHOWN_SEGMENTS else None
    )
    for column in ("segment", "position", "rows", "batches", "size", "from", "to"):
        listing.add_column(column, justify="left" if column in ("segment", "from", "to") else "right")
    for row in segments[-_SHOWN_SEGMENTS:]:
        values: dict[str, Any] = row
        listing.add_row(
            values["segment"], format_count(values["position"]), format_count(values["rows"]),
            format_count(values["batches"]), format_size(values["bytes"]),
            _when(values["min_ts"]), _when(values["max_ts"]),
        )  # fmt: skip
    if segments:
        OUT.print(listing)


@app.command("verify")
def verify(stream: Path_, json: Json = False) -> None:
    """Verify every checksum; list the damage and exit 1 if one is wrong."""
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

    from riprap.base.quantities import format_count, format_size
    from riprap.cli.console import ERR, OUT, print_json
    from riprap.records.listing import check as check_records
    from riprap.streams.stream import PersistentStream
    from riprap.streams.verify import verify as check

    opened = PersistentStream.open(stream)
    with Progress(TextColumn("checking"), BarColumn(), DownloadColumn(), console=ERR, transient=True) as progress:
        task = progress.add_task("checking", total=None)
        report = check(opened, lambda done, of: progress.update(task, completed=done, total=of))
    records, wrong = (0, []) if report.damage else check_records(opened)
    if json:
        damage = [vars(item) for item in report.damage]
        print_json({**vars(report), "damage": damage, "records": records, "wrong_records": wrong})
    else:
        for item in report.damage:
            OUT.print(f"{item.file}: byte {item.offset}: {item.what}", soft_wrap=True)
        for text in wrong:
            OUT.print(text, soft_wrap=True)
        OUT.print(
            f"{format_count(report.batches)} batches, {format_count(report.rows)} rows, "
            f"{format_size(report.bytes)} in {report.segments} segments are intact"
            + (f"; {format_count(records)} records are consistent" if records and not wrong else "")
            + ("" if report.segments or report.damage else ": nothing was ever written to it, or all of it is gone")
        )
    if report.damage or wrong:
        raise CheckFailed(f"{stream} is damaged in {len(report.damage) + len(wrong)} places, listed above")


@app.command("records")
def records(
    stream: Path_,
    rows: Annotated[int, typer.Option("--rows", "-n", min=0, help="How many of the last records; 0: all.")] = 20,
    json: Json = False,
) -> None:
    """List the records of continuous checkpoints that a stream carries."""
    from collections import deque

    from rich.table import Table

    from riprap.base.quantities import format_count, format_size
    from riprap.cli.console import OUT, print_json
    from riprap.records import listing
    from riprap.streams.stream import PersistentStream

    found = deque(listing.records(PersistentStream.open(stream)), rows or None)
    if json:
        print_json([vars(line) for line in found])
        return
    if not found:
        OUT.print(f"{stream} has no records: it is not the output of an operator with continuous checkpoints")
        return
    table = Table(box=None)
    for column in ("record", "position", "epoch", "size", "opened", "checked", "closed", "open", "replay"):
        table.add_column(column, justify="right")
    for line in found:
        counts = (line.opened, line.checked, line.closed, line.open, line.replay)
        table.add_row(
            str(line.frame), format_count(line.position), str(line.epoch), format_size(line.bytes),
            *map(format_count, counts),
        )  # fmt: skip
    OUT.print(table)


@app.command("tail")
def tail(
    stream: Path_,
    start: From = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Print new rows as they come; stop with Ctrl-C.")
    ] = False,
    rows: Annotated[int, typer.Option("--rows", "-n", min=0, help="Without --from: how many of the last rows.")] = 10,
    json: Json = False,
) -> None:
    """Print the last rows, or those from a time on; with --follow also new ones."""
    from riprap.streams.stream import PersistentStream

    opened = PersistentStream.open(stream)
    first = 0 if start is not None else max(opened.stable().position - rows, opened.first_position())
    reader = opened.read(from_position=first, from_ts=start, follow=follow)
    try:
        for item in reader:
            _print_rows(item.batch, json)
    except KeyboardInterrupt:
        reader.close()


@app.command("export")
def export(
    stream: Path_,
    target: Annotated[Path, typer.Argument(help="File to write: .arrow, .parquet or .csv.")],
    start: From = None,
    end: To = None,
    columns: Annotated[str | None, typer.Option(help="Column names, comma-separated.")] = None,
) -> None:
    """Export a stream, or a part of it, to one file of another format."""
    import pyarrow as pa

    from riprap.base.quantities import format_count
    from riprap.cli.console import ERR
    from riprap.streams.stream import PersistentStream

    opened = PersistentStream.open(stream).require_whole()
    names = None if columns is None else [name.strip() for name in columns.split(",")]
    reader = opened.read(from_ts=start, to_ts=end, columns=names)
    schema = opened.schema if names is None else pa.schema([opened.schema.field(name) for name in names])
    count, work = 0, target.with_name(f"{target.name}.part")
    try:
        with _file_writer(target.suffix, work, schema) as writer:
            for item in reader:
                writer.write_batch(item.batch)
                count += item.batch.num_rows
        work.rename(target)  # complete or absent
    finally:
        work.unlink(missing_ok=True)
    ERR.print(f"{format_count(count)} rows written to {target}")


@app.command("trim")
def trim(
    stream: Path_,
    before: Annotated[str | None, typer.Option(metavar="TS", help="Delete segments wholly before this time.")] = None,
    before_position: Annotated[int | None, typer.Option(help="Delete segments wholly before this position.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Also delete what registered readers still need.")] = False,
    json: Json = False,
) -> None:
    """Delete finished segments, oldest first, as far as registered readers allow."""
    from riprap.base.quantities import format_count, format_size
    from riprap.cli.console import OUT, print_json
    from riprap.streams.stream import PersistentStream

    opened = PersistentStream.open(stream)
    deleted = opened.trim(before_ts=before, before_position=before_position, force=force)
    rows, size = sum(item.rows for item in deleted), sum(item.end for item in deleted)
    if json:
        print_json({"segments": len(deleted), "rows": rows, "bytes": size})
    else:
        OUT.print(f"deleted {len(deleted)} segments: {format_count(rows)} rows, {format_size(size)}")
        readers, first = opened.readers(), opened.first_position()
        for name, run in opened.held_by().items():
            end = before_position if before_position is not None else opened.stable().position
            if readers[name] < end and not force:
                OUT.print(
                    f"the run in {run} needs the stream from position {format_count(max(readers[name], first))} on "
                    "until its inputs have ended; --force deletes it, but then the run cannot be resumed",
                    soft_wrap=True,
                )


def _second(ts: int | None) -> str:
    """To the second, for a table."""
    return _when(ts if ts is None else ts - ts % 1_000_000)


def _length(first: int | None, last: int | None) -> str:
    from riprap.base.quantities import show_duration

    return "" if first is None or last is None else show_duration(max(last - first, 0))


def _when(ts: int | None) -> str:
    from datetime import UTC, datetime, timedelta

    if ts is None:
        return ""
    try:
        return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=ts)).isoformat().replace("+00:00", "Z")
    except OverflowError:
        return f"{ts} µs"


def _print_rows(batch: "pa.RecordBatch", json: bool) -> None:
    from json import dumps

    from riprap.cli.console import print_line

    for row in batch.to_pylist():
        if json:
            print_line(dumps(row, default=str))
        else:
            print_line("  ".join(f"{name}={value}" for name, value in row.items()))


def _file_writer(suffix: str, target: Path, schema: "pa.Schema") -> Any:
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    writers = {
        ".arrow": lambda: pa.ipc.new_file(str(target), schema),
        ".parquet": lambda: pyarrow.parquet.ParquetWriter(target, schema),
        ".csv": lambda: pyarrow.csv.CSVWriter(str(target), schema),
    }
    if suffix not in writers:
        raise UsageError(f"cannot tell the format of {target.stem}: end its name with {', '.join(writers)}")
    return writers[suffix]()
