"""A JVM that starts while its caller imports, checks and reads: two seconds that nobody waits for.

`launch` begins it in a thread; `launched` waits for it, and whoever builds a session then finds it there. The JVM ends
with this process, however that ends: it reads the pipe that the process holds. Only for local masters: what a cluster's
driver needs on its class path is not known before.
"""

import subprocess
import threading

_lock = threading.Lock()
_launch: "_Launch | None" = None


class _Launch:
    def __init__(self) -> None:
        self.failure: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="riprap-jvm", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            from pyspark import SparkConf, SparkContext
            from pyspark.java_gateway import launch_gateway

            from riprap.spark.session import hosting_settings

            if SparkContext._gateway is None:
                conf = SparkConf(loadDefaults=False).setAll(list(hosting_settings().items()))
                gateway = launch_gateway(conf, {"stderr": subprocess.DEVNULL})
                SparkContext._ensure_initialized(gateway=gateway)
        except Exception as error:  # whoever needs a session tries again, and says what is wrong
            self.failure = error

    def wait(self) -> None:
        self._thread.join()


def launch(master: str | None) -> None:
    """Start a JVM, if the session will be a local one and none is there."""
    global _launch
    if (master is not None and not master.startswith("local")) or (master or "").startswith("local-cluster"):
        return
    with _lock:
        if _launch is None:
            _launch = _Launch()


def launched() -> None:
    """Return when the JVM that was begun is there, or has failed."""
    if _launch is not None:
        _launch.wait()
