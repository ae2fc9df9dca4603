"""In which order the files of the suite run: the longest first, so that the processes end at about the same time.

Whole files go to processes, one by one, as each comes free (`--dist loadfile`). A long one that comes last would leave
the others idle; those that wait for Spark and those that compute take turns. The files named here take longest,
measured with an empty compile cache; the order of all others does not matter.
"""

LONGEST = (
    "tests/spark/test_loop.py",
    "tests/spark/test_run.py",
    "tests/san/test_accelerated.py",
    "tests/spark/test_source_kill.py",
    "tests/engine/test_pieces.py",
    "tests/spark/test_campaign.py",
    "tests/simulation/test_counts.py",
    "tests/spark/test_source.py",
    "tests/operators/test_aggregate.py",
    "tests/spark/test_run_executors.py",
    "tests/engine/test_memory.py",
    "tests/spark/test_host.py",
    "tests/faults/test_trials.py",
    "tests/spark/test_prove.py",
    "tests/simulation/test_gaps.py",
    "tests/spark/test_assess_requests.py",
    "tests/simulation/test_replay.py",
    "tests/benchmarks/test_peers_streaming.py",
    "tests/spark/test_connect.py",
    "tests/san/test_san_errors.py",
    "tests/runtime/test_channels.py",
    "tests/operators/test_simple.py",
    "tests/simulation/test_copies.py",
    "tests/report/test_browser.py",
    "tests/san/test_closed_forms.py",
    "tests/simulation/test_seam.py",
    "tests/papers/compare/test_compare.py",
    "tests/simulation/test_pairs.py",
    "tests/checkpoints/test_incremental.py",
    "tests/cli/test_commands.py",
    "tests/streams/test_damage.py",
    "tests/simulation/test_guarantees.py",
    "tests/operators/test_scan.py",
    "tests/simulation/test_exactly_once.py",
)


def longest_first(items: list) -> None:
    """Sort collected tests, file by file; those of a file stay as they are."""
    rank = {path: number for number, path in enumerate(LONGEST)}
    items.sort(key=lambda item: rank.get(item.nodeid.partition("::")[0], len(rank)))
