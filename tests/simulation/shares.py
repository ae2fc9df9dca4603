"""The schedules of a soak: all of them in one process, or shares of them in several.

    RIPRAP_SHARE=3/40 make soak ARGS=tests/simulation

runs the third of forty shares, every fortieth seed; forty such processes run everything once. A failure carries the
seed that repeats it.
"""

import os
from collections.abc import Callable

from riprap.base.errors import UsageError

SHARE = "RIPRAP_SHARE"


def share_of(seeds: range, given: str) -> range:
    """Of these seeds, those of the share NUMBER/SHARES; "": all."""
    if not given:
        return seeds
    number, _, shares = given.partition("/")
    if not (number.isdecimal() and shares.isdecimal() and 1 <= int(number) <= int(shares)):
        raise UsageError(f"{SHARE}={given} is no share; expected NUMBER/SHARES such as 3/40, from 1/40 to 40/40")
    return seeds[int(number) - 1 :: int(shares)]


def soak(first: int, last: int, check: Callable[[int], object]) -> None:
    """Check the schedules of all seeds from `first` up to `last`, or of this process's share of them."""
    for seed in share_of(range(first, last), os.environ.get(SHARE, "")):
        try:
            check(seed)
        except BaseException as error:
            error.add_note(f"the schedule of seed {seed}")
            raise
