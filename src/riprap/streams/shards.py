"""Persistent streams that together are one: what a sink of several shards writes.

    NAME/0, NAME/1, …    a stream each, in the order of its own keys

Whoever wants one order sorts by the order key, which is unique over all of them.
"""

from pathlib import Path

import pyarrow as pa

from riprap.base import files
from riprap.streams.description import DESCRIPTION
from riprap.streams.stream import PersistentStream


def shards(location: str | Path) -> list[str]:
    """The streams at a location, a real path: itself, or those in its numbered directories, in their order."""
    path = Path(location)
    if files.exists(path / DESCRIPTION) or not files.is_directory(path):
        return [str(location)]
    numbers = [name for name in files.names(path) if name.isascii() and name.isdecimal()]
    streams = [name for name in sorted(numbers, key=int) if files.exists(path / name / DESCRIPTION)]
    return [str(path / name) for name in streams] or [str(location)]


def read_table(location: str | Path) -> pa.Table:
    """All rows, in the order of their keys where they come from several; raises what was lost of a stream."""
    paths = shards(files.real(location))
    tables = []
    for path in paths:
        stream = PersistentStream.open(path).require_whole()
        tables.append(pa.Table.from_batches([item.batch for item in stream.read()], schema=stream.schema))
    if len(tables) == 1:
        return tables[0]
    table = pa.concat_tables(tables)
    keys = [(name, "ascending") for name in ("_ts", "_src", "_seq", "_n") if name in table.schema.names]
    return table.sort_by(keys)
