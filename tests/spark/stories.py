"""Runs that last until what a scene is about has happened, however busy the machine is.

Input of some seconds may be over before a kill that was meant for its middle, or all of it may be lost while somebody
comes back. So the input of a scene is a persistent stream that the run follows, a `Supply`, and what happens is a
*story*: a generator that acts, and yields what it waits for. Whenever the driver looks at the run there is some more
input; when the story is over the input ends, and with it the run.

    def story(scene):
        yield lambda: scene.received("Count") > 1_000
        scene.kill("Count")
        yield scene.back

    follow(graph, {"In": Supply(place / "in", table)}, story, out=place / "run")
"""

import os
import signal
import time
from collections import Counter

from riprap.api.run import run
from riprap.runtime.coordination.element_states import SystemState, WorkerState
from riprap.runtime.coordination.run_summary import rows_in

PATIENCE = 600  # seconds; only how long a test that fails takes
SILENCE = "120s"  # a process that the machine has no time for is not taken to hang


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


class Watcher:
    """Sees every look at the run; `pids` has all processes that each element has had."""

    def __init__(self, then=lambda watcher: None):
        self.pids = {}
        self.table = ()
        self.then = then

    def __call__(self, state, table):
        self.state, self.table = state, table
        for status in table:
            if status.pid and status.pid not in self.pids.setdefault(status.pe, []):
                self.pids[status.pe].append(status.pid)
        self.then(self)

    def all_gone(self):
        deadline = time.monotonic() + PATIENCE
        while any(alive(pid) for pids in self.pids.values() for pid in pids):
            assert time.monotonic() < deadline, f"processes are left: {self.pids}"
            time.sleep(0.05)


class Scene(Watcher):
    """Of a run in progress. `kills` counts by element."""

    def __init__(self, out, supplies, story, patience=PATIENCE, then=lambda scene: None):
        super().__init__(then)
        self.kills, self._killed = Counter(), set()
        self.flowing = True  # new input comes
        self._out, self._supplies, self._story = out, supplies, story(self)
        self._until = lambda: True
        self._deadline = time.monotonic() + patience

    def __call__(self, state, table):
        super().__call__(state, table)
        if all(supply.ended for supply in self._supplies.values()):
            return
        assert time.monotonic() < self._deadline, f"the scene waits in vain at {self._until}: {table}"
        if self._until():
            self._until = next(self._story, None)
        if self._until is None:
            for supply in self._supplies.values():
                supply.end()
        elif self.flowing:
            for supply in set(self._supplies.values()):
                taken = min(self.taken(name) for name, of in self._supplies.items() if of is supply)
                if supply.rows <= taken + 20_000:  # whoever reads it keeps up
                    supply.more()

    # What a story looks at

    def status(self, pe):
        [found] = [status for status in self.table if status.pe == pe]
        return found

    def received(self, pe):
        """Items, over all lives."""
        return self.status(pe).metrics.get("received", 0)

    def taken(self, source):
        """Rows by the elements of a source."""
        return max((self.received(status.pe) for status in self.table if status.pe.startswith(source)), default=0)

    def delivered(self, sink):
        """Rows that are in the stream of a sink."""
        return rows_in(self._out / "sinks" / sink)

    def running(self):
        """All elements are, and have told of themselves since they began."""
        return self.state is SystemState.RUNNING and all(status.metrics for status in self.table)

    def back(self):
        """Whoever was killed has come back, and all run."""
        return self.running() and all(self.status(pe).restarts >= times for pe, times in self.kills.items())

    def looks(self, number):
        """So many from now on."""
        left = iter(range(number))
        return lambda: next(left, None) is None

    def killable(self, pe):
        """It has a process that was not killed yet."""
        return self.status(pe).state is not WorkerState.DOWN and self.status(pe).pid not in self._killed

    # What it does

    def kill(self, *pes):
        """Each is alive as far as known, and has not been killed before in this life."""
        for pe in pes:
            pid = self.status(pe).pid
            assert pid not in self._killed, f"{pe} is dead already"
            self._killed.add(pid)
            self.kills[pe] += 1
            os.kill(pid, signal.SIGKILL)


def follow(app, supplies, story, *, out, silence=SILENCE, patience=PATIENCE, then=lambda scene: None, **settings):
    """The result of the run, and its scene. `then` sees the scene at every look."""
    scene = Scene(out, supplies, story, patience, then)
    paths = {name: supply.path for name, supply in supplies.items()}
    try:
        result = run(app, paths, out=out, follow=True, silence=silence, watch=scene, **settings)
    finally:
        for supply in supplies.values():
            supply.end()
    return result, scene
