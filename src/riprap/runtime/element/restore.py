"""Where an incarnation starts: the restored state of its operators, and the position of each input and output.

An input resumes as its retention allows:

    discard  at the position of the previous incarnation, from the ledger: what was sent since is lost
    remember the same, but the replicas may still hold what was sent since
    while-down  the same, but the producer has retained what was sent since; what was processed after the checkpoint is
             forgotten, and counted
    copy     at the snapshot of another copy; without one, as discard
    hold     at the checkpoint of its operator, since the producer holds what follows; for an operator without
             checkpoints, at the first item that it had not released
    log      at the checkpoint, or at the start of the log

Outputs resume with the numbers of the checkpoint if the same items are emitted again (`RestorePlan.exact`). Otherwise
the numbers continue, for a log from its end: items that were numbered and did not reach the log do not exist.

If all elements roll back together (*delivered* means taken), the counts of the ledger roll back too: items received or
missed after the checkpoint do not count.

What an operator processed after its checkpoint and does not get again is *undone*: the ledger of the new incarnation
counts it, and the ledger of the previous one bounds its event times (`coordination/damage.py`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from riprap.checkpoints.load import Loaded
from riprap.engine.engine import Engine
from riprap.engine.merger import MergerState
from riprap.graph.order_keys import END_KEY, START_KEY, OrderKey
from riprap.graph.reach import BEGINNING
from riprap.protocols.channel import Delivered
from riprap.protocols.channels import ChannelId
from riprap.protocols.cut import CheckpointId, Cut
from riprap.protocols.protocol import WHOLE, RestorePlan
from riprap.runtime.element.ledger import Ledger
from riprap.runtime.element.message_bytes import decode_message
from riprap.runtime.element.records import Records
from riprap.runtime.element.shard_merge import ShardMerge
from riprap.runtime.host import Host
from riprap.runtime.layout import Layout, Pe
from riprap.runtime.messages import Message
from riprap.runtime.retention.kind import SavedInput

SHARDS = "gathered:"  # prefix of those mergers of a checkpoint that merge shards, before the engine


@dataclass(frozen=True)
class StartingPoint:
    cut: Cut | None  # of the whole element
    inputs: Mapping[ChannelId, tuple[int, int]]  # item expected next, position in the log
    sent: Mapping[ChannelId, int]
    sources: Mapping[str, int]
    reached_before: Mapping[str, OrderKey]  # by operator: its key in a previous incarnation
    parked: Mapping[ChannelId, tuple[Message, ...]]
    id: CheckpointId | None = None  # of the cut
    unpublished: Mapping[ChannelId, tuple[Message, ...]] = field(default_factory=dict)  # on committed channels
    delivered: Mapping[ChannelId, Delivered] = field(default_factory=dict)  # as in `Cut`


class Restore:
    def __init__(
        self,
        layout: Layout,
        pe: Pe,
        plan: RestorePlan,
        engine: Engine,
        merges: Mapping[str, ShardMerge],
        ledger: Ledger,
        loaded: Mapping[str, Loaded | None],
        host: Host,
        records: Records | None = None,
    ) -> None:
        self._records, self._host = records, host
        self._layout, self._pe, self._plan, self._engine, self._merges = layout, pe, plan, engine, merges
        self._ledger, self._loaded = ledger, loaded
        self._cuts = {
            unit: self._own(Cut.from_json(checkpoint.positions, checkpoint.messages))
            for unit, checkpoint in loaded.items()
            if checkpoint is not None
        }
        self._unit = {operator: name for name, unit in plan.units.items() for operator in unit.operators}

    def _own(self, cut: Cut) -> Cut:
        """The cut with this element's channels: it may come from another copy."""
        layout, pe = self._layout, self._pe
        if not pe.fragment.copied:
            return cut
        inputs = {(c.stream, c.source): c for c in layout.inputs(pe)}
        outputs = {(c.stream, c.target): c for c in layout.all_outputs(pe)}
        return replace(
            cut,
            inlets={inputs[c.stream, c.source]: input_cut for c, input_cut in cut.inlets.items()},
            sent={outputs[c.stream, c.target]: number for c, number in cut.sent.items()},
            delivered={
                inputs.get((c.stream, c.source)) or outputs[c.stream, c.target]: delivered
                for c, delivered in cut.delivered.items()
            },
        )

    def start(self) -> StartingPoint:
        records = self._records
        if records is not None:
            starts = {channel: records.input_start(channel) for channel in self._layout.inputs(self._pe)}
            sent = {channel: records.sent(channel) for channel in self._layout.all_outputs(self._pe)}
            self._count_from(starts, sent)
            return StartingPoint(
                None,
                starts,
                sent,
                {name: records.source(name) for name in self._ledger.sources},
                {},
                {},
            )
        self._count_undone()
        cut, checkpoint = self._cuts.get(WHOLE), self._loaded.get(WHOLE)
        if self._plan.whole:
            if checkpoint is not None:
                assert cut is not None
                replace(checkpoint, mergers=self._mergers(checkpoint, cut)).into(self._engine)
        else:
            for part in self._loaded.values():
                for name, state in part.states.items() if part is not None else ():
                    self._engine.operators[name].restore([state])
        parked = {
            channel: tuple(map(decode_message, messages))
            for channel, messages in (cut.parked.items() if cut is not None else ())
        }
        unpublished = {channel: parked.pop(channel) for channel in list(parked) if self._layout.committed(channel)}
        starts = {channel: self._input_start(channel) for channel in self._layout.inputs(self._pe)}
        for channel, messages in parked.items():  # delivered again first; some precede what was taken
            if messages:
                next_, position = starts[channel]
                starts[channel] = min(next_, messages[0].number), position
        return StartingPoint(
            _with_parked(cut, parked) if cut is not None else None,
            starts,
            {channel: self._sent(channel) for channel in self._layout.all_outputs(self._pe)},
            {name: self._source(name) for name in self._ledger.sources},
            {} if self._plan.whole else {name: self._reached_before(name) for name in self._ledger.operators},
            parked,
            CheckpointId(self._pe.id, WHOLE, checkpoint.epoch, checkpoint.number) if checkpoint is not None else None,
            unpublished,
            cut.delivered if cut is not None else {},
        )

    def _count_from(self, starts: Mapping[ChannelId, tuple[int, int]], sent: Mapping[ChannelId, int]) -> None:
        """Count what arrived and left before the first record, although this ledger has not seen it: the shard may have
        taken over from others."""
        self._ledger.begin()
        for channel, (next_, _) in starts.items():
            record = self._ledger.inputs[channel]
            record.next, record.retained_from = max(record.next, next_), max(record.retained_from, next_)
        for channel, number in sent.items():
            self._ledger.outputs[channel].number = max(self._ledger.outputs[channel].number, number)
        self._ledger.commit()

    def _input_start(self, channel: ChannelId) -> tuple[int, int]:
        unit = self._unit.get(self._layout.stream(channel).target)
        cut, whole = self._cuts.get(unit) if unit is not None else None, self._cuts.get(WHOLE)
        saved = SavedInput(
            unit is not None,
            cut.inlets.get(channel) if cut is not None else None,
            whole.inlets.get(channel) if whole is not None else None,
            self._plan.delivered == "taken",
        )
        return self._layout.kind(channel).input_start(self._ledger.inputs[channel], saved)

    def _count_undone(self) -> None:
        """Count received items that the restored states lack and that no incarnation has counted."""
        ledger, layout = self._ledger, self._layout
        promised = min((outlet.key.ts for outlet in ledger.outputs.values()), default=BEGINNING)
        ledger.begin()
        for name, state in ledger.states.items() if not self._plan.exact else ():
            entries = _upstream(layout, self._pe, name)
            channels = [c for c in layout.inputs(self._pe) if layout.stream(c).target in entries]
            gone = [
                max(ledger.inputs[c].received - max(self._saved(name, c), ledger.inputs[c].at_start), 0)
                for c in channels
                if not self._redelivered(name, c) and ledger.inputs[c].received
            ]
            cut = self._cuts.get(self._unit.get(name, ""))
            for source, taken in ledger.sources.items():
                if source in entries and taken.position and not self._plan.whole:
                    saved = cut.sources.get(source, 0) if cut is not None else 0
                    gone.append(max(taken.position - max(saved, taken.at_start), 0))
            state.undone, state.unsure = sum(gone), int(bool(gone))
        for channel, record in ledger.inputs.items():
            received = [self._saved(name, channel) for name in ledger.states]
            layout.kind(channel).count_undone(record, min(received, default=record.received), promised)
            record.at_start = record.received
        for taken in ledger.sources.values():
            taken.at_start = taken.position
        ledger.commit()

    def _redelivered(self, operator: str, channel: ChannelId) -> bool:
        """Whether an operator gets again what it processed of a channel after its checkpoint."""
        retains = operator in self._unit or self._engine.operators[operator].retains
        retains = retains and self._layout.stream(channel).target == operator
        return self._layout.kind(channel).redelivered(whole=self._plan.whole, retains=retains)

    def _saved(self, operator: str, channel: ChannelId) -> int:
        """How many items of a channel had arrived when the state of an operator was saved."""
        cut = self._cuts.get(self._unit.get(operator, ""))
        input_cut = cut.inlets.get(channel) if cut is not None else None
        return input_cut.passed - input_cut.missed if input_cut is not None else 0

    def _sent(self, channel: ChannelId) -> int:
        record = self._ledger.outputs[channel]
        if self._plan.exact:
            cut = self._cuts.get(WHOLE)
            if cut is None and self._pe.fragment.copied:
                return record.number  # every copy was lost
            sent = cut.sent[channel] if cut is not None else 0
            if self._plan.delivered == "taken":
                record.number = sent
            return sent
        return self._layout.kind(channel).next_number(channel, self._ledger, self._host)

    def _source(self, name: str) -> int:
        if not self._plan.whole:
            return self._ledger.sources[name].position
        cut = self._cuts.get(WHOLE)
        return cut.sources[name] if cut is not None else 0

    def _reached_before(self, operator: str) -> OrderKey:
        """The key of a previous incarnation, unless held inputs of the operator are delivered again below it."""
        unit = self._unit.get(operator)
        held = any(
            self._layout.kind(channel).rolls_back and self._layout.stream(channel).target == operator
            for channel in self._layout.inputs(self._pe)
        )
        if held and unit is not None:
            cut = self._cuts.get(unit)
            return cut.reached[operator] if cut is not None else START_KEY
        if held and self._engine.operators[operator].retains:
            return START_KEY
        return self._ledger.operators[operator].key

    def _mergers(self, checkpoint: Loaded, cut: Cut) -> dict[str, MergerState]:
        """The engine's mergers of the checkpoint; mergers of shards are restored here.

        If delivered means passed, mergers of external streams lose what waited in them: it is delivered again.
        """
        mergers = dict(checkpoint.mergers)
        for link in self._layout.links:
            if link.target != self._pe.fragment:
                continue
            stream, target = link.stream, link.stream.target
            again = {  # a log replays what waited; connected producers announce their watermarks again
                channel.source: not link.kind.logged or cut.inlets[channel].waits
                for channel in self._layout.inputs(self._pe)
                if channel.stream == stream.id and channel in cut.inlets
            }
            reached, emptied = checkpoint.watermark[target], self._plan.delivered == "passed"
            if target in mergers and emptied:
                mergers[target] = mergers[target].emptied(
                    stream.target_port, reached if any(again.values()) else END_KEY
                )
            gathered = mergers.pop(SHARDS + stream.id, None)  # None: there was one shard at the time
            if stream.id in self._merges and gathered is not None:
                for shard, replayed in again.items() if emptied else ():
                    gathered = gathered.emptied(shard, reached if replayed else END_KEY)
                self._merges[stream.id].restore(gathered.widened(self._merges[stream.id].shards))
        return mergers


def _upstream(layout: Layout, pe: Pe, operator: str) -> set[str]:
    """The operator, and those upstream of it in the same element."""
    seen, ahead = {operator}, [operator]
    while ahead:
        upstream = [s.source for s in layout.graph.inputs(ahead.pop()) if s.source in pe.fragment.members]
        ahead += [name for name in upstream if name not in seen]
        seen.update(upstream)
    return seen


def _with_parked(cut: Cut, parked: Mapping[ChannelId, tuple[Message, ...]]) -> Cut:
    """The cut after its parked messages are delivered, including those recorded after the capture."""
    inlets = dict(cut.inlets)
    for channel, messages in parked.items():
        for message in messages:
            taken = max(inlets[channel].taken, message.number + message.items)
            inlets[channel] = inlets[channel]._replace(taken=taken)
    return replace(cut, inlets=inlets)
