"""The daemon that Spark forks its Python workers from, with all imports of a processing element loaded.

Set as `spark.python.daemon.module`. A worker that replaces a killed one then starts by a fork instead of importing for
seconds. If a warm-up server has loaded everything already (`warm_server.py`), the daemon is a fork of it; else this
process.
"""

import os

from riprap.spark.warm_server import served_by_warm_server

if __name__ == "__main__" and not served_by_warm_server():
    from riprap.spark.warm import serve

    serve(os.getppid())
