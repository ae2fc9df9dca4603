"""What the suite compiles: every function once, and few fragments.

Whether a fragment runs interpreted or compiled depends on whether it lies in the cache (`riprap.engine.compiling`).
With the cache of whoever runs the suite the same test would do one thing today and another tomorrow; so all processes
of a run share a cache of its own, which goes when the run ends. A compilation takes seconds: property tests run
interpreted, and a run that compiles more than MOST fragments fails, whatever its tests say.

Kernels are kept by Numba, beside their sources. In a fresh clone all workers would compile the same ones at once; here
the first does, and the others wait and read what it has kept.
"""

import fcntl
import hashlib
import os
import shutil
import tempfile
from pathlib import Path

from tests import bounds

MOST = 98  # real runs and random apps of the whole loop; and four in test_pieces.py, in caches of their own
SETTING = "RIPRAP_COMPILED"


def begin(config) -> None:
    """Make the cache; workers and whatever tests start inherit the setting from the process that began the run."""
    bounds.begin()
    if hasattr(config, "workerinput"):
        _compile_alone(Path(os.environ[SETTING]))
    else:
        config.compiled = os.environ[SETTING] = tempfile.mkdtemp(prefix="riprap-compiled-")


def _compile_alone(place: Path) -> None:
    """No two workers compile one function at once. Who waits holds locks of callers only: nobody waits for ever."""
    from numba.core import caching, dispatcher
    from numba.core.compiler_lock import global_compiler_lock

    compile_, held = dispatcher.Dispatcher.compile, set()

    def compile_alone(self, signature):
        name = f"{self.py_func.__module__}.{self.py_func.__qualname__}"
        if not isinstance(self._cache, caching.FunctionCache):
            return compile_(self, signature)
        with global_compiler_lock:  # else another thread of this process could wait for ever for our file
            if name in held:
                return compile_(self, signature)
            with (place / f"{hashlib.sha256(name.encode()).hexdigest()}.kernel").open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                held.add(name)
                try:
                    return compile_(self, signature)
                finally:
                    held.remove(name)

    dispatcher.Dispatcher.compile = compile_alone


def finish(session) -> None:
    """Fail a run that compiled too much; and one with bounds checked (`tests/bounds.py`) that left a function out."""
    place = Path(os.environ[SETTING])
    bounds.note(place, getattr(session.config, "workerinput", {}).get("workerid", "alone"))
    if not hasattr(session.config, "compiled"):
        return
    found, wrong = len(list(place.glob("*.done"))), []
    if found > MOST:
        wrong.append(f"the suite compiled {found} fragments, more than {MOST}: let tests run interpreted")
    if bounds.is_on() and (missing := bounds.never_called(place)):
        wrong.append(f"no test of `make bounds` calls {', '.join(missing)}: add one to tests/bounds.py")
    for sentence in wrong:
        session.config.pluginmanager.get_plugin("terminalreporter").write_line(sentence)
        session.exitstatus = 1


def end(config) -> None:
    if place := getattr(config, "compiled", None):
        shutil.rmtree(place, ignore_errors=True)
