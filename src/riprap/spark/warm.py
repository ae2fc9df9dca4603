"""Loads everything that a processing element imports, in the process that workers are forked from.

Nothing here may start a thread: a fork has only the thread that forked, and a library waits forever for its other
threads (a Polars query before the fork hangs every query after it). Importing these libraries is safe: they start only
the allocator's background thread, which jemalloc handles over a fork. Polars is not among them, because its import
starts one.
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

load()  # compiled functions, from the cache
load_kernels()


def serve(executor: int) -> None:
    """Serve as the daemon of an executor, until it closes the pipe at file descriptor 0."""
    remember_executor(executor)
    # Spark makes every worker invalidate all import caches. For each package inside pyspark.zip that reads the whole
    # archive again, 0.2 s of a core in total: so clear the cache here.
    sys.path_importer_cache.clear()
    _use_private_sockets()
    gc.freeze()  # what is loaded stays in memory shared with the workers
    manager()


def _use_private_sockets() -> None:
    """Unix sockets of workers require no secret, so only this user may reach them.

    The directory that the driver specifies may belong to another user than the executor's.
    """
    if os.environ.get("PYTHON_UNIX_DOMAIN_ENABLED", "").lower() == "true":
        directory = scratch_directory("daemon")
        if len(os.fsencode(directory)) <= MOST_SOCKET_DIRECTORY:
            os.environ["PYTHON_WORKER_FACTORY_SOCK_DIR"] = directory
