"""Networks compiled to machine code, one specialised function each, cached on disk.

The generated code is stored in the user's cache under its own digest, so that Numba's cache finds it again: a network
of the same structure is compiled once per machine, whatever its parameters.
"""

import importlib.util
import os
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from types import ModuleType

import numpy as np

from riprap.base.errors import known
from riprap.base.scratch import scratch_directory
from riprap.san import generator, machine, samplers
from riprap.san.codegen import generate, parameter_array, sizes
from riprap.san.formalism import Network
from riprap.san.resolved import NetworkError, Resolved, resolve
from riprap.san.simulate import RING, SimulatedSpan, Trajectory, error_of


@dataclass(frozen=True)
class Batch:
    """Results of many replications: `rewards[r, k]` is reward k of replication r."""

    rewards: np.ndarray
    events: int


@dataclass(frozen=True)
class Compiled:
    """A network that is ready to run."""

    network: Resolved
    module: ModuleType

    def with_parameters(self, parameters: Mapping[str, float]) -> "Compiled":
        """The same network with some parameters changed, without compilation."""
        for name in parameters:
            if name not in self.network.parameters:
                raise NetworkError(
                    f"{name} is not a parameter of {self.network.name}: {known(self.network.parameters, name)}"
                )
        changed = {**self.network.parameters, **parameters}
        return Compiled(replace(self.network, parameters=changed), self.module)

    def run(self, key: np.uint64, span: SimulatedSpan, trace: int = 0) -> Trajectory:
        """One replication; the first `trace` completions are recorded."""
        rewards = np.zeros(len(self.network.rewards))
        times, activities = np.zeros(trace), np.zeros(trace, np.int64)
        marking, events = self._call(self.module.simulate, key, span, rewards, times, activities)
        recorded = min(events, trace)
        return Trajectory(rewards, marking, events, times[:recorded], activities[:recorded])

    def run_many(self, keys: np.ndarray, span: SimulatedSpan) -> Batch:
        """One replication per key. Releases the GIL, so threads can run batches in parallel."""
        rewards = np.zeros((len(keys), len(self.network.rewards)))
        _, events = self._call(self.module.simulate_many, keys, span, rewards, np.zeros(0), np.zeros(0, np.int64))
        return Batch(rewards, events)

    def _call(
        self,
        function: object,
        key: object,
        span: SimulatedSpan,
        rewards: np.ndarray,
        times: np.ndarray,
        activities: np.ndarray,
    ) -> tuple[np.ndarray, int]:
        initial = np.array(self.network.initial, np.int64)
        marking = np.empty_like(initial)
        ring = np.full(RING, -1, np.int64)
        parameters = np.array(parameter_array(self.network), np.float64)
        size = sizes(self.network)
        count = len(self.network.rewards)
        trouble, detail, moment, events = function(  # type: ignore[operator]
            initial, key, float(span.start), float(span.horizon), parameters, rewards, marking, times, activities, ring,
            np.empty(size.sets, np.uint64), np.empty(3), np.empty(size.tree), np.empty((size.timed, 2)),
            np.empty(count), np.empty(count),
        )  # fmt: skip
        if trouble:
            raise error_of(self.network, trouble, detail, ring, moment)
        return marking, events


def compile_network(network: Network) -> Compiled:
    """Checks `network`, generates its function and loads it; Numba compiles it at its first run unless cached."""
    resolved = resolve(network)
    return Compiled(resolved, _load(generate(resolved)))


@lru_cache(maxsize=64)
def _load(text: str) -> ModuleType:
    digest = blake2b(text.encode() + _called(), digest_size=12).hexdigest()
    path = _cache_directory() / f"riprap_network_{digest}.py"
    if not path.exists():
        with tempfile.NamedTemporaryFile("w", dir=path.parent, suffix=".tmp", delete=False) as file:
            file.write(text)
        os.replace(file.name, path)
    specification = importlib.util.spec_from_file_location(path.stem, path)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules[path.stem] = module  # Numba's cache looks up the module by its name
    specification.loader.exec_module(module)
    return module


@lru_cache(maxsize=1)
def _called() -> bytes:
    """Sources of the functions that generated code calls: Numba's cache does not detect their changes."""
    return b"".join(Path(module.__file__ or "").read_bytes() for module in (generator, machine, samplers))


@lru_cache(maxsize=1)
def _cache_directory() -> Path:
    """The user's cache, which other users cannot write to; a new temporary directory if there is none or if others
    could have written to it."""
    try:
        directory = Path.home() / ".cache" / "riprap" / "networks"
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        about = directory.stat()
        if about.st_uid == os.getuid() and not about.st_mode & 0o022 and os.access(directory, os.W_OK):
            return directory
    except (OSError, RuntimeError):
        pass
    return Path(scratch_directory("networks"))
