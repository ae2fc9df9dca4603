"""What is still to come round in a cycle of several elements: a pure detector, hosted beside the director of a run.

Feedback progress is the progress of what leaves the cycle's last operator, later by the delay of its stream: one turn
admits that much input. Where nothing goes round, nobody tells any, and somebody has to find out that nothing will come.
An element of a cycle tells what it has sent and taken on the channels inside, and how it stands (`engine.Standing`),
when that has not moved for a while. When all numbers agree, the detector asks everybody once more. If nobody has sent
or taken anything in between, there was a moment, between the two answers of each, when every channel was empty: what
comes round later comes from what the second answers tell of, and feedback may go on as far as that admits.

The end: when the inputs of a cycle have ended, nothing waits in it, and progress has come everywhere, those who write
feedback are told first to *close* it (what operators give out at the end does not go back), and when all have, to *end*
it. The end then travels on the channel, behind all rows, so whoever reads it again finds it in its place.

Lives: an element that dies or goes back is asked anew, and what was found out before counts for nothing.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from riprap.engine.feedback import Standing
from riprap.protocols.director import (
    Command,
    Director,
    Event,
    FromElement,
    Joined,
    Lost,
    RollBack,
    SendToElement,
    StartPoint,
)
from riprap.protocols.protocol import Surroundings

CYCLE = "cycle"  # what messages of elements and of the detector are known by


class CycleReport(NamedTuple):
    """What an element tells of itself; channels are those to and from other elements of its cycle."""

    asked: int  # in which round; 0: nobody asked
    sent: Mapping[str, int]  # by channel: number of the next item
    taken: Mapping[str, int]
    told: Mapping[str, Sequence[int]]  # by channel that does not lead back: progress that was given out
    known: Mapping[str, Sequence[int]]  # the same that has come
    standing: Sequence[int]  # `Standing`
    turned: int  # how far all feedback that comes in has come, less its delay
    closed: bool  # no more goes back from here

    @property
    def moved(self) -> tuple[Mapping[str, int], Mapping[str, int]]:
        return self.sent, self.taken


class Detector:
    """Of one cycle."""

    def __init__(self, pes: Sequence[str]) -> None:
        self._pes = tuple(pes)
        self._rests: dict[str, CycleReport] = {}  # the latest of each that lives
        self._before: dict[str, CycleReport] | None = None  # when the round under way began
        self._answers: dict[str, CycleReport] = {}
        self._round = 0

    def forget(self, pe: str) -> None:
        self._rests.pop(pe, None)
        self._before = None

    def heard(self, pe: str, rest: CycleReport) -> list[Command]:
        self._rests[pe] = rest
        if self._before is None:
            return self._ask()
        if rest.asked == self._round:
            self._answers[pe] = rest
        if len(self._answers) < len(self._pes):
            return []
        before, self._before = self._before, None
        if any(before[one].moved != self._answers[one].moved for one in self._pes):
            return self._ask()
        newer = any(self._rests[one] is not self._answers[one] for one in self._pes)  # and they will not say it twice
        return [*self._found(), *(self._ask() if newer else ())]

    def _ask(self) -> list[Command]:
        """Everybody once more, if nothing seems to be on its way."""
        if len(self._rests) < len(self._pes) or not self._agreed():
            return []
        self._before, self._answers = dict(self._rests), {}
        self._round += 1
        return [SendToElement(pe, {CYCLE: {"asked": self._round}}) for pe in self._pes]

    def _agreed(self) -> bool:
        """Whether all that was sent was taken. More may have been, from a log whose writer went back and will repeat
        it: that comes from how the writer stands now.
        """
        sent = {channel: number for rest in self._rests.values() for channel, number in rest.sent.items()}
        taken = {channel: number for rest in self._rests.values() for channel, number in rest.taken.items()}
        return all(taken[channel] >= number for channel, number in sent.items())

    def _found(self) -> list[Command]:
        standing = Standing()
        for rest in self._answers.values():
            standing = standing.beside(Standing(*rest.standing))
        come = min(rest.turned for rest in self._answers.values())
        if not (standing.over and come >= standing.reach and self._heard_of()):
            return self._say({"standing": list(standing)})
        closed = all(rest.closed for rest in self._answers.values())
        return self._say({"end": True} if closed else {"close": True})

    def _heard_of(self) -> bool:
        """Whether all progress inside has come where it leads: no operator speaks because of it any more."""
        known = {channel: key for rest in self._answers.values() for channel, key in rest.known.items()}
        told = {channel: key for rest in self._answers.values() for channel, key in rest.told.items()}
        return all(list(known[channel]) >= list(key) for channel, key in told.items())

    def _say(self, found: Mapping[str, Any]) -> list[Command]:
        return [SendToElement(pe, {CYCLE: found}) for pe in self._pes]


class DetectingDirector(Director):
    """A director, and detectors of cycles beside it, which hear what it has no use for."""

    def __init__(self, director: Director, cycles: Sequence[Sequence[str]]) -> None:
        self._director = director
        detectors = [(pes, Detector(pes)) for pes in cycles]
        self._detectors = {pe: detector for pes, detector in detectors for pe in pes}
        self._epochs: dict[str, int] = {}  # of elements of cycles, those that live

    def begin(self, log: Sequence[Mapping[str, Any]]) -> list[Command]:
        return self._director.begin(log)

    def handle(self, event: Event) -> list[Command]:
        match event:
            case FromElement(pe, epoch, message) if CYCLE in message:
                current = self._epochs.get(pe) == epoch
                return self._detectors[pe].heard(pe, CycleReport(**message[CYCLE])) if current else []
        commands = self._director.handle(event)
        match event:
            case Joined(pe, epoch) if pe in self._detectors:
                self._forget(pe)
                self._epochs[pe] = epoch
                commands = [*commands, SendToElement(pe, {CYCLE: {"asked": 0}})]
            case Lost(pe, epoch) if pe in self._detectors and self._epochs.get(pe, epoch) == epoch:
                self._forget(pe)
        for command in commands:
            for pe in command.targets if isinstance(command, RollBack) else ():
                if pe in self._detectors:
                    self._forget(pe)
        return commands

    def _forget(self, pe: str) -> None:
        self._epochs.pop(pe, None)
        self._detectors[pe].forget(pe)

    def start_point(self, pe: str, epoch: int) -> StartPoint:
        return self._director.start_point(pe, epoch)

    def terms(self) -> Mapping[str, int]:
        return self._director.terms()

    def report(self) -> Mapping[str, Any]:
        return self._director.report()


def detecting(director: Director, elements: Mapping[str, Surroundings]) -> Director:
    """The director of a run, with a detector for each cycle over several elements."""
    cycles = list(dict.fromkeys(s.cycle for s in elements.values() if len(s.cycle) > 1))
    return DetectingDirector(director, cycles) if cycles else director
