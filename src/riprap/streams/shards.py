"""Persistent streams that together are one: what a sink of several shards writes.

    NAME/0, NAME/1, …    a stream each, in the order of its own keys

Whoever wants one order sorts by the order key, which is unique over all of them.
"""

from pathlib import Path

import pyarrow as pa

from riprap.streams.description import DESCRIPTION
from riprap.streams.stream import Stream


def shards(location: str | Path) -> list[str]:
    """The streams at a location: itself, or those in its numbered directories, in their order."""
    path = Path(str(location))
    if (path / DESCRIPTION).exists() or not path.is_dir():
        return [str(location)]
    numbered = [
        each
        for each in path.iterdir()
        if each.name.isascii() and each.name.isdecimal() and (each / DESCRIPTION).exists()
    ]
    return [str(each) for each in sorted(numbered, key=lambda each: int(each.name))] or [str(location)]


def read_table(location: str | Path) -> pa.Table:
    """All rows, in the order of their keys where they come from several; raises what was lost of a stream."""
    paths = shards(location)
    tables = []
    for path in paths:
        stream = Stream.open(path).require_whole()
        tables.append(pa.Table.from_batches([item.batch for item in stream.read()], schema=stream.schema))
    if len(tables) == 1:
        return tables[0]
    table = pa.concat_tables(tables)
    keys = [(name, "ascending") for name in ("_ts", "_src", "_seq", "_n") if name in table.schema.names]
    return table.sort_by(keys)
