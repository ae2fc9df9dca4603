"""The process that Spark forks its Python workers from, with everything that a processing element imports loaded.

Set as `spark.python.daemon.module`. A worker that replaces a killed one then starts in a fork instead of importing for
seconds.

Nothing may be called here that starts a thread: a fork has only the thread that forked, and a library that had others
waits for them for ever (a Polars query before the fork hangs every query after it). Importing is safe.
"""

import gc

import numba  # noqa: F401
import pyarrow.compute
import pyarrow.flight
import pyarrow.ipc
import pyarrow.parquet  # noqa: F401
import pyspark.worker  # noqa: F401  (Spark itself imports it only after the fork)
from pyspark.daemon import manager

import riprap.engine.engine
import riprap.operators.build
import riprap.runtime.process
import riprap.streams  # noqa: F401
from riprap.spark.executor import remember_executor

if __name__ == "__main__":
    remember_executor()
    gc.freeze()  # what is loaded stays in memory shared with the workers
    manager()
