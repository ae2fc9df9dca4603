"""Quiescence and termination detection for a cycle of several elements: pure, hosted beside the director of a run.

The feedback watermark is the watermark of the cycle's last operator plus the delay of its stream: one turn admits that
much input. If no rows circulate, no element announces a watermark, and someone has to detect that none will follow. An
element of a cycle reports what it has sent and accepted on the channels inside, and its state (`engine.CycleStatus`),
when that has not changed for a while. When all numbers agree, the detector asks every element once more. If none has
sent or accepted anything in between, every channel was empty at some moment between its two reports: later feedback
can only come from what the second reports contain, and the feedback watermark may advance as far as that allows.

The end: when the inputs of a cycle have ended, nothing waits in it, and all watermarks have arrived, the writers of
feedback are told first to *close* it (what operators emit at the end is not fed back), and when all have, to *end* it.
The end then travels on the channel behind all rows, so a replay finds it in its place.

An element that restarts or rolls back is asked again, and earlier reports are discarded.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from riprap.engine.feedback import CycleStatus
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

CYCLE = "cycle"  # the key of messages between elements and the detector


class CycleReport(NamedTuple):
    """The report of an element; channels are those to and from other elements of its cycle."""

    asked: int  # the round that it answers; 0: unsolicited
    sent: Mapping[str, int]  # by channel: number of the next item
    taken: Mapping[str, int]
    told: Mapping[str, Sequence[int]]  # by channel without feedback: the announced watermark
    known: Mapping[str, Sequence[int]]  # the same: the received watermark
    standing: Sequence[int]  # `CycleStatus`
    turned: int  # event time that all incoming feedback has reached, less its delay
    closed: bool  # this element feeds nothing back any more

    @property
    def moved(self) -> tuple[Mapping[str, int], Mapping[str, int]]:
        return self.sent, self.taken


class Detector:
    """The detector of one cycle."""

    def __init__(self, pes: Sequence[str]) -> None:
        self._pes = tuple(pes)
        self._reports: dict[str, CycleReport] = {}  # the latest of each live element
        self._before: dict[str, CycleReport] | None = None  # the reports at the start of the round in progress
        self._answers: dict[str, CycleReport] = {}
        self._round = 0

    def forget(self, pe: str) -> None:
        self._reports.pop(pe, None)
        self._before = None

    def receive(self, pe: str, report: CycleReport) -> list[Command]:
        self._reports[pe] = report
        if self._before is None:
            return self._ask()
        if report.asked == self._round:
            self._answers[pe] = report
        if len(self._answers) < len(self._pes):
            return []
        before, self._before = self._before, None
        if any(before[other].moved != self._answers[other].moved for other in self._pes):
            return self._ask()
        # Elements do not repeat a report, so a newer one has to start the next round now.
        newer = any(self._reports[other] is not self._answers[other] for other in self._pes)
        return [*self._decide(), *(self._ask() if newer else ())]

    def _ask(self) -> list[Command]:
        """Start a round if no item seems to be in flight."""
        if len(self._reports) < len(self._pes) or not self._agreed():
            return []
        self._before, self._answers = dict(self._reports), {}
        self._round += 1
        return [SendToElement(pe, {CYCLE: {"asked": self._round}}) for pe in self._pes]

    def _agreed(self) -> bool:
        """Whether all sent items were accepted. More may have been, from a log whose writer rolled back and will repeat
        them: they follow from the writer's current state.
        """
        sent = {channel: number for report in self._reports.values() for channel, number in report.sent.items()}
        taken = {channel: number for report in self._reports.values() for channel, number in report.taken.items()}
        return all(taken[channel] >= number for channel, number in sent.items())

    def _decide(self) -> list[Command]:
        standing = CycleStatus()
        for report in self._answers.values():
            standing = standing.beside(CycleStatus(*report.standing))
        turned = min(report.turned for report in self._answers.values())
        if not (standing.over and turned >= standing.reach and self._watermarks_arrived()):
            return self._broadcast({"standing": list(standing)})
        closed = all(report.closed for report in self._answers.values())
        return self._broadcast({"end": True} if closed else {"close": True})

    def _watermarks_arrived(self) -> bool:
        """Whether all announced watermarks inside have been received: they trigger no more output."""
        known = {channel: key for report in self._answers.values() for channel, key in report.known.items()}
        announced = {channel: key for report in self._answers.values() for channel, key in report.told.items()}
        return all(list(known[channel]) >= list(key) for channel, key in announced.items())

    def _broadcast(self, message: Mapping[str, Any]) -> list[Command]:
        return [SendToElement(pe, {CYCLE: message}) for pe in self._pes]


class DetectingDirector(Director):
    """A director with detectors of cycles beside it, which handle the messages under `CYCLE`."""

    def __init__(self, director: Director, cycles: Sequence[Sequence[str]]) -> None:
        self._director = director
        detectors = [(pes, Detector(pes)) for pes in cycles]
        self._detectors = {pe: detector for pes, detector in detectors for pe in pes}
        self._epochs: dict[str, int] = {}  # by live element of a cycle

    def begin(self, log: Sequence[Mapping[str, Any]]) -> list[Command]:
        return self._director.begin(log)

    def handle(self, event: Event) -> list[Command]:
        match event:
            case FromElement(pe, epoch, message) if CYCLE in message:
                current = self._epochs.get(pe) == epoch
                return self._detectors[pe].receive(pe, CycleReport(**message[CYCLE])) if current else []
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

    def validate(self) -> None:
        self._director.validate()

    def start_point(self, pe: str, epoch: int) -> StartPoint:
        return self._director.start_point(pe, epoch)

    def terms(self) -> Mapping[str, int]:
        return self._director.terms()

    def report(self) -> Mapping[str, Any]:
        return self._director.report()


def detecting(director: Director, elements: Mapping[str, Surroundings]) -> Director:
    """The director of a run, with a detector for each cycle of several elements."""
    cycles = list(dict.fromkeys(s.cycle for s in elements.values() if len(s.cycle) > 1))
    return DetectingDirector(director, cycles) if cycles else director
