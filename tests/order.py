"""In which order the files of the suite run: the longest first, so that two processes end at about the same time.

Whole files go to processes, one by one, as each comes free (`--dist loadfile`). A long one that comes last would leave
the other process idle. The files named here take longest, measured with an empty compile cache; the order of all others
does not matter.
"""

LONGEST = (
    "tests/spark/test_run.py",
    "tests/san/test_accelerated_copies.py",
    "tests/san/test_accelerated.py",
    "tests/spark/test_campaign.py",
    "tests/operators/test_aggregate.py",
    "tests/streams/test_damage.py",
    "tests/spark/test_host.py",
    "tests/san/test_command.py",
    "tests/san/test_describe.py",
    "tests/cli/test_commands.py",
    "tests/san/test_closed_forms.py",
    "tests/streams/test_marks.py",
    "tests/streams/test_read.py",
    "tests/durable/test_mutated_streams.py",
    "tests/apps/test_yield_crashes.py",
    "tests/engine/test_engine.py",
    "tests/planner/test_exact.py",
)


def longest_first(items: list) -> None:
    """Sort collected tests, file by file; those of a file stay as they are."""
    rank = {path: number for number, path in enumerate(LONGEST)}
    items.sort(key=lambda item: rank.get(item.nodeid.partition("::")[0], len(rank)))
