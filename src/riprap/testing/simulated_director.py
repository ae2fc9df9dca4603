"""The director of a simulated run, and the queue of what will happen.

What is said to the director and by it takes a time that the seed decides, keeps its order on the way between it and an
element, and is lost when either dies. A director that begins has the log of those before it, and hears of every element
that lives.
"""

import heapq
from collections.abc import Callable, Mapping
from functools import partial as bound
from typing import Any

from riprap.base.randomness import generator
from riprap.checkpoints.storage import MemoryStorage
from riprap.protocols.cut import CheckpointId
from riprap.protocols.events import FromDirector
from riprap.runtime.coordination.director_host import Assignment, DirectorHost
from riprap.runtime.coordination.history import History
from riprap.runtime.element.element import Element
from riprap.runtime.host import HostEvent, Unneeded
from riprap.runtime.layout import Layout, Pe
from riprap.testing.simulated import VirtualClock
from riprap.testing.simulated_life import Life


class DirectedSimulation:
    """What a simulation does because of its director; how elements live, its subclass says."""

    def __init__(self, layout: Layout, seed: int) -> None:
        self.layout, self.clock = layout, VirtualClock()
        self._random = generator(seed, "simulation")
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._scheduled = 0
        self.lives: dict[str, Life] = {}
        self.storage = {pe.id: MemoryStorage() for pe in layout.pes}
        self.gone_back: dict[str, int] = {pe.id: 0 for pe in layout.pes}  # times without dying
        self._arrives: dict[str, int] = {}  # when what was said last arrives, by way
        self.director_log: list[Mapping[str, Any]] = []
        self.history = History(self.clock.now)
        self._director_host: DirectorHost | None = None

    def _handle(self, life: Life, *events: HostEvent) -> None:
        """The loop of an element comes round, with these events."""
        raise NotImplementedError

    def _live(self, pe: Pe, assignment: Assignment, gone_back: Element | None = None) -> None:
        """A life begins, in a new process or in that of the one before."""
        raise NotImplementedError

    def _over(self, life: Life) -> None:
        """A life is over, dead or gone back."""
        raise NotImplementedError

    def _die(self, life: Life) -> None:
        raise NotImplementedError

    def flush_logs(self, life: Life) -> None:
        raise NotImplementedError

    # The queue of events ----------------------------------------------------------------------------------------------

    def _later(self, delay: int, action: Callable[[], None]) -> None:
        self._scheduled += 1
        heapq.heappush(self._events, (self.clock.time + delay, self._scheduled, action))

    def _soon(self, least: int, most: int) -> int:
        return int(self._random.integers(least, most, endpoint=True))

    # The director -----------------------------------------------------------------------------------------------------

    def _direct(self) -> None:
        """A director begins, with the log of those before it."""
        director = self.layout.director()
        log, append = list(self.director_log), self.director_log.append
        self._director_host = DirectorHost(director, list(self.storage), self, log, append, self.history)
        for life in self.lives.values():
            if life.alive:
                self._join(life)
        self._later(self._soon(1_000, 20_000), bound(self._tick_director, self._director_host))

    def _tick_director(self, directing: DirectorHost) -> None:
        if directing is self._director_host:
            directing.tick(self.clock.now())
            self._later(self._soon(1_000, 20_000), bound(self._tick_director, directing))

    def _join(self, life: Life) -> None:
        line, checkpoints = life.line, dict(life.element.checkpoints)

        def join(directing: DirectorHost) -> None:
            if life.alive:
                directing.joined(life.pe.id, life.epoch, line, checkpoints)
                if life.finished:
                    directing.finished(life.pe.id, life.epoch)

        self.to_director(life.pe.id, join)

    def _in_order(self, way: str) -> int:
        """How long something takes on a way that keeps the order."""
        at = max(self.clock.time + self._soon(50, 5_000), self._arrives.get(way, 0))
        self._arrives[way] = at
        return at - self.clock.time

    def to_director(self, pe: str, tell: Callable[[DirectorHost], None]) -> None:
        """Some time later; nobody hears it if the director has died meanwhile."""
        directing = self._director_host

        def deliver() -> None:
            if directing is not None and directing is self._director_host:
                tell(directing)

        self._later(self._in_order(f"from {pe}"), deliver)

    def _to_element(self, pe: str, act: Callable[[Life], None]) -> None:
        """To a process: what is said after it was told to go back is for the life that begins then."""
        then = self.lives.get(pe)

        def deliver() -> None:
            life = self.lives[pe]
            if then is not None and life.alive and life.process == then.process:
                act(life)

        self._later(self._in_order(f"to {pe}"), deliver)

    def say(self, pe: str, message: Mapping[str, Any]) -> None:
        self._to_element(pe, lambda life: self._handle(life, FromDirector(message)))

    def delete(self, pe: str, ids: tuple[CheckpointId, ...], *, void: bool = False) -> None:
        self._to_element(pe, lambda life: self._handle(life, Unneeded(ids, void)))

    def end(self, pe: str) -> None:
        self._to_element(pe, self._die)

    def work_under(self, pe: str, line: int) -> None:
        def act(life: Life) -> None:
            life.line = max(life.line, line)

        self._to_element(pe, act)

    def go_back(self, pe: str, assignment: Assignment) -> None:
        def act(life: Life) -> None:
            if life.line < assignment.line:
                self.flush_logs(life)
                self._over(life)
                self.gone_back[pe] += 1
                self._live(life.pe, assignment, life.element)

        self._to_element(pe, act)
