"""Which operators run together in which processing elements, and how the elements are connected.

A *fragment* is a set of operators that run in one process; a *processing element* (PE) is one shard of a fragment. Its
id, `Aggregator` or `Aggregator/1` (the first operator's name, and the shard if there are several), is the same in every
run with the same settings.

`fusion.py` decides which operators share a fragment. A source in several shards partitions its input (`stripes.py`),
and a sink in several shards writes one stream per shard. A persistent stream inside a fragment that `persist()` names
is a *tap*: like the stream of a sink, it is written for external readers.

An HA group (`ha_group()`, `[ha_groups]` of a plan) has its own fragments, in replicas: `Aggregator#1`, `Aggregator#2`.
Each replica gets all input of the group, and its inner channels connect it only to itself. A stream that leaves the
group is one channel, whichever replica is active.

Under full replication (`full_replication()`, `[replication]` of a plan) every fragment except those of sources and
sinks has copies, `Aggregator#1`, `Aggregator#2`, each of which sends to all. What one copy sends is a *strand* of the
channel, with its own id, which numbers the copies of the producer like shards.

Each stream between fragments has one *retention*: what happens to its tuples while the consumer is down. Users know it
by what a crash does then, the stream's *recovery*:

    log         replay      the producer appends to a persistent stream (`persist()`, `backup()`), which is replayed
    hold        buffer      the producer holds tuples until they are acknowledged
    discard     gap         tuples are discarded, and counted
    recompute   recompute   nothing is retained, and the consumer recomputes what it misses
    remember    failover    of an HA group: as discard, but standby replicas hold the tuples
    while-down  while-down  nothing is retained while the consumer is up; while it is down, on disk (`retain()`)
    copy        copies      full replication: tuples are held until delivered to all copies of the consumer

The protocol of the run decides whether other streams are held or discarded.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import gcd
from typing import Any

import pyarrow as pa

from riprap.base.errors import UsageError, known
from riprap.engine.pruning import Wanted, carried_schema, wanted_columns
from riprap.graph.cycles import connected_parts, cyclic_parts
from riprap.graph.graph import Graph, StreamSpec
from riprap.graph.ha_groups import copies_of, ha_groups, memory_of
from riprap.graph.order_keys import SEQ, KeyShape
from riprap.protocols.channel import Retention
from riprap.protocols.channels import ChannelId
from riprap.protocols.detector import detecting
from riprap.protocols.director import Director
from riprap.protocols.protocol import (
    Membership,
    Neighbour,
    OperatorFacts,
    ProtocolSpec,
    RestorePlan,
    Surroundings,
)
from riprap.protocols.registry import DEFAULT
from riprap.replication.full import copied
from riprap.replication.ha import replicated
from riprap.runtime.checks import check_graph, check_layout
from riprap.runtime.former_shards import check_change, with_former
from riprap.runtime.fusion import Fuse, fused, numbers_ports
from riprap.runtime.retention.all_kinds import KINDS, OUTWARD
from riprap.runtime.retention.choice import retention_of, share_of
from riprap.runtime.retention.kind import Recovery, RetentionKind


@dataclass(frozen=True)
class Fragment:
    """Operators that run together, in the order of the graph."""

    members: tuple[str, ...]
    shards: int
    group: str = ""  # its HA group
    replicas: int = 1
    copied: bool = False  # the replicas are copies, under full replication
    former: tuple[int, ...] = ()  # its former numbers of shards (`former_shards.py`)

    @property
    def name(self) -> str:
        return self.members[0]

    @property
    def before(self) -> int:
        """How many shards it had before: the numbers of its current shards start there."""
        return sum(self.former)

    @property
    def divisions(self) -> int:
        """Over how many logs or connections each producer partitions its input: its first number of shards."""
        return self.former[0] if self.former else self.shards


@dataclass(frozen=True)
class Pe:
    """One shard of a fragment, in one replica of it."""

    fragment: Fragment
    shard: int
    replica: int = 0

    @property
    def id(self) -> str:
        name = self.fragment.name if self.fragment.replicas == 1 else f"{self.fragment.name}#{self.replica + 1}"
        return name if self.fragment.before + self.fragment.shards == 1 else f"{name}/{self.number}"

    @property
    def number(self) -> int:
        """The number of its shard, among all that its fragment has or had."""
        return self.fragment.before + self.shard

    @property
    def lane(self) -> int:
        """Its number among the targets of a stream to its fragment."""
        return self.fragment.before + self.replica * self.fragment.shards + self.shard


@dataclass(frozen=True)
class Link:
    """A stream between two fragments."""

    stream: StreamSpec
    source: Fragment
    target: Fragment
    retention: Retention
    # How rows are partitioned over the consumer's shards: columns to hash; (): broadcast;
    # None: shard i to shard i, or all to the only one.
    by: tuple[str, ...] | None
    share: float = 1.0  # of the rows that the retention while-down retains while the consumer is down

    @property
    def recovery(self) -> Recovery:
        return self.kind.recovery

    @property
    def kind(self) -> RetentionKind:
        return KINDS[self.retention]

    @property
    def within(self) -> bool:
        """It lies inside an HA group, and connects each replica to itself."""
        return bool(self.source.group) and self.source.group == self.target.group

    def channels(self) -> tuple[ChannelId, ...]:
        """The channels that producers write: from each shard, of any replica, to the shards of every replica of the
        consumer."""
        shards = self.target.divisions
        one_to_one = self.by is None and self.source.shards == shards and not self.source.former
        return tuple(
            ChannelId(self.stream.id, source, lane)
            for source in range(self.source.before + self.source.shards)
            for lane in range(shards * self.target.replicas)
            if not one_to_one or source == lane % shards
        )

    def views(self) -> tuple[ChannelId, ...]:
        """The channels that consumers read: the same, unless their number has changed. Then each consumer reads, of
        every producer, the logs that may have rows for it; each of those is a channel to this consumer alone."""
        if not self.target.former:
            return self.channels()
        logs = self.target.divisions // self._steps
        return tuple(
            ChannelId(self.stream.id, source, self.target.before + shard)
            for shard in range(self.target.shards)
            for source in range((self.source.before + self.source.shards) * logs)
        )

    @property
    def _steps(self) -> int:
        """The rows of a shard are in every n-th log: this is n."""
        return gcd(self.target.divisions, self.target.shards)

    def written(self, view: ChannelId) -> ChannelId:
        """The channel that the producer writes, for one that a consumer reads."""
        if view.target < self.target.before or not self.target.former:
            return view
        source, place = divmod(view.source, self.target.divisions // self._steps)
        return ChannelId(view.stream, source, (view.target - self.target.before) % self._steps + place * self._steps)

    @property
    def mixed(self) -> bool:
        """The logs that a consumer reads have rows of other shards too."""
        return self._steps < self.target.shards

    def strands(self, channel: ChannelId) -> tuple[ChannelId, ...]:
        """The connections of a channel: itself, or one for each copy of the producer."""
        if not self.kind.per_copy:
            return (channel,)
        shards = self.source.shards
        return tuple(channel._replace(source=channel.source + copy * shards) for copy in range(self.source.replicas))

    def ends_at(self, channel: ChannelId) -> Pe:
        if self.target.former:  # of a written channel, one of its readers
            own = channel.target - self.target.before
            return Pe(self.target, own if own >= 0 else channel.target % self._steps)
        return Pe(self.target, channel.target % self.target.shards, channel.target // self.target.shards)

    def starts_at(self, channel: ChannelId) -> tuple[Pe, ...]:
        """The elements that may be its producer: one, or its replicas. Each copy has its own strand. Empty: a former
        shard wrote it."""
        channel = self.written(channel)
        if self.kind.per_copy:
            return (Pe(self.source, channel.source % self.source.shards, channel.source // self.source.shards),)
        own = channel.source - self.source.before
        replicas = [self.ends_at(channel).replica] if self.within else range(self.source.replicas)
        return tuple(Pe(self.source, own, replica) for replica in replicas if own >= 0)


@dataclass(frozen=True)
class Layout:
    """All fragments and links; `pes` are in topological order."""

    graph: Graph
    fragments: tuple[Fragment, ...]
    links: tuple[Link, ...]
    protocol: ProtocolSpec = DEFAULT
    settings: Mapping[str, Any] = field(default_factory=dict)  # of the protocol
    before: "Layout | None" = None  # the layout with the former shards, if their number has changed

    @cached_property
    def pes(self) -> tuple[Pe, ...]:
        return tuple(
            Pe(fragment, shard, replica)
            for fragment in self.fragments
            for replica in range(fragment.replicas)
            for shard in range(fragment.shards)
        )

    def pe(self, id_: str) -> Pe:
        for pe in self.pes:
            if pe.id == id_:
                return pe
        raise UsageError(f"no processing element is called {id_}; there are {known((p.id for p in self.pes), id_)}")

    def hosting(self, operator: str) -> tuple[Pe, ...]:
        """The elements in which an operator runs."""
        self.graph[operator]
        return tuple(pe for pe in self.pes if operator in pe.fragment.members)

    @cached_property
    def _links(self) -> Mapping[str, Link]:
        return {link.stream.id: link for link in self.links}

    def link(self, stream: str) -> Link:
        return self._links[stream]

    def producers(self, channel: ChannelId) -> tuple[str, ...]:
        """The ids of the elements that may write the channel: one, or its replicas."""
        return tuple(pe.id for pe in self.link(channel.stream).starts_at(channel))

    def producer(self, channel: ChannelId) -> str:
        """The id of the channel's producer; of replicas, the first. "": a former shard."""
        return next(iter(self.producers(channel)), "")

    def consumer(self, channel: ChannelId) -> str:
        """The id of the channel's consumer."""
        return self.link(channel.stream).ends_at(channel).id

    def inputs(self, pe: Pe) -> tuple[ChannelId, ...]:
        return tuple(
            channel
            for link in self.links
            if link.target == pe.fragment
            for channel in link.views()
            if channel.target == pe.lane
        )

    def written(self, channel: ChannelId) -> ChannelId:
        """The channel that the producer writes, for one that a consumer reads."""
        return channel if self.outward(channel) else self.link(channel.stream).written(channel)

    def gapless(self, channel: ChannelId) -> bool:
        """Whether its connection may skip no item, not even after it broke."""
        return self.kind(channel).gapless_under(self.settings)

    def change(self, fragment: Fragment) -> "Fragment | None":
        """The former version of a fragment, if its number of shards has just changed."""
        old = None if self.before is None else next((f for f in self.before.fragments if f.name == fragment.name), None)
        return old if old is not None and old.former != fragment.former else None

    def outputs(self, pe: Pe) -> tuple[ChannelId, ...]:
        """The channels to other elements; of a copy, its strands of them."""
        return tuple(
            strand
            for link in self.links
            if link.source == pe.fragment
            for channel in link.channels()
            for strand in link.strands(channel)
            if pe in link.starts_at(strand)
        )

    def strands(self, channel: ChannelId) -> tuple[ChannelId, ...]:
        """The connections of a channel between elements."""
        return self.link(channel.stream).strands(channel)

    def strands_into(self, pe: Pe) -> tuple[ChannelId, ...]:
        """The connections and logs on which an element gets messages."""
        return tuple(strand for channel in self.inputs(pe) for strand in self.strands(channel))

    def all_outputs(self, pe: Pe) -> tuple[ChannelId, ...]:
        """All channels that leave an element: to other elements, and out of its sinks and taps."""
        sinks = [sink.name for sink in self.graph.sinks if sink.name in pe.fragment.members]
        return self.outputs(pe) + tuple(sink_channel(name, pe.shard) for name in (*sinks, *self.taps(pe)))

    def taps(self, pe: Pe) -> tuple[str, ...]:
        """The ids of streams inside an element that are written for external readers."""
        return tuple(id_ for id_, stream in self._taps.items() if stream.source in pe.fragment.members)

    # Channels ---------------------------------------------------------------------------------------------------------

    @cached_property
    def _sinks(self) -> Mapping[str, StreamSpec]:
        return {sink.name: self.graph.inputs(sink.name)[0] for sink in self.graph.sinks}

    @cached_property
    def _taps(self) -> Mapping[str, StreamSpec]:
        outside = {link.stream.id for link in self.links}
        inside = [s for s in self.graph.streams if s.id not in outside and s.feedback is None]
        return {s.id: s for s in inside if s.source_port in (self.graph[s.source].annotations.persist or ())}

    def sink(self, channel: ChannelId) -> str | None:
        """The sink that writes this channel; None for any other channel."""
        return channel.stream if channel.stream in self._sinks else None

    def stream(self, channel: ChannelId) -> StreamSpec:
        """The stream of the graph that the channel carries; for a sink's output, its input."""
        inner = self._sinks.get(channel.stream) or self._taps.get(channel.stream)
        return inner or self._links[channel.stream].stream

    def punctuated(self, channel: ChannelId) -> bool:
        """Whether it can carry punctuations."""
        return bool(self.shape(channel).marks)

    def outward(self, channel: ChannelId) -> bool:
        """Whether it leaves the app: out of a sink or a tap."""
        return channel.stream not in self._links

    def retention(self, channel: ChannelId) -> Retention:
        """Channels that leave the app are always logged."""
        return OUTWARD if self.outward(channel) else self._links[channel.stream].retention

    def kind(self, channel: ChannelId) -> RetentionKind:
        return KINDS[self.retention(channel)]

    def committed(self, channel: ChannelId) -> bool:
        """Whether its output is visible only when no element will roll back to before it."""
        if channel.stream in self._sinks:
            return self.settings.get("sinks") == "committed"
        link = self._links.get(channel.stream)
        if link is None or not self.protocol.guarded or not link.kind.logged:
            return False
        return not all(self.graph[name].deterministic for name in self._domains[link.source])

    @cached_property
    def _domains(self) -> Mapping[Fragment, tuple[str, ...]]:
        """By fragment, the operators that roll back with it: those that no log separates from it."""
        together: dict[Fragment, list[Fragment]] = {fragment: [fragment] for fragment in self.fragments}
        for link in self.links:
            left, right = together[link.source], together[link.target]
            if not link.kind.logged and left is not right:
                left += right
                together |= dict.fromkeys(right, left)
        return {fragment: tuple(n for member in all_ for n in member.members) for fragment, all_ in together.items()}

    @cached_property
    def wanted(self) -> Wanted:
        """The columns that some operator reads: no others are sent or read from an input. Logs have all columns."""
        logged = frozenset(link.stream.id for link in self.links if link.kind.logged)
        return wanted_columns(self.graph, whole=logged)

    def schema(self, channel: ChannelId) -> pa.Schema:
        """The columns of its messages: those that are read downstream, and the order key."""
        return carried_schema(self.graph, self.stream(channel), self.wanted)

    def shape(self, channel: ChannelId) -> KeyShape:
        return self.graph.stream_shape(self.stream(channel))

    # Protocol ---------------------------------------------------------------------------------------------------------

    @cached_property
    def surroundings(self) -> Mapping[str, Surroundings]:
        """What the protocol knows about each element, by id."""
        return {pe.id: self._surroundings(pe) for pe in self.pes}

    def _surroundings(self, pe: Pe) -> Surroundings:
        facts = {}
        for name in pe.fragment.members:
            spec = self.graph[name]
            every = spec.annotations.checkpoint_every
            facts[name] = OperatorFacts(
                any(spec.stateful),
                spec.deterministic,
                spec.tolerates_loss,
                None if every is None else int(every),
                memory_of(spec),
                continuous=spec.annotations.continuous is not None,
                checkpoint_off=spec.annotations.checkpoint_off,
                backup=spec.annotations.backup or bool(self.taps(pe)),
            )
        inputs = {
            channel: Neighbour(
                self.producer(channel),
                self.stream(channel).target,
                self.retention(channel),
                self.stream(channel).feedback is not None,
            )
            for channel in self.inputs(pe)
        }
        outputs = {}
        for channel in self.all_outputs(pe):
            outward, stream = self.outward(channel), self.stream(channel)
            outputs[channel] = Neighbour(
                "" if outward else self.consumer(channel),
                self.sink(channel) or stream.source,
                self.retention(channel),
                not outward and stream.feedback is not None,
                self.committed(channel),
            )
        sources = tuple(s.name for s in self.graph.sources if s.name in pe.fragment.members)
        membership = None
        copies: tuple[str, ...] = ()
        if pe.fragment.copied:
            copies = tuple(replace(pe, replica=replica).id for replica in range(pe.fragment.replicas))
        elif pe.fragment.replicas > 1:
            edges = tuple(c for c in self.outputs(pe) if not self.link(c.stream).within)
            within = tuple(c for c in self.inputs(pe) if self.link(c.stream).within)
            group = pe.fragment.group
            membership = Membership(group, pe.replica, edges, group in self.deterministic, within)
        cycle = next((part for part in self._cycles if pe.id in part), ())
        pes = tuple(p.id for p in self.pes)
        strands = {channel: self.strands(channel) for channel in inputs if self.kind(channel).per_copy}
        return Surroundings(
            pe.id, pes, facts, inputs, outputs, sources, self.settings, membership=membership, copies=copies,
            strands=strands, cycle=cycle,
        )  # fmt: skip

    @cached_property
    def deterministic(self) -> frozenset[str]:
        """Groups whose replicas emit the same: their operators are deterministic, and merges wait for all inputs, so
        all replicas process the same.
        """
        groups = {f.group for f in self.fragments if f.group and all(self.graph[n].deterministic for n in f.members)}
        changed = True
        while changed:
            fed = {
                link.target.group
                for link in self.links
                if not link.within and not link.kind.logged and not (link.kind.by_term and link.source.group in groups)
            }
            changed = bool(groups & fed)
            groups -= fed
        return frozenset(groups)

    @cached_property
    def _cycles(self) -> list[tuple[str, ...]]:
        """Cycles of elements over channels."""
        after: dict[str, list[str]] = {pe.id: [] for pe in self.pes}
        for link in self.links:
            for channel in link.views():
                for producer in self.producers(channel):
                    after[producer].append(self.consumer(channel))
        return connected_parts(after)

    def director(self) -> Director:
        """The director of the protocol, with a detector for cycles."""
        return detecting(self.protocol.director(self.surroundings), self.surroundings)

    def plan(self, pe: Pe) -> RestorePlan:
        """What is saved of an element, and how it restarts."""
        return self.protocol.plan(self.surroundings[pe.id])


