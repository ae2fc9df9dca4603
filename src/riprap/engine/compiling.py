"""Runs generated functions: interpreted at first, then compiled once and cached on disk.

Each text is a module in the cache, named by the hash of the text, of the helpers that it calls and of the versions of
Python and Numba; Numba stores the machine code beside it. Numba does not detect a changed helper, so the name must.
While one process compiles a text, others wait at a lock file and then load the result. Before many processes start that
need the same texts, their parent compiles them (`Engine.compile_first`).

The cache is a private directory of the user: `directory` or RIPRAP_COMPILED if one was set, else riprap/compiled below
XDG_CACHE_HOME or ~/.cache. It has mode 0700, and one that others can write to is refused: its contents are executed. A
crash leaves a module without machine code, which the next process compiles again. If no directory can be created,
nothing is cached.

A text without cached machine code runs interpreted until it has processed ROWS rows in this process: short runs never
wait for a compiler. `Policy` can change that, for tests and for hosts that compile before they start.
"""

import fcntl
import hashlib
import importlib.util
import os
import stat
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numba import types

from riprap.base.errors import MissingPrerequisite
from riprap.operators.function import Argument
from riprap.operators.kernels import altering, folds, hashing, ranks
from riprap.operators.kernels import exact_sums as exact

ROWS = 4096
_HELPERS = (altering, folds, exact, hashing, ranks)
_SCALARS = Path(__file__).parents[1] / "expressions" / "scalars.py"  # not imported here: the import is slow
_HEADER = '''"""Generated; see riprap.engine.compiling."""

import numpy as np

from riprap.expressions import scalars
from riprap.operators.kernels.altering import chance_at, wrong_float, wrong_whole
from riprap.operators.kernels.folds import certain, exactly
from riprap.operators.kernels.hashing import SEED, combine, comparable, place
from riprap.operators.kernels.ranks import distinct_in, percentile_in

binary, decimal, exponential, natural, power = (
    one.compiled for one in (scalars.binary, scalars.decimal, scalars.exponential, scalars.natural, scalars.power)
)
civil, product_overflows, quotient, remainder, rounded, saturated = (
    one.compiled
    for one in (scalars.civil, scalars.product_overflows, scalars.quotient, scalars.remainder, scalars.rounded,
                scalars.saturated)
)


'''


class Policy(Enum):
    WHEN_WORTH_IT = "when worth it"
    ALWAYS = "always"  # before the first row
    NEVER = "never"


