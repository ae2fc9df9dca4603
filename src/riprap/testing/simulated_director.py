"""The director of a simulated run, and the queue of events.

Messages to and from the director take a time drawn from the seed, keep their order per element and direction, and are
lost when either side dies. A new director has the log of earlier ones, and every live element joins it.
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
from riprap.testing.simulated_incarnation import SimulatedIncarnation


class DirectedSimulation:
    """The part of a simulation that hosts the director; the subclass hosts the elements."""

    def __init__(self, layout: Layout, seed: int) -> None:
        self.layout, self.clock = layout, VirtualClock()
        self._random = generator(seed, "simulation")
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._scheduled = 0
        self.incarnations: dict[str, SimulatedIncarnation] = {}
        self.storage = {pe.id: MemoryStorage() for pe in layout.pes}
        self.rollbacks: dict[str, int] = {pe.id: 0 for pe in layout.pes}  # without dying
        self._arrives: dict[str, int] = {}  # when the last message arrives, by path
        self.director_log: list[Mapping[str, Any]] = []
        self.history = History(self.clock.now)
        self._director_host: DirectorHost | None = None

    def _handle(self, incarnation: SimulatedIncarnation, *events: HostEvent) -> None:
        """One iteration of an element's loop, with these events."""
        raise NotImplementedError

    def _start_incarnation(self, pe: Pe, assignment: Assignment, previous: Element | None = None) -> None:
        """Start an incarnation, in a new process or, with `previous`, in the process of the previous one."""
        raise NotImplementedError

    def _end_incarnation(self, incarnation: SimulatedIncarnation) -> None:
        """An incarnation died or rolled back."""
        raise NotImplementedError

    def _die(self, incarnation: SimulatedIncarnation) -> None:
        raise NotImplementedError

    def flush_logs(self, incarnation: SimulatedIncarnation) -> None:
        raise NotImplementedError

    # The queue of events ----------------------------------------------------------------------------------------------

    def _later(self, delay: int, action: Callable[[], None]) -> None:
        self._scheduled += 1
        heapq.heappush(self._events, (self.clock.time + delay, self._scheduled, action))

    def _soon(self, least: int, most: int) -> int:
        return int(self._random.integers(least, most, endpoint=True))

    # The director -----------------------------------------------------------------------------------------------------

    def _start_director(self) -> None:
        """Start a director, with the log of earlier ones."""
        director = self.layout.director()
        log, append = list(self.director_log), self.director_log.append
        self._director_host = DirectorHost(director, list(self.storage), self, log, append, self.history)
        for incarnation in self.incarnations.values():
            if incarnation.alive:
                self._join(incarnation)
        self._later(self._soon(1_000, 20_000), bound(self._tick_director, self._director_host))

    def _tick_director(self, director_host: DirectorHost) -> None:
        if director_host is self._director_host:
            director_host.tick(self.clock.now())
            director_host.validate()
            self._later(self._soon(1_000, 20_000), bound(self._tick_director, director_host))

    def _join(self, incarnation: SimulatedIncarnation) -> None:
        line, checkpoints = incarnation.line, dict(incarnation.element.checkpoints)

        def join(director_host: DirectorHost) -> None:
            if incarnation.alive:
                director_host.joined(incarnation.pe.id, incarnation.epoch, line, checkpoints)
                if incarnation.finished:
                    director_host.finished(incarnation.pe.id, incarnation.epoch)

        self.to_director(incarnation.pe.id, join)

    def _in_order(self, path: str) -> int:
        """The delay of a message on a path that keeps the order."""
        at = max(self.clock.time + self._soon(50, 5_000), self._arrives.get(path, 0))
        self._arrives[path] = at
        return at - self.clock.time

    def to_director(self, pe: str, report: Callable[[DirectorHost], None]) -> None:
        """Call `report` some time later, unless the director dies meanwhile."""
        director_host = self._director_host

        def deliver() -> None:
            if director_host is not None and director_host is self._director_host:
                report(director_host)
                director_host.validate()

        self._later(self._in_order(f"from {pe}"), deliver)

    def _to_element(self, pe: str, act: Callable[[SimulatedIncarnation], None]) -> None:
        """Deliver an order to a process. One that follows a rollback is for the new incarnation."""
        then = self.incarnations.get(pe)

        def deliver() -> None:
            incarnation = self.incarnations[pe]
            if then is not None and incarnation.alive and incarnation.process == then.process:
                act(incarnation)

        self._later(self._in_order(f"to {pe}"), deliver)

    def say(self, pe: str, message: Mapping[str, Any]) -> None:
        self._to_element(pe, lambda incarnation: self._handle(incarnation, FromDirector(message)))

    def delete(self, pe: str, ids: tuple[CheckpointId, ...], *, void: bool = False) -> None:
        self._to_element(pe, lambda incarnation: self._handle(incarnation, Unneeded(ids, void)))

    def end(self, pe: str) -> None:
        self._to_element(pe, self._die)

    def work_under(self, pe: str, line: int) -> None:
        def act(incarnation: SimulatedIncarnation) -> None:
            incarnation.line = max(incarnation.line, line)

        self._to_element(pe, act)

    def go_back(self, pe: str, assignment: Assignment) -> None:
        def act(incarnation: SimulatedIncarnation) -> None:
            if incarnation.line < assignment.line:
                self.flush_logs(incarnation)
                self._end_incarnation(incarnation)
                self.rollbacks[pe] += 1
                self._start_incarnation(incarnation.pe, assignment, incarnation.element)

        self._to_element(pe, act)
