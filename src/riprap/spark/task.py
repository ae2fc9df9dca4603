"""What a task runs, by a name that costs the driver nothing: the element's own modules load in the worker alone."""

from riprap.runtime.run_context import Run


def run_element(run: Run, pe: str, attempt: int, executor_pid: int) -> None:
    from riprap.runtime.process import run_element as body

    body(run, pe, attempt, executor_pid)