@dataclass
class Compiler:
    """The functions that this process has compiled, and the policy for compiling."""

    policy: Policy = Policy.WHEN_WORTH_IT
    directory: Path | None = None  # None: the user's default
    compilations: int = 0  # texts that were compiled here, not loaded from the cache
    _made: dict[str, Callable[..., None]] = field(default_factory=dict)
    _plain: dict[str, Callable[..., None]] = field(default_factory=dict)
    _rows: dict[str, int] = field(default_factory=dict)

    def function(self, text: str, arguments: Sequence[Argument], rows: int) -> Callable[..., None]:
        """The function that runs `rows` more rows of a text."""
        compiled = self._made.get(text)
        if compiled is not None:
            return compiled
        first = text not in self._rows  # look into the cache only once
        total = self._rows[text] = self._rows.get(text, 0) + rows
        allowed = self.policy is not Policy.NEVER and not numba.config.DISABLE_JIT
        if allowed and (self.policy is Policy.ALWAYS or total > ROWS or (first and self._cached(text))):
            compiled = self._made[text] = self._compiled(text, arguments)
            return compiled
        if text not in self._plain:
            self._plain[text] = _quiet(_interpreted(text))
        return self._plain[text]

    def prepare(self, text: str, arguments: Sequence[Argument]) -> None:
        """Compile a text before its first row."""
        if text not in self._made and self.policy is not Policy.NEVER and not numba.config.DISABLE_JIT:
            self._made[text] = self._compiled(text, arguments)

    def compile_to_disk(self, text: str, arguments: Sequence[Argument]) -> bool:
        """Compile a text to disk for other processes; returns whether it was not there yet."""
        if self._directory() is None or self._cached(text):
            return False
        self.prepare(text, arguments)
        return self._cached(text)

    def _cached(self, text: str) -> bool:
        """Whether the machine code is on disk already."""
        directory = self._directory()
        return directory is not None and (directory / f"{_name(text)}.done").exists()

    def _directory(self) -> Path | None:
        return cache_directory(self.directory)

    def _compiled(self, text: str, arguments: Sequence[Argument]) -> Callable[..., None]:
        directory, name = self._directory(), _name(text)
        if directory is None:
            return _compile(_interpreted(text), arguments, cache=False)
        with (directory / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            path, done = directory / f"{name}.py", directory / f"{name}.done"
            self.compilations += not done.exists()
            if not path.exists() or path.read_text() != _HEADER + text:
                temporary = directory / f"{name}.{os.getpid()}"
                temporary.write_text(_HEADER + text)
                temporary.replace(path)
            compiled = _compile(_module(name, path).piece, arguments, cache=True)
            done.touch()
        return compiled


def cache_directory(override: Path | None = None) -> Path | None:
    """The cache of compiled texts, created if it is missing; None if it cannot be created or written."""
    directory = override or _default_directory()
    if directory is None:
        return None
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        return None
    status = directory.stat()
    if status.st_uid != os.getuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise MissingPrerequisite(
            f"the cache of compiled fragments, {directory}, belongs to another user or others can write to it, and its "
            f"contents are executed; make it private (chmod 700 {directory}) or set another with RIPRAP_COMPILED"
        )
    return directory if os.access(directory, os.W_OK) else None


def _default_directory() -> Path | None:
    """From the environment or the user's home; None for a user without a home, as in many containers."""
    if directory := os.environ.get("RIPRAP_COMPILED"):
        return Path(directory)
    try:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    except RuntimeError:
        return None
    return Path(base) / "riprap" / "compiled"


def _name(text: str) -> str:
    digest = hashlib.sha256(f"{sys.version}\0{numba.__version__}\0{_HEADER}\0".encode())
    for file in (_SCALARS, *(Path(str(helper.__file__)) for helper in _HELPERS)):
        digest.update(file.read_bytes())
    digest.update(text.encode())
    return f"piece_{digest.hexdigest()[:40]}"


def _module(name: str, path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _interpreted(text: str) -> Callable[..., None]:
    scope: dict[str, Any] = {}
    exec(compile(_HEADER + text, "<piece>", "exec"), scope)  # the text was generated by this package
    return scope["piece"]  # type: ignore[no-any-return]


def _quiet(function: Callable[..., None]) -> Callable[..., None]:
    """Suppress NumPy's warnings, which a compiled function does not raise."""

    def run(*arguments: Any) -> None:
        with np.errstate(all="ignore"):
            function(*arguments)

    return run


_ELEMENTS = {name: getattr(types, name) for name in (
    "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "float32", "float64")}  # fmt: skip


def _compile(function: Callable[..., None], arguments: Sequence[Argument], *, cache: bool) -> Callable[..., None]:
    fixed = [types.int64, types.int64, types.int64[::1], types.float64[::1]]
    signature = types.void(*fixed, *(_type(argument.kind) for argument in arguments))
    jit = numba.njit(signature, cache=cache, nogil=True, error_model="numpy")
    return jit(function)  # type: ignore[no-any-return]


def _type(kind: str) -> Any:
    if kind in ("int", "float"):
        return types.int64 if kind == "int" else types.float64
    element, _, dimensions = kind.removeprefix("=").partition(":")
    return types.Array(_ELEMENTS[element], int(dimensions or 1), "C", readonly=kind.startswith("="))


COMPILER = Compiler()
