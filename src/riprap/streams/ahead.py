"""Reading ahead: what is read and checked in a thread overlaps with what is done with it.

Reading and hashing let go of Python's lock; parsing and delivering hold it. The thread stays at most two windows ahead,
so memory is bounded, and ends when the reader does.
"""

import threading
from collections.abc import Generator, Iterator
from queue import Empty, Full, Queue

from riprap.streams.segment import Found

_WINDOW_BYTES = 1 << 20
_WINDOWS = 2
_WAKE = 0.1  # seconds; how soon either side notices that the other is gone


def read_ahead(batches: Iterator[Found]) -> Generator[Found, None, None]:
    """The same batches, and the same error behind them if there is one."""
    windows: Queue[tuple[list[Found], BaseException | None]] = Queue(_WINDOWS)
    closed = threading.Event()

    def put(window: list[Found], error: BaseException | None) -> None:
        while not closed.is_set():
            try:
                windows.put((window, error), timeout=_WAKE)
                break
            except Full:
                continue

    def produce() -> None:
        window: list[Found] = []
        size = 0
        try:
            for found in batches:
                window.append(found)
                size += found.header.length
                if size >= _WINDOW_BYTES:
                    put(window, None)
                    window, size = [], 0
                if closed.is_set():
                    return
            put(window, StopIteration())
        except BaseException as error:
            put(window, error)

    thread = threading.Thread(target=produce, name="riprap-read-ahead", daemon=True)
    thread.start()
    try:
        while True:
            try:
                window, error = windows.get(timeout=_WAKE)
            except Empty:
                continue
            yield from window
            if isinstance(error, StopIteration):
                return
            if error is not None:
                raise error
    finally:
        closed.set()
        thread.join()