def sink_channel(name: str, shard: int = 0) -> ChannelId:
    """The channel that a sink or a tap writes; it has no consumer in the app."""
    return ChannelId(name, shard, shard)


def arrange(
    graph: Graph,
    fuse: Fuse = "auto",
    parallelism: Mapping[str, int] | None = None,
    protocol: ProtocolSpec = DEFAULT,
    settings: Mapping[str, Any] | None = None,
    *,
    former: Sequence[Mapping[str, int]] = (),
) -> Layout:
    """Lay out a graph. `parallelism` overrides that of the operators it names; `settings` are of the protocol.
    `former`: the numbers of shards that operators had earlier in this run, one mapping per change."""
    before = None
    if former:
        before = arrange(graph, fuse, former[-1], protocol, settings, former=former[:-1])
    for name, shards in (parallelism or {}).items():
        graph = graph.with_operator(replace(graph[name], parallelism=shards))
    check_graph(graph, fuse, protocol, virtual=bool((settings or {}).get("virtual")))
    fragments = tuple(_fragment(graph, members) for members in fused(graph, fuse, bounded=protocol.bounded))
    fragments = tuple(with_former(fragment, before) for fragment in fragments)
    home = {name: fragment for fragment in fragments for name in fragment.members}
    links = tuple(
        _link(graph, stream, home[stream.source], home[stream.target], protocol)
        for stream in graph.streams
        if home[stream.source] is not home[stream.target]
    )
    around = replicated(protocol) if ha_groups(graph) else copied(protocol) if copies_of(graph) > 1 else protocol
    layout = Layout(graph, fragments, links, around, dict(settings or {}), before)
    check_layout(layout)
    if before is not None:
        check_change(before, layout)
    return layout


