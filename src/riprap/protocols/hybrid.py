"""Hybrid: rounds without aligning in each part of a graph that logs separate, and a line for each of them.

Every channel into and out of a cycle is logged (`ProtocolSpec.borders`), and a plan may ask for more logs. Elements
that no log separates are a *domain*. A domain takes its checkpoints in rounds of its own, as `unaligned.py` does:
nothing is parked, markers overtake rows, and cycles need no rule of their own. When an element fails, its domain goes
back to its last committed round, and nobody else notices: what comes to it is read again from logs, and what it gives
out again has the numbers of before, so its logs drop it. Where a domain would not repeat itself, because some operator
of it is not deterministic, its logs have what is committed and nothing else (`ProtocolSpec.guarded`, `showing.py`).

The director is one of rounds (`rounds.py`) for each domain. Lines of a run are numbered throughout; each domain counts
its own, and the n-th of a domain is told from the numbers of all lines by which of them were its own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from riprap.protocols.channels import ChannelId
from riprap.protocols.coordinated import round_plan
from riprap.protocols.director import (
    CheckpointDurable,
    Command,
    Director,
    Event,
    Finished,
    FromElement,
    Joined,
    Lost,
    Persist,
    RollBack,
    Silent,
)
from riprap.protocols.protocol import Neighbour, ProtocolSpec, RestorePlan, Surroundings
from riprap.protocols.rounds import RoundDirector
from riprap.protocols.unaligned import Unaligned


def within(neighbours: Mapping[ChannelId, Neighbour]) -> dict[ChannelId, Neighbour]:
    """Those that no log separates from an element; its sinks, too, do not count."""
    return {channel: n for channel, n in neighbours.items() if n.retention != "log" and n.pe}


def inside(surroundings: Surroundings) -> Surroundings:
    """An element as its domain sees it: what logs bring is read again, as from a source."""
    inputs = within(surroundings.inputs)
    read = tuple(channel.stream for channel in surroundings.inputs if channel not in inputs)
    return replace(surroundings, inputs=inputs, sources=(*surroundings.sources, *read))


def domains(elements: Mapping[str, Surroundings]) -> list[dict[str, Surroundings]]:
    """Elements that no log separates from each other, in the order in which the first of them comes."""
    found: list[dict[str, Surroundings]] = []
    left = dict(elements)
    while left:
        first = next(iter(left))
        reached, doubtful = {first}, [first]
        while doubtful:
            here = elements[doubtful.pop()]
            for neighbour in (*within(here.inputs).values(), *within(here.outputs).values()):
                if neighbour.pe not in reached:
                    reached.add(neighbour.pe)
                    doubtful.append(neighbour.pe)
        found.append({pe: inside(left.pop(pe)) for pe in elements if pe in reached})
    return found


class Hybrid(Unaligned):
    """As unaligned, within its domain. What ends, or comes from logs, is no business of rounds."""

    def __init__(self, surroundings: Surroundings, plan: RestorePlan) -> None:
        own = inside(surroundings)
        super().__init__(replace(own, outputs=within(own.outputs)), plan)
        self.taken = dict.fromkeys(surroundings.inputs, 0)


class DomainDirector(RoundDirector):
    """Of one domain: its channels are those between its elements that are not logged."""

    def __init__(self, elements: Mapping[str, Surroundings]) -> None:
        super().__init__(elements)
        inside = {channel for surroundings in elements.values() for channel in surroundings.inputs}
        self.channels = {channel: ends for channel, ends in self.channels.items() if channel in inside}


class HybridDirector(Director):
    def __init__(self, elements: Mapping[str, Surroundings]) -> None:
        parts = domains(elements)
        self.directors = [DomainDirector(part) for part in parts]
        self.domain = {pe: index for index, part in enumerate(parts) for pe in part}
        self.lines: list[list[int]] = [[] for _ in parts]  # of each domain: the numbers of its lines among all
        self.line = 0

    def begin(self, log: Sequence[Mapping[str, Any]]) -> list[Command]:
        records: list[list[Mapping[str, Any]]] = [[] for _ in self.directors]
        for entry in log:
            records[entry["domain"]].append(entry["record"])
            if "line" in entry["record"]:
                self.line += 1
                self.lines[entry["domain"]].append(self.line)
        told = [
            replace_line(command, self.lines[index][-1]) if isinstance(command, RollBack) else command
            for index, director in enumerate(self.directors)
            for command in director.begin(records[index])
        ]
        return sorted(told, key=lambda command: command.line if isinstance(command, RollBack) else 0)

    def handle(self, event: Event) -> list[Command]:
        match event:
            case Joined(pe=pe) | Lost(pe=pe) | Silent(pe=pe) | Finished(pe=pe) | FromElement(pe=pe):
                return self._tell(self.domain[pe], event)
            case CheckpointDurable(id=id):
                return self._tell(self.domain[id.pe], event)
        return [command for index in range(len(self.directors)) for command in self._tell(index, event)]

    def _tell(self, index: int, event: Event) -> list[Command]:
        if isinstance(event, Joined | CheckpointDurable):
            event = event._replace(line=sum(line <= event.line for line in self.lines[index]))
        found: list[Command] = []
        for command in self.directors[index].handle(event):
            match command:
                case Persist(record):
                    found.append(Persist({"domain": index, "record": record}))
                    if "line" in record:
                        self.line += 1
                        self.lines[index].append(self.line)
                case RollBack():
                    found.append(replace_line(command, self.line))
                case _:
                    found.append(command)
        return found


def replace_line(command: RollBack, line: int) -> RollBack:
    return command._replace(line=line)


SPEC = ProtocolSpec(
    "hybrid", round_plan, Hybrid, HybridDirector, retention=("hold", "hold"), guarded=True, borders="log"
)
