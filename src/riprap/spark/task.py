"""The function that a task runs. Importing it is cheap for the driver: only the worker loads the element's modules."""

from riprap.runtime.run_context import Run


def run_element(run: Run, pe: str, attempt: int, executor_pid: int) -> None:
    from riprap.runtime.process import run_element as body

    body(run, pe, attempt, executor_pid)
