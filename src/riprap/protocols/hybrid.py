"""Hybrid: unaligned rounds within each part of the graph that logs separate, and a recovery line per part.

Every channel into and out of a cycle is logged (`ProtocolSpec.borders`), and a plan may request more logs. Elements
that no log separates form a *domain*. Each domain takes its own rounds, as in `unaligned.py`: nothing is parked,
markers overtake rows, and cycles need no special rule. When an element fails, its domain rolls back to its last
committed round, and other domains are not affected: its inputs are replayed from logs, and its repeated output has the
same numbers as before, so its logs drop it. If some operator of a domain is not deterministic, its logs contain only
committed output (`ProtocolSpec.guarded`, `commitment.py`).

The director has a round director (`rounds.py`) per domain. Lines are numbered over the whole run, and each domain
director counts its own; `HybridDirector` translates between the two.
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
    """The neighbours that no log separates from an element, without sinks."""
    return {channel: n for channel, n in neighbours.items() if n.retention != "log" and n.pe}


def inside(surroundings: Surroundings) -> Surroundings:
    """An element as its domain sees it: a logged input counts as a source."""
    inputs = within(surroundings.inputs)
    read = tuple(channel.stream for channel in surroundings.inputs if channel not in inputs)
    return replace(surroundings, inputs=inputs, sources=(*surroundings.sources, *read))


def domains(elements: Mapping[str, Surroundings]) -> list[dict[str, Surroundings]]:
    """Groups of elements that no log separates, ordered by their first element."""
    domains_: list[dict[str, Surroundings]] = []
    left = dict(elements)
    while left:
        first = next(iter(left))
        reached, pending = {first}, [first]
        while pending:
            here = elements[pending.pop()]
            for neighbour in (*within(here.inputs).values(), *within(here.outputs).values()):
                if neighbour.pe not in reached:
                    reached.add(neighbour.pe)
                    pending.append(neighbour.pe)
        domains_.append({pe: inside(left.pop(pe)) for pe in elements if pe in reached})
    return domains_


class Hybrid(Unaligned):
    """Unaligned rounds within the element's domain. Sinks and logged channels take no part in them."""

    def __init__(self, surroundings: Surroundings, plan: RestorePlan) -> None:
        own = inside(surroundings)
        super().__init__(replace(own, outputs=within(own.outputs)), plan)
        self.taken = dict.fromkeys(surroundings.inputs, 0)


class DomainDirector(RoundDirector):
    """The director of one domain, whose channels are the unlogged ones between its elements."""

    def __init__(self, elements: Mapping[str, Surroundings]) -> None:
        super().__init__(elements)
        inside = {channel for surroundings in elements.values() for channel in surroundings.inputs}
        self.channels = {channel: ends for channel, ends in self.channels.items() if channel in inside}


class HybridDirector(Director):
    def __init__(self, elements: Mapping[str, Surroundings]) -> None:
        parts = domains(elements)
        self.directors = [DomainDirector(part) for part in parts]
        self.domain = {pe: index for index, part in enumerate(parts) for pe in part}
        self.lines: list[list[int]] = [[] for _ in parts]  # by domain: the run-wide numbers of its lines
        self.line = 0

    def begin(self, log: Sequence[Mapping[str, Any]]) -> list[Command]:
        records: list[list[Mapping[str, Any]]] = [[] for _ in self.directors]
        for entry in log:
            records[entry["domain"]].append(entry["record"])
            if "line" in entry["record"]:
                self.line += 1
                self.lines[entry["domain"]].append(self.line)
        commands = [
            replace_line(command, self.lines[index][-1]) if isinstance(command, RollBack) else command
            for index, director in enumerate(self.directors)
            for command in director.begin(records[index])
        ]
        return sorted(commands, key=lambda command: command.line if isinstance(command, RollBack) else 0)

    def handle(self, event: Event) -> list[Command]:
        match event:
            case Joined(pe=pe) | Lost(pe=pe) | Silent(pe=pe) | Finished(pe=pe) | FromElement(pe=pe):
                return self._forward(self.domain[pe], event)
            case CheckpointDurable(id=id):
                return self._forward(self.domain[id.pe], event)
        return [command for index in range(len(self.directors)) for command in self._forward(index, event)]

    def _forward(self, index: int, event: Event) -> list[Command]:
        if isinstance(event, Joined | CheckpointDurable):
            event = event._replace(line=sum(line <= event.line for line in self.lines[index]))
        commands: list[Command] = []
        for command in self.directors[index].handle(event):
            match command:
                case Persist(record):
                    commands.append(Persist({"domain": index, "record": record}))
                    if "line" in record:
                        self.line += 1
                        self.lines[index].append(self.line)
                case RollBack():
                    commands.append(replace_line(command, self.line))
                case _:
                    commands.append(command)
        return commands


def replace_line(command: RollBack, line: int) -> RollBack:
    return command._replace(line=line)


SPEC = ProtocolSpec(
    "hybrid", round_plan, Hybrid, HybridDirector, retention=("hold", "hold"), guarded=True, borders="log"
)
