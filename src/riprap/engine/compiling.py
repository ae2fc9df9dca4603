"""Written functions made to run: interpreted at first, compiled once and kept on disk.

A text is a module of its own in the cache, named by the hash of the text, of the helpers that it calls and of the
versions of Python and Numba; Numba keeps the machine code beside it. Numba does not see when a helper changes, so the
name has to. While one process compiles a text, others that want it wait at a lock file and then read the result; where
many processes are about to want the same texts, who starts them has them compiled first (`Engine.compile_first`).

The cache is a directory of the user's own: `directory` or RIPRAP_COMPILED if one was set, else riprap/compiled below
XDG_CACHE_HOME or ~/.cache. It has mode 0700, and one that others can write is refused: what is in it is executed. A
crash leaves a module without machine code, which the next process compiles again. Where no directory can be made
nothing is kept.

A text that nobody has compiled yet runs interpreted until it has taken ROWS rows in this process: short runs never wait
for a compiler. `Policy` says otherwise, for tests and for hosts that compile before they start.
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
_SCALARS = Path(__file__).parents[1] / "expressions" / "scalars.py"  # loaded by who runs a text: it takes a while
_HEADER = '''"""Generated; see riprap.engine.compiling."""

import numpy as np

from riprap.expressions import scalars
from riprap.operators.kernels.altering import chance_at, wrong_float, wrong_whole
from riprap.operators.kernels.folds import certain, exactly
from riprap.operators.kernels.hashing import SEED, combine, comparable, place
from riprap.operators.kernels.ranks import distinct_in, percentile_in

binary, decimal, exponential, natural, power = (
    one.made for one in (scalars.binary, scalars.decimal, scalars.exponential, scalars.natural, scalars.power)
)
civil, product_overflows, remainder, rounded = (
    one.made for one in (scalars.civil, scalars.product_overflows, scalars.remainder, scalars.rounded)
)


'''


class Policy(Enum):
    WHEN_WORTH_IT = "when worth it"
    ALWAYS = "always"  # before the first row
    NEVER = "never"


@dataclass
class Compiler:
    """What this process has compiled, and how it decides to."""

    policy: Policy = Policy.WHEN_WORTH_IT
    directory: Path | None = None  # None: the user's own
    compilations: int = 0  # texts that were compiled here, rather than read from the cache
    _made: dict[str, Callable[..., None]] = field(default_factory=dict)
    _plain: dict[str, Callable[..., None]] = field(default_factory=dict)
    _rows: dict[str, int] = field(default_factory=dict)

    def function(self, text: str, arguments: Sequence[Argument], rows: int) -> Callable[..., None]:
        """What runs `rows` more rows of a text."""
        found = self._made.get(text)
        if found is not None:
            return found
        first = text not in self._rows  # to look into the cache once is enough
        taken = self._rows[text] = self._rows.get(text, 0) + rows
        allowed = self.policy is not Policy.NEVER and not numba.config.DISABLE_JIT
        if allowed and (self.policy is Policy.ALWAYS or taken > ROWS or (first and self._kept(text))):
            made = self._made[text] = self._compiled(text, arguments)
            return made
        if text not in self._plain:
            self._plain[text] = _quiet(_interpreted(text))
        return self._plain[text]

    def prepare(self, text: str, arguments: Sequence[Argument]) -> None:
        """Have a text compiled before its first row."""
        if text not in self._made and self.policy is not Policy.NEVER and not numba.config.DISABLE_JIT:
            self._made[text] = self._compiled(text, arguments)

    def keep(self, text: str, arguments: Sequence[Argument]) -> bool:
        """Have a text compiled on disk for other processes; whether it was not there yet."""
        if self._place() is None or self._kept(text):
            return False
        self.prepare(text, arguments)
        return self._kept(text)

    def _kept(self, text: str) -> bool:
        """Whether the machine code is on disk already."""
        place = self._place()
        return place is not None and (place / f"{_name(text)}.done").exists()

    def _place(self) -> Path | None:
        return cache_directory(self.directory)

    def _compiled(self, text: str, arguments: Sequence[Argument]) -> Callable[..., None]:
        place, name = self._place(), _name(text)
        if place is None:
            return _compile(_interpreted(text), arguments, cache=False)
        with (place / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            path, done = place / f"{name}.py", place / f"{name}.done"
            self.compilations += not done.exists()
            if not path.exists() or path.read_text() != _HEADER + text:
                temporary = place / f"{name}.{os.getpid()}"
                temporary.write_text(_HEADER + text)
                temporary.replace(path)
            made = _compile(_module(name, path).piece, arguments, cache=True)
            done.touch()
        return made


def cache_directory(given: Path | None = None) -> Path | None:
    """Where compiled texts are kept, made if need be; None where none can be made."""
    place = given or _own_directory()
    if place is None:
        return None
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        return None
    status = place.stat()
    if status.st_uid != os.getuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise MissingPrerequisite(
            f"the cache of compiled fragments, {place}, belongs to another user or others can write to it, and what is "
            f"in it is executed; make it your own (chmod 700 {place}) or set another with RIPRAP_COMPILED"
        )
    return place if os.access(place, os.W_OK) else None


def _own_directory() -> Path | None:
    """The user's, wherever it is set; None for a user without a home, as in many containers."""
    if place := os.environ.get("RIPRAP_COMPILED"):
        return Path(place)
    try:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    except RuntimeError:
        return None
    return Path(base) / "riprap" / "compiled"


def _name(text: str) -> str:
    made = hashlib.sha256(f"{sys.version}\0{numba.__version__}\0{_HEADER}\0".encode())
    for file in (_SCALARS, *(Path(str(helper.__file__)) for helper in _HELPERS)):
        made.update(file.read_bytes())
    made.update(text.encode())
    return f"piece_{made.hexdigest()[:40]}"


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
    exec(compile(_HEADER + text, "<piece>", "exec"), scope)  # the text is this package's own
    return scope["piece"]  # type: ignore[no-any-return]


def _quiet(function: Callable[..., None]) -> Callable[..., None]:
    """Interpreted, NumPy's scalars warn of what a compiled function does without a word."""

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
