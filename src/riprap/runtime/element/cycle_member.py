"""An element on a cycle of several elements: what it reports to the detector (`protocols/detector.py`), and how it acts
on the detector's findings.

The *head* of the cycle, where feedback enters, accepts feedback even while a consumer has no room, and spills it beyond
a bound, so back pressure never propagates around the cycle. It stops reading external input while its merge waits for
feedback and has enough external input, if no other element of the cycle has external inputs.

After the external inputs have ended, a watermark would travel around the cycle for ever, one delay at a time. So the
head bounds it by the last item present, and the detector announces more.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from riprap.engine.engine import Engine, Output
from riprap.engine.feedback import CycleStatus, all_before
from riprap.graph.order_keys import END_KEY, START_KEY, OrderKey
from riprap.protocols.channels import ChannelId
from riprap.protocols.detector import CycleReport
from riprap.runtime.element.element_inputs import InputChannel, Inputs
from riprap.runtime.element.element_outputs import Outputs
from riprap.runtime.layout import Layout, Pe
from riprap.runtime.messages import Message


class CycleMember:
    """`reach`: event time up to which external input had arrived in the restored state."""

    def __init__(self, layout: Layout, pe: Pe, engine: Engine, inputs: Inputs, outputs: Outputs, reach: int) -> None:
        self._engine, self._inputs, self._outputs, self._layout, self._pe = engine, inputs, outputs, layout, pe
        around = layout.surroundings[pe.id]
        inside = {c for c, neighbour in around.inputs.items() if neighbour.pe in around.cycle}
        channels = inputs.channels
        self._inner = [channels[channel] for channel in inside]
        self._entries = [input_ for channel, input_ in channels.items() if channel not in inside]
        self._back = {channels[c]: layout.stream(c).delay for c in inside if around.inputs[c].feedback}
        self._out = [c for c, n in around.outputs.items() if n.pe in around.cycle]
        self._feedback = {c.stream for c in self._out if around.outputs[c].feedback}
        others = [layout.surroundings[other] for other in around.cycle if other != pe.id]
        fed = any(n.pe not in around.cycle for other in others for n in other.inputs.values())
        self._bounds = bool(self._back) and not fed
        self.reach = reach
        self._greatest = START_KEY.ts  # event time of feedback
        self._last_numbers: object = None
        self._reported: CycleReport | None = None
        for input_ in self._back:
            input_.admitted = input_.is_feedback = True
        for input_ in self._inner:
            if input_.merge_cursor is None:  # a watermark in the restored state is not announced again
                input_.watermark = max(input_.watermark, engine.reached(input_.target))

    # Input ------------------------------------------------------------------------------------------------------------

    def arrived(self, input_: InputChannel, message: Message) -> None:
        """The element has accepted a message."""
        last = START_KEY.ts
        if message.batch is not None and message.batch.rows:
            last = message.batch.last_key(self._layout.shape(input_.id)).ts
        if input_.is_feedback:
            self._greatest = max(self._greatest, last)
        elif input_ in self._entries:
            watermark = message.watermark or START_KEY
            self.reach = max(self.reach, last, watermark.ts if watermark != END_KEY else last)

    def bounded(self, input_: InputChannel, watermark: OrderKey) -> OrderKey:
        """The part of a feedback watermark that counts.

        While external input arrives, the watermark is at most one delay ahead of it, unless a log replays the feedback
        before the input: the input may have ended when the watermark was announced.
        """
        if not input_.is_feedback or watermark == END_KEY:
            return watermark
        return min(watermark, all_before(max(self._greatest + 1, self.reach + self._back[input_])))

    @property
    def unread(self) -> Iterator[ChannelId]:
        """External channels not to read, because enough of their items wait for feedback."""
        if self._bounds and any(input_.full for input_ in self._entries):
            feedback = min(input_.watermark for input_ in self._back)
            if all(input_.watermark > feedback for input_ in self._entries):
                yield from (input_.id for input_ in self._entries)

    # For the detector -------------------------------------------------------------------------------------------------

    def tick(self) -> Mapping[str, Any] | None:
        """What to report now: nothing while items move, and nothing twice."""
        numbers, before = self._numbers(), self._last_numbers
        self._last_numbers = numbers
        if numbers != before:
            return None
        rest = self._rest(0)
        return None if rest == self._reported else self._report(rest)

    def answer(self, asked: int) -> Mapping[str, Any]:
        return self._report(self._rest(asked))

    def _report(self, rest: CycleReport) -> Mapping[str, Any]:
        self._reported = rest._replace(asked=0)
        return rest._asdict()

    def _numbers(self) -> tuple[dict[str, int], dict[str, int]]:
        sent = {str(channel): self._outputs.channels[channel].sender.number for channel in self._out}
        return sent, {str(input_.id): input_.receiver.next for input_ in self._inner}

    def _rest(self, asked: int) -> CycleReport:
        outputs, back = self._outputs.channels, self._back
        return CycleReport(
            asked,
            *self._numbers(),
            {str(c): list(outputs[c].announced) for c in self._out if c.stream not in self._feedback},
            {str(input_.id): list(input_.watermark) for input_ in self._inner if input_ not in back},
            list(self._standing()),
            min((input_.watermark.ts - delay + 1 for input_, delay in back.items()), default=END_KEY.ts),
            all(self._outputs.closed(stream) for stream in self._feedback),
        )

    def _standing(self) -> CycleStatus:
        spans = self._engine.spans() + [span for merge in self._inputs.merges.values() for span in merge.spans()]
        spans += [(input_.watermark.ts,) * 2 for input_ in self._inner if input_.backlog]
        boundaries = (operator.next_boundary() for operator in self._engine.operators.values())
        return CycleStatus(
            min((input_.watermark.ts for input_ in self._entries), default=END_KEY.ts),
            self.reach,
            min((first for first, _ in spans), default=END_KEY.ts),
            max((last for _, last in spans), default=START_KEY.ts),
            min((boundary for boundary in boundaries if boundary is not None), default=END_KEY.ts),
        )

    def apply(self, finding: Mapping[str, Any]) -> list[Output]:
        """Act on a finding of the detector; returns what the operators emit."""
        outputs: list[Output] = []
        if "standing" in finding:
            standing = CycleStatus(*finding["standing"])
            for input_, delay in self._back.items():
                if not input_.backlog and input_.parked is None:
                    outputs += self._inputs.advance(input_, standing.turned(delay))
                else:
                    self._reported = None  # report again: what waits may have no items, and nothing else would move
        for stream in self._feedback if "close" in finding or "end" in finding else ():
            self._outputs.close(stream, ended="end" in finding)
        return outputs
