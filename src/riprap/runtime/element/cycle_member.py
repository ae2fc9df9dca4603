"""An element on a cycle of several: what it tells the detector (`protocols/detector.py`), and what it does when told.

Where feedback comes in (the *head* of the cycle) it is taken also while some consumer has no room, and waits on disk
beyond a bound: so back pressure never comes round to itself. Input from outside is not read while feedback is what
everything waits for and there is enough of it, where nobody else on the cycle could miss it.

When the inputs from outside have ended, progress that comes round by itself would go round for ever, a delay at a time:
it counts up to the last of what is there, and the detector says more.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from riprap.engine.engine import Engine, Output
from riprap.engine.feedback import Standing, all_before
from riprap.graph.order_keys import END_KEY, START_KEY, OrderKey
from riprap.protocols.channels import ChannelId
from riprap.protocols.detector import CycleReport
from riprap.runtime.element.element_inputs import InputChannel, Inputs
from riprap.runtime.element.element_outputs import Outputs
from riprap.runtime.layout import Layout, Pe
from riprap.runtime.messages import Message


class CycleMember:
    """`reach`: how far what comes in from outside the cycle had come, in the life of which this one has the state."""

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
        self._greatest = START_KEY.ts  # time of what has come back
        self._moved: object = None
        self._said: CycleReport | None = None
        for input_ in self._back:
            input_.admitted = input_.is_feedback = True
        for input_ in self._inner:
            if input_.merge_cursor is None:  # what is in the state is not told again
                input_.watermark = max(input_.watermark, engine.reached(input_.target))

    # What comes in ----------------------------------------------------------------------------------------------------

    def came(self, input_: InputChannel, message: Message) -> None:
        """A message is taken into the element."""
        last = START_KEY.ts
        if message.batch is not None and message.batch.rows:
            last = message.batch.last_key(self._layout.shape(input_.id)).ts
        if input_.is_feedback:
            self._greatest = max(self._greatest, last)
        elif input_ in self._entries:
            told = message.watermark or START_KEY
            self.reach = max(self.reach, last, told.ts if told != END_KEY else last)

    def bounded(self, input_: InputChannel, watermark: OrderKey) -> OrderKey:
        """How far progress that has come round counts.

        While input comes in, it is no further than a delay behind that, unless a log brings it again before the input:
        then the input may have ended when it was told.
        """
        if not input_.is_feedback or watermark == END_KEY:
            return watermark
        return min(watermark, all_before(max(self._greatest + 1, self.reach + self._back[input_])))

    @property
    def unread(self) -> Iterator[ChannelId]:
        """Channels from outside that are not read, because there is enough of them until feedback has come."""
        if self._bounds and any(input_.full for input_ in self._entries):
            came = min(input_.watermark for input_ in self._back)
            if all(input_.watermark > came for input_ in self._entries):
                yield from (input_.id for input_ in self._entries)

    # For the detector -------------------------------------------------------------------------------------------------

    def tick(self) -> Mapping[str, Any] | None:
        """What there is to say when time has passed: nothing while items move, and nothing twice."""
        moved, before = self._numbers(), self._moved
        self._moved = moved
        if moved != before:
            return None
        rest = self._rest(0)
        return None if rest == self._said else self._say(rest)

    def answer(self, asked: int) -> Mapping[str, Any]:
        return self._say(self._rest(asked))

    def _say(self, rest: CycleReport) -> Mapping[str, Any]:
        self._said = rest._replace(asked=0)
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

    def _standing(self) -> Standing:
        spans = self._engine.spans() + [span for merge in self._inputs.merges.values() for span in merge.spans()]
        spans += [(input_.watermark.ts,) * 2 for input_ in self._inner if input_.backlog]
        speaking = (operator.next_boundary() for operator in self._engine.operators.values())
        return Standing(
            min((input_.watermark.ts for input_ in self._entries), default=END_KEY.ts),
            self.reach,
            min((first for first, _ in spans), default=END_KEY.ts),
            max((last for _, last in spans), default=START_KEY.ts),
            min((boundary for boundary in speaking if boundary is not None), default=END_KEY.ts),
        )

    def found(self, found: Mapping[str, Any]) -> list[Output]:
        """What the detector has found out; gives what the operators give out because of it."""
        outputs: list[Output] = []
        if "standing" in found:
            standing = Standing(*found["standing"])
            for input_, delay in self._back.items():
                if not input_.backlog and input_.parked is None:
                    outputs += self._inputs.advance(input_, standing.turned(delay))
                else:
                    self._said = None  # what waits may be no item, and then nothing else would have it found out again
        for stream in self._feedback if "close" in found or "end" in found else ():
            self._outputs.close(stream, ended="end" in found)
        return outputs
