"""Data for an app that was given none: generated, in a file that is kept for the next time."""

import os
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path

from riprap.apps import market, market_files, market_kernels
from riprap.base.errors import UsageError
from riprap.graph.graph import Graph
from riprap.graph.types import logical_schema

DEMO_TUPLES = 500_000


def sample_inputs(graph: Graph, tuples: int, seed: int, directory: Path) -> Mapping[str, Path]:
    """A file of generated data for each source; made in `directory` unless it is there already."""
    fields = {field.name: field.type for field in logical_schema(market.SCHEMA)}
    for source in graph.sources:
        if any(fields.get(field.name) != field.type for field in source.schema):
            raise UsageError(
                f"there is no generated data for source {source.name} of app {graph.name}: "
                f"give --input {source.name}=PATH"
            )
    path = directory / f"market-{tuples}-{seed}-{_generator_version()}.parquet"
    if not path.exists():
        directory.mkdir(parents=True, exist_ok=True)
        market_files.write(market.generate(tuples, seed), path, overwrite=True)
    return {source.name: path for source in graph.sources}


def _generator_version() -> str:
    """Changes when the generator does, so that what an older one made is not used."""
    sources = (Path(module.__file__ or "").read_bytes() for module in (market, market_kernels))
    return blake2b(b"".join(sources), digest_size=4).hexdigest()


def cache_directory() -> Path:
    """Where generated data is kept: the user's cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "riprap"
