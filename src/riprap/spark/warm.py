"""Everything that a processing element imports, loaded: what a process has to be like that workers are forked from.

Nothing may happen here that starts a thread: a fork has only the thread that forked, and a library that had others
waits for them for ever (a Polars query before the fork hangs every query after it). Importing these libraries is safe:
only the allocator's background thread comes with them, which jemalloc itself sees through a fork. Polars is not among
them, because its import alone starts one.
"""

import gc
import os
import sys
from contextlib import suppress

import pyspark.worker  # noqa: F401  (Spark itself imports it only after the fork)
from pyspark.daemon import manager

import riprap.expressions.scalars
import riprap.runtime.process  # (with it Numba, Arrow, Flight, the engine and the streams)
import riprap.spark.element_tasks
import riprap.spark.task  # noqa: F401  (where the functions of a task are found)
from riprap.base.scratch import scratch_directory
from riprap.expressions.lazy_functions import load
from riprap.operators.row_store import load_kernels
from riprap.spark.executor import remember_executor
from riprap.spark.settings import MOST_SOCKET_DIRECTORY

with suppress(ImportError):
    import pandas  # noqa: F401  (where it is installed Arrow imports it when it first makes an array of Python values)

load()  # what is compiled, from the cache
load_kernels()


def serve(executor: int) -> None:
    """Be the daemon of an executor, until it closes the pipe at file 0."""
    remember_executor(executor)
    # Spark has every worker look anew at all places that Python has imported from. For each package inside pyspark.zip
    # that reads the whole archive again, 0.2 s of a core in all: so let there be none that is known.
    sys.path_importer_cache.clear()
    _listen_in_private()
    gc.freeze()  # what is loaded stays in memory shared with the workers
    manager()


def _listen_in_private() -> None:
    """Where workers are reached over Unix sockets nobody asks for a secret: only this user may get to them.

    The directory that the driver names may belong to another user than the executor's.
    """
    if os.environ.get("PYTHON_UNIX_DOMAIN_ENABLED", "").lower() == "true":
        directory = scratch_directory("daemon")
        if len(os.fsencode(directory)) <= MOST_SOCKET_DIRECTORY:
            os.environ["PYTHON_WORKER_FACTORY_SOCK_DIR"] = directory
