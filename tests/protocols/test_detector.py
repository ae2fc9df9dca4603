"""The detector of a cycle: what it asks, and when it says how far feedback has come, or that it ends."""

from riprap.engine.feedback import CycleStatus
from riprap.graph.order_keys import END_KEY, START_KEY
from riprap.protocols.detector import CYCLE, CycleReport, DetectingDirector, Detector
from riprap.protocols.director import Director, FromElement, Joined, Lost, RollBack, SendToElement

END, START = list(END_KEY), list(START_KEY)
PES = ("Head", "Body")
OPEN = CycleStatus(external=50, reach=50)


def rest(pe, asked=0, sent=3, taken=3, standing=OPEN, told=START, turned=60, closed=False):
    """Of the head, which sends `there`, or of the body, which sends `back`."""
    there, back = {"there": sent}, {"back": sent}
    came = {"there": taken}, {"back": taken}
    if pe == "Head":
        return CycleReport(asked, there, came[1], {"there": told}, {}, list(standing), turned, True)
    return CycleReport(asked, back, came[0], {}, {"there": told}, list(standing), END_KEY.ts, closed)


def said(commands):
    return [command.message[CYCLE] for command in commands if isinstance(command, SendToElement)]


def answered(detector, **more):
    """What it says when everybody has answered the round under way, or the first that begins."""
    commands = [c for pe in PES for c in detector.receive(pe, rest(pe, **more))]
    (asked,) = {message["asked"] for message in said(commands)}
    return said([c for pe in PES for c in detector.receive(pe, rest(pe, asked, **more))])


def test_it_asks_twice_and_tells_what_may_come():
    found = answered(Detector(PES))
    assert found == [{"standing": list(OPEN)}] * 2
    assert CycleStatus(*found[0]["standing"]).turned(10).ts == 59


def test_it_says_nothing_while_something_is_on_its_way():
    detector = Detector(PES)
    assert not detector.receive("Head", rest("Head"))
    assert not detector.receive("Body", rest("Body", taken=2))  # the head has sent 3
    assert said(detector.receive("Body", rest("Body")))


def test_what_moved_between_the_answers_is_no_moment_of_rest():
    """Both rounds agree in their numbers, but not with each other: a row went round while they were asked."""
    detector = Detector(PES)
    (asked,) = {m["asked"] for pe in PES for m in said(detector.receive(pe, rest(pe)))}
    detector.receive("Head", rest("Head", asked, sent=4, taken=4))
    again = said(detector.receive("Body", rest("Body", asked, sent=4, taken=4)))
    assert again == [{"asked": asked + 1}] * 2
    detector.receive("Head", rest("Head", asked + 1, sent=4, taken=4))
    assert "standing" in said(detector.receive("Body", rest("Body", asked + 1, sent=4, taken=4)))[0]


def test_feedback_is_closed_everywhere_before_it_ends():
    over = CycleStatus(reach=50)
    assert over.over
    detector = Detector(PES)
    assert "standing" in answered(detector, standing=over, turned=49)[0]  # it has not come to where the inputs were
    assert answered(detector, standing=over) == [{"close": True}] * 2
    assert answered(detector, standing=over, closed=True) == [{"end": True}] * 2


def test_it_does_not_end_while_progress_is_on_its_way():
    detector, over = Detector(PES), CycleStatus(reach=50)
    for pe in PES:
        detector.receive(pe, rest(pe, standing=over))
    detector.receive("Head", rest("Head", 1, standing=over, told=[60, 0, 0, 0]))
    assert "standing" in said(detector.receive("Body", rest("Body", 1, standing=over, told=[59, 0, 0, 0])))[0]


def test_time_does_not_go_on_for_ever_behind_the_end():
    left = CycleStatus(reach=50, first=70, last=90, boundary=1000)
    assert left.turned(10).ts == 79  # what waits first goes round first
    assert left._replace(first=95, last=90).turned(10).ts == 90
    assert CycleStatus(reach=50, boundary=1000).turned(10).ts == 59
    assert CycleStatus(external=START_KEY.ts).turned(10) == START_KEY


def test_what_a_life_said_is_forgotten_with_it():
    class Falls(Director):
        def handle(self, event):
            return [RollBack(1, {"Body": None})] if isinstance(event, Lost) and event.pe == "Else" else []

    director = DetectingDirector(Falls(), [PES])

    def tell(pe, epoch):
        return said(director.handle(FromElement(pe, epoch, {CYCLE: rest(pe)._asdict()})))

    for pe in PES:
        assert said(director.handle(Joined(pe, 1, 0, {}))) == [{"asked": 0}]
    tell("Head", 1)
    director.handle(Lost("Head", 1))
    assert not tell("Body", 1)
    director.handle(Joined("Head", 2, 0, {}))
    assert not tell("Head", 1)  # of the life before
    assert tell("Head", 2) == [{"asked": 1}] * 2
    director.handle(Lost("Else", 1))  # the body goes back
    assert not tell("Body", 1)
    director.handle(Joined("Body", 2, 1, {}))
    assert tell("Body", 2) == [{"asked": 2}] * 2
