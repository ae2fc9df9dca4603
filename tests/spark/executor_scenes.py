"""Scenes of runs on executors that die. Not a test: `test_run_executors.py` plays them."""

import contextlib
import ctypes
import os
import signal
import sys

from drivers import main
from scene_inputs import BARGAINS, counts_add_up, market_table
from stories import alive, follow
from supply import Supply

from riprap.spark.session import hosting_session

SLOTS = 4
PR_SET_CHILD_SUBREAPER = 36


def elements_of_a_killed_executor_move(place):
    """The executor of the first element is the one that dies."""

    def story(scene):
        yield lambda: scene.status("Source").restarts > 0 and scene.running()

    supply = Supply(place / "in", market_table(60_000))
    result, _ = follow(BARGAINS, {"Source": supply}, story, out=place / "run", kill="executor@0.5s")
    counts_add_up(result.summary)
    assert result.summary["tuples"] == supply.rows
    assert result.sink("Sink").num_rows == result.summary["sinks"]["Sink"]["tuples"], result.summary


def a_replaced_element_that_goes_on_ends_by_itself(place):
    """Its executor dies while it and its daemon are stopped, so that nobody can end it; then it goes on.

    The daemon becomes a child of this process, which it descends from: as one of nobody's the kernel would end it.
    """
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    stopped, daemons = {}, set()

    def story(scene):
        yield scene.running
        doomed = scene.table[0].executor_pid
        stopped.update({status.pe: status.pid for status in scene.table if status.executor_pid == doomed})
        daemons.update(parent(pid) for pid in stopped.values())
        for pid in [*daemons, *stopped.values()]:
            os.kill(pid, signal.SIGSTOP)
        os.kill(doomed, signal.SIGKILL)
        yield lambda: all(scene.status(pe).pid != pid for pe, pid in stopped.items()) and scene.running()
        assert all(alive(pid) for pid in stopped.values())
        for pid in stopped.values():
            os.kill(pid, signal.SIGCONT)
        yield lambda: not any(alive(pid) for pid in stopped.values())

    supply = Supply(place / "in", market_table(60_000))
    try:
        result, _ = follow(BARGAINS, {"Source": supply}, story, out=place / "run")
    finally:
        for pid in daemons:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
    assert {name for name, pe in result.summary["pes"].items() if pe["restarts"]} == set(stopped)
    counts_add_up(result.summary)
    assert result.summary["tuples"] == supply.rows
    bargains = result.sink("Sink")
    # Perhaps none: what a source sends while those behind it come back is lost.
    assert bargains.num_rows == result.summary["sinks"]["Sink"]["tuples"], result.summary
    assert bargains.num_rows == len(set(bargains["_seq"].to_pylist()))


def parent(pid):
    with open(f"/proc/{pid}/stat") as file:
        return int(file.read().rpartition(")")[2].split()[1])


SCENES = {name: scene for name, scene in globals().items() if callable(scene)}

if __name__ == "__main__":
    spark = hosting_session(SLOTS, master=sys.argv[2])
    main(SCENES)
    spark.stop()
