"""Elements that stop, as by SIGSTOP, at one stage of their first start each. Not a test: a scene runs it."""

import os
import signal
from unittest.mock import patch

from riprap.runtime import process
from riprap.runtime.element.element import Element

STAGES = {
    "Source": "registering",
    "TradeQuote": "restoring",
    "Aggregator": "compiling",
    "VWAP": "connecting",
}


def run_element(run, pe, attempt, executor_pid):
    """In the worker: as `riprap.spark.task` does it."""

    def stop(stage):
        mark = run.directory / f"stopped-{stage}"
        if STAGES.get(pe) == stage and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGSTOP)

    def stopping(method, stage):
        def stopped(*arguments):
            stop(stage)
            return method(*arguments)

        return stopped

    stop("registering")
    with (
        patch.object(process._Process, "_start", stopping(process._Process._start, "restoring")),
        patch.object(Element, "prepare", stopping(Element.prepare, "compiling")),
        patch.object(process._Process, "_connect", stopping(process._Process._connect, "connecting")),
    ):
        process.run_element(run, pe, attempt, executor_pid)
