"""Data for an app that was given none: generated, in a file that is kept for the next time."""

import os
from collections.abc import Callable, Mapping
from hashlib import blake2b
from pathlib import Path
from types import ModuleType

import pyarrow as pa

from riprap.apps import fab, market, market_files, market_kernels
from riprap.base.errors import UsageError
from riprap.graph.graph import Graph
from riprap.graph.specs import Source
from riprap.graph.types import logical_schema

DEMO_TUPLES = 500_000


def sample_inputs(graph: Graph, tuples: int, seed: int, directory: Path) -> Mapping[str, Path]:
    """A file of generated data for each source, of about `tuples` together; made in `directory` unless it is there."""
    return {source.name: _sample(graph, source, tuples, seed, directory) for source in graph.sources}


def _sample(graph: Graph, source: Source, tuples: int, seed: int, directory: Path) -> Path:
    """Market data for a source that reads columns of it; a fab's for one that is called as one of its streams."""
    if _fits(source, market.SCHEMA):
        path = directory / f"market-{tuples}-{seed}-{_version(market, market_kernels)}.parquet"
        return _kept(path, lambda: market.generate(tuples, seed))
    if source.name in fab.SCHEMAS and _fits(source, fab.SCHEMAS[source.name]):
        path = directory / f"fab-{source.name}-{tuples}-{seed}-{_version(fab)}.parquet"
        return _kept(path, lambda: fab.generate(fab.lots_for(tuples), seed)[source.name])
    raise UsageError(
        f"there is no generated data for source {source.name} of app {graph.name}: give --input {source.name}=PATH"
    )


def _fits(source: Source, generated: pa.Schema) -> bool:
    fields = {field.name: field.type for field in logical_schema(generated)}
    return all(fields.get(field.name) == field.type for field in source.schema)


def _kept(path: Path, make: Callable[[], pa.Table]) -> Path:
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        market_files.write(make(), path, overwrite=True)
    return path


def _version(*modules: ModuleType) -> str:
    """Changes when a generator does, so that what an older one made is not used."""
    sources = (Path(module.__file__ or "").read_bytes() for module in modules)
    return blake2b(b"".join(sources), digest_size=4).hexdigest()


def cache_directory() -> Path:
    """Where generated data is kept: the user's cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "riprap"
