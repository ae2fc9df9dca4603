"""The current cut of an element, and the captures that a protocol orders at it.

A cut is taken between two calls of the engine, when all output of the first is numbered. A capture may record the
messages of some channels until the protocol closes them: the element adds each message to it as it accepts it.
"""

from collections.abc import Iterable, Mapping

from riprap.base.clock import Clock
from riprap.engine.engine import Engine
from riprap.engine.merger import MergerState
from riprap.graph.order_keys import END_KEY, START_KEY
from riprap.protocols.channels import ChannelId
from riprap.protocols.cut import Cut
from riprap.protocols.events import Abandon, Close, TakeCheckpoint
from riprap.protocols.protocol import Protocol
from riprap.runtime.element.captures import Captures, OpenCapture
from riprap.runtime.element.cycle_member import CycleMember
from riprap.runtime.element.element_inputs import Inputs
from riprap.runtime.element.element_outputs import Outputs
from riprap.runtime.element.message_bytes import encode_message
from riprap.runtime.element.restore import SHARDS
from riprap.runtime.element.resume_points import ResumePoints
from riprap.runtime.element.shard_merge import ShardMerge
from riprap.runtime.element.withheld import Withheld
from riprap.runtime.host import Host


class Cuts:
    def __init__(
        self,
        protocol: Protocol,
        engine: Engine,
        merges: Mapping[str, ShardMerge],
        inputs: Inputs,
        outputs: Outputs,
        resume_points: ResumePoints,
        withheld: Withheld,
        captures: Captures,
        host: Host,
        clock: Clock,
        cycle: CycleMember | None,
    ) -> None:
        self._protocol, self._plan, self._engine, self._merges = protocol, protocol.plan, engine, merges
        self._inputs, self._outputs, self._resume_points = inputs, outputs, resume_points
        self._withheld, self._captures, self._host, self._clock = withheld, captures, host, clock
        self._cycle = cycle

    def cut(self, operators: Iterable[str]) -> Cut:
        """The current cut of a unit with these operators."""
        names, inputs = set(operators), self._inputs.channels
        parked = self._withheld.parked()
        if self._plan.delivered == "taken":
            parked |= {
                c: tuple(map(encode_message, input_.backlog.all())) for c, input_ in inputs.items() if input_.backlog
            }
        return Cut(
            {name: self._engine.reached(name) for name in names},
            dict(self._resume_points.taken),
            {channel: input_.cut() for channel, input_ in inputs.items()},
            {channel: output.emitted for channel, output in self._outputs.channels.items()},
            self._protocol.snapshot(),
            parked,
            {**self._inputs.delivered_by_copies(), **self._outputs.emitted_to_copies()},
            self._cycle.reach if self._cycle is not None else START_KEY.ts,
        )

    def capture(self, command: TakeCheckpoint) -> None:
        self._host.flush()  # the numbers of the cut promise that logged items are on disk
        cut = self.cut(self._plan.units[command.unit].operators)
        self._withheld.captured(command.tag)
        capture = self._captures.take(command, self._engine, cut, self._clock.now(), self._mergers())
        if capture is not None:
            for channel in command.record:
                self._inputs.channels[channel].open_captures.append(capture)

    def _mergers(self) -> dict[str, MergerState]:
        """The state of mergers that a restart loads from the checkpoint. An operator that is restored alone loads none,
        and items that have not passed may be delivered again instead (`Restore`).
        """
        if not self._plan.whole:
            return {}
        mergers = dict(self._engine.waiting())
        mergers |= {SHARDS + stream: merge.snapshot() for stream, merge in self._merges.items()}
        if self._plan.delivered == "passed":
            for channel, input_ in self._inputs.channels.items():
                for name, port in ((input_.target, input_.port), (SHARDS + input_.stream, channel.source)):
                    if name in mergers:
                        mergers[name] = mergers[name].emptied(port, END_KEY)
        return mergers

    def close(self, command: Close) -> None:
        self._stop_recording(self._captures.close(command.channel, command.tag), (command.channel,))

    def abandon(self, command: Abandon) -> None:
        if (capture := self._captures.abandon(command.tag)) is not None:
            self._stop_recording(capture, capture.command.record)

    def _stop_recording(self, capture: OpenCapture | None, channels: Iterable[ChannelId]) -> None:
        for channel in channels:
            recorded = self._inputs.channels[channel].open_captures
            if capture in recorded:
                recorded.remove(capture)