def _fragment(graph: Graph, members: tuple[str, ...]) -> Fragment:
    first = graph[members[0]]
    group, copies = first.annotations.ha_group, first.annotations.copies
    if group is None:
        return Fragment(members, first.parallelism, replicas=copies, copied=copies > 1)
    return Fragment(members, first.parallelism, group.name, group.replicas)


def _link(graph: Graph, stream: StreamSpec, source: Fragment, target: Fragment, protocol: ProtocolSpec) -> Link:
    key = graph[stream.target].partition_keys[stream.target_port]
    by: tuple[str, ...] | None
    if target.divisions == 1:
        by = None
    elif stream.partitioning == "broadcast":
        by = ()
    elif key:
        by = key
    elif source.shards == target.divisions and stream.feedback is None and not numbers_ports(graph, stream.target):
        by = None
    else:
        by = (SEQ,)  # any shard will do; by number, so that a restart repeats it
    retention = retention_of(graph, stream, protocol)
    ends = ({*source.members}, {*target.members})
    if protocol.borders is not None and any(
        bool(ends[0] & {*cycle}) != bool(ends[1] & {*cycle}) for cycle in cyclic_parts(graph)
    ):
        retention = protocol.borders
    return Link(stream, source, target, retention, by, share_of(graph, stream) or 1.0)
