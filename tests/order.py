"""In which order the files of the suite run: the longest first, so that the processes end at about the same time.

Whole files go to processes, one by one, as each comes free (`--dist loadfile`). A long one that comes last would leave
the others idle. The files named here take longest, measured with an empty compile cache; the order of all others
does not matter.
"""

LONGEST = (
    "tests/spark/test_run.py",
    "tests/spark/test_run_executors.py",
    "tests/san/test_accelerated.py",
    "tests/spark/test_source_kill.py",
    "tests/spark/test_host.py",
    "tests/engine/test_memory.py",
    "tests/spark/test_campaign.py",
    "tests/spark/test_source.py",
    "tests/spark/test_prove.py",
    "tests/san/test_accelerated_replicas.py",
    "tests/simulation/test_counts.py",
    "tests/runtime/test_channels.py",
    "tests/spark/test_connect.py",
    "tests/operators/test_aggregate.py",
    "tests/engine/test_pieces.py",
    "tests/compare/test_compare.py",
    "tests/report/test_browser.py",
    "tests/simulation/test_gaps.py",
    "tests/planner/test_exact.py",
    "tests/simulation/test_replay.py",
    "tests/benchmarks/test_peers_streaming.py",
    "tests/streams/test_damage.py",
    "tests/faults/test_trials.py",
    "tests/operators/test_simple.py",
    "tests/operators/test_join.py",
    "tests/streams/test_marks.py",
    "tests/cli/test_commands.py",
    "tests/faults/test_seeds.py",
    "tests/durable/test_mutated_checkpoints.py",
    "tests/checkpoints/test_damaged_checkpoint.py",
)


def longest_first(items: list) -> None:
    """Sort collected tests, file by file; those of a file stay as they are."""
    rank = {path: number for number, path in enumerate(LONGEST)}
    items.sort(key=lambda item: rank.get(item.nodeid.partition("::")[0], len(rank)))
