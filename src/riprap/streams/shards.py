"""A sharded persistent stream: the output of a sink with several shards.

    NAME/0, NAME/1, …    one stream each, in key order

To get a total order, sort by the order key, which is unique across the shards.
"""

from pathlib import Path

import pyarrow as pa

from riprap.base import files
from riprap.streams.description import DESCRIPTION
from riprap.streams.stream import PersistentStream


def shards(location: str | Path) -> list[str]:
    """The streams at a location, a real path: the location itself, or its numbered directories, in order."""
    path = Path(location)
    if files.exists(path / DESCRIPTION) or not files.is_directory(path):
        return [str(location)]
    numbers = [name for name in files.names(path) if name.isascii() and name.isdecimal()]
    streams = [name for name in sorted(numbers, key=int) if files.exists(path / name / DESCRIPTION)]
    return [str(path / name) for name in streams] or [str(location)]


def read_table(location: str | Path) -> pa.Table:
    """All rows, in key order if there are several shards; raises `Damaged` if data was lost."""
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
