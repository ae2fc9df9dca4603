"""The process that Spark forks its Python workers from, with everything that a processing element imports loaded.

Set as `spark.python.daemon.module`. A worker that replaces a killed one then starts in a fork instead of importing for
seconds. Where a nursery has loaded everything already (`nursery.py`), the daemon is a fork of it; else this process.
"""

import os

from riprap.spark.warm_server import served_by_nursery

if __name__ == "__main__" and not served_by_nursery():
    from riprap.spark.warm import serve

    serve(os.getppid())
