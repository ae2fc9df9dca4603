"""Generated input for an app without input, cached in a file."""

import os
from collections.abc import Callable, Mapping
from functools import partial
from hashlib import blake2b
from pathlib import Path
from types import ModuleType

import pyarrow as pa

from riprap.apps import fab, market, market_files, market_kernels, sensors
from riprap.apps.catalogue import workload_module
from riprap.base.errors import UsageError
from riprap.graph.graph import Graph
from riprap.graph.specs import Source
from riprap.graph.types import logical_schema

DEMO_TUPLES = 500_000
MOST_TUPLES = 200_000_000  # generated at once, in memory


def sample_inputs(graph: Graph, tuples: int, seed: int, directory: Path) -> Mapping[str, Path]:
    """A file of generated data for each source, about `tuples` in total; created in `directory` unless it exists."""
    check_tuples(tuples)
    workload = _workload(graph)
    if workload is None:
        return {source.name: _sample(graph, source, tuples, seed, directory) for source in graph.sources}
    made = f"{tuples}-{seed}-{_version(*_modules_beside(workload))}.parquet"
    paths = {source.name: directory / f"{graph.name}-{source.name}-{made}" for source in graph.sources}
    if not all(path.exists() for path in paths.values()):
        for name, table in workload.WORKLOAD.inputs(tuples, seed).items():
            _cached(paths[name], partial(_same, table))
    return paths


def _workload(graph: Graph) -> ModuleType | None:
    """The module of a bundled workload with these sources."""
    module = workload_module(graph.name)
    if module is None:
        return None
    sources = {source.name: source.schema for source in module.WORKLOAD.graph().sources}
    return module if sources == {source.name: source.schema for source in graph.sources} else None


def _modules_beside(module: ModuleType) -> list[Path]:
    return sorted(Path(module.__file__ or "").parent.glob("*.py"))


def _same(table: pa.Table) -> pa.Table:
    return table


def check_tuples(tuples: int) -> None:
    """Raise if they would not fit into memory."""
    if tuples > MOST_TUPLES:
        raise UsageError(f"{tuples:,} tuples are too many to generate: at most {MOST_TUPLES:,} fit into memory")


def _sample(graph: Graph, source: Source, tuples: int, seed: int, directory: Path) -> Path:
    """Market data or sensor readings for a source with matching columns; fab data for a source with the name of one of
    its streams."""
    if _fits(source, market.SCHEMA):
        path = directory / f"market-{tuples}-{seed}-{_version(market, market_kernels)}.parquet"
        return _cached(path, lambda: market.generate(tuples, seed))
    if _fits(source, sensors.SCHEMA):
        path = directory / f"sensors-{tuples}-{seed}-{_version(sensors)}.parquet"
        return _cached(path, lambda: sensors.generate(tuples, seed))
    if source.name in fab.SCHEMAS and _fits(source, fab.SCHEMAS[source.name]):
        path = directory / f"fab-{source.name}-{tuples}-{seed}-{_version(fab)}.parquet"
        return _cached(path, lambda: fab.generate(fab.lots_for(tuples), seed)[source.name])
    raise UsageError(
        f"no data can be generated for source {source.name} of app {graph.name}: give --input {source.name}=PATH"
    )


def _fits(source: Source, generated: pa.Schema) -> bool:
    fields = {field.name: field.type for field in logical_schema(generated)}
    return all(fields.get(field.name) == field.type for field in source.schema)


def _cached(path: Path, make: Callable[[], pa.Table]) -> Path:
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        market_files.write(make(), path, overwrite=True)
    return path


def _version(*modules: ModuleType | Path) -> str:
    """A digest of the generator, so that files of an older one are not used."""
    files = (module if isinstance(module, Path) else Path(module.__file__ or "") for module in modules)
    sources = (file.read_bytes() for file in files)
    return blake2b(b"".join(sources), digest_size=4).hexdigest()


def cache_directory() -> Path:
    """The directory of generated data, in the user's cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "riprap"
