"""A deployed application: instances of operators, the streams between them, HA groups, and the effect of restarts.

A technique is a function from a deployment to a deployment. The simulators do not know techniques.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from keyword import iskeyword

from riprap.san.language import FUNCTIONS
from riprap.san.streaming.application import Application, ModelOperator
from riprap.san.streaming.failures import ModelHost


@dataclass(frozen=True)
class Restart:
    """Recovery of one stateful port of an instance after the instance crashed.

    `tainted`: clean tuples to process while everything it emits is tainted (its state is old).
    `refill`: tuples to process while it emits less, but nothing wrong (its state is empty).
    """

    tainted: int = 0
    refill: int = 0


@dataclass(frozen=True)
class Instance:
    """One running copy of an operator."""

    operator: ModelOperator
    replica: int  # 0 for the first, or only, copy
    restarts: tuple[Restart, ...]  # per input port

    @property
    def name(self) -> str:
        """Usable in names of places: letters, digits and _."""
        slug = "".join(letter if letter.isalnum() and letter.isascii() else "_" for letter in self.operator.name)
        slug = f"_{slug}" if slug[:1].isdigit() or iskeyword(slug) or slug in FUNCTIONS else slug
        return f"{slug}_{self.replica}" if self.replica else slug


@dataclass(frozen=True)
class ModelLink:
    """A stream between two instances, by their indices."""

    source: int
    output: int
    target: int
    input: int


@dataclass(frozen=True)
class ModelGroup:
    """A high-availability group: replicas of a set of operators. Only the active replica sends beyond the group."""

    name: str
    replicas: tuple[tuple[int, ...], ...]  # instances of each replica
    failover: float  # seconds from detecting that no replica is active until another one is


@dataclass(frozen=True)
class GroupInterpretation:
    """How to interpret replicas of groups where the publication is ambiguous.

    `standby_counts`: whether the app counts as unavailable while a standby replica has wrong or empty state.
    `refill_tainted`: whether a group member with empty state emits tuples that may be wrong while it refills. Outside
    groups, output from empty state is correct, as at the start of the app.
    """

    standby_counts: bool = False
    refill_tainted: bool = False


TAKEN = GroupInterpretation()


@dataclass(frozen=True)
class Shock:
    """After an upstream outage, `instance` needs `tuples` clean tuples at `port` until its state is correct."""

    instance: int
    port: int
    tuples: int


@dataclass(frozen=True)
class Deployment:
    application: Application
    recovery: float  # seconds from a crash to running again
    instances: tuple[Instance, ...]
    links: tuple[ModelLink, ...]
    groups: tuple[ModelGroup, ...] = ()
    redundant: frozenset[str] = frozenset()  # operators whose replicas all send to all consumers, which drop duplicates
    punctuation: float = 0.0  # seconds between clearings of the duplicate counters
    refill_selectivity: float = 0.5  # selectivity while an instance refills, relative to full state
    reading: GroupInterpretation = TAKEN

    @cached_property
    def of_operator(self) -> Mapping[str, tuple[int, ...]]:
        """Operator → its instances, by replica."""
        instances: dict[str, list[int]] = {operator.name: [] for operator in self.application.operators}
        for index, instance in enumerate(self.instances):
            instances[instance.operator.name].append(index)
        return {name: tuple(indices) for name, indices in instances.items()}

    @cached_property
    def membership(self) -> Mapping[int, tuple[int, int]]:
        """Instance → (group, replica), for those in a group."""
        return {
            instance: (group, replica)
            for group, ha_group in enumerate(self.groups)
            for replica, members in enumerate(ha_group.replicas)
            for instance in members
        }

    def taints_refilling(self, instance: int) -> bool:
        """Whether the output of `instance` may be wrong while its state refills."""
        return self.reading.refill_tainted and instance in self.membership

    def leaves_group(self, link: ModelLink) -> bool:
        """Whether `link` leaves its source's group, so that it carries tuples only while that replica is active."""
        return link.source in self.membership and self.membership.get(link.target) != self.membership[link.source]

    def machines(self, hosts: Iterable[ModelHost]) -> list[tuple[str, float, tuple[int, ...]]]:
        """What fails at once: a name, a rate, and instances. Each further replica of the operators of a host runs on
        another machine, which fails as often."""
        found = []
        for host in hosts:
            own = [self.of_operator[operator] for operator in host.operators]
            for replica in range(max(map(len, own), default=0)):
                members = tuple(instances[replica] for instances in own if replica < len(instances))
                found.append((f"{host.name}_{replica}" if replica else host.name, host.crash_rate, members))
        return found

    def peers(self, instance: int) -> tuple[int, ...]:
        """Other instances that do the same work, so that a crash has no effect while one of them is alive."""
        name = self.instances[instance].operator.name
        return tuple(other for other in self.of_operator[name] if other != instance) if name in self.redundant else ()

    def crash_shocks(self, instance: int) -> tuple[Shock, ...]:
        """Downstream effects of a crash of `instance`; beyond its group, see `group_shocks`."""
        group = self.membership.get(instance)
        return self._shocks(
            [instance], self.recovery, lambda link: group is None or self.membership.get(link.target) == group
        )

    def group_shocks(self, group: int) -> tuple[Shock, ...]:
        """Downstream effects of a fail-over of `group`, while no replica is active."""
        members = {instance for replica in self.groups[group].replicas for instance in replica}
        edges = {link.target for link in self.links if link.source in members and self.leaves_group(link)}
        shocks = [self._shock(link, self.groups[group].failover) for link in self.links
                  if link.source in members and self.leaves_group(link)]  # fmt: skip
        further = self._shocks(edges, self.groups[group].failover, lambda _: True)
        return _merged([*(shock for shock in shocks if shock), *further])

    def _shocks(self, start: Iterable[int], outage: float, follow: Callable[[ModelLink], bool]) -> tuple[Shock, ...]:
        """Stateful ports reachable from `start`."""
        shocks = []
        waiting, seen = list(start), set(start)
        while waiting:
            source = waiting.pop()
            for link in self.links:
                if link.source == source and follow(link):
                    shocks.append(self._shock(link, outage))
                    if link.target not in seen:
                        seen.add(link.target)
                        waiting.append(link.target)
        return _merged([shock for shock in shocks if shock])

    def _shock(self, link: ModelLink, outage: float) -> Shock | None:
        operator = self.instances[link.target].operator
        port = operator.inputs[link.input]
        if not port.stateful:
            return None
        lost = self.application.rates[operator.name, link.input] * outage
        return Shock(link.target, link.input, port.stabilisation(lost))


def _merged(shocks: Iterable[Shock]) -> tuple[Shock, ...]:
    return tuple(dict.fromkeys(shocks))


def bare(application: Application, recovery: float) -> Deployment:
    """One instance per operator; after a crash it starts with empty state."""
    index = {operator.name: number for number, operator in enumerate(application.operators)}
    return Deployment(
        application,
        recovery,
        tuple(
            Instance(operator, 0, tuple(Restart(refill=port.state) for port in operator.inputs))
            for operator in application.operators
        ),
        tuple(
            ModelLink(index[stream.source], stream.output, index[stream.target], stream.input)
            for stream in application.streams
        ),
    )


def replicated(deployment: Deployment, names: frozenset[str], copies: int) -> Deployment:
    """`copies` instances of each of the operators `names`, each with all links of the original.

    Between two replicated operators, replica r feeds replica r only; the caller may add more links.
    """
    instances: list[Instance] = []
    renumbered: dict[tuple[int, int], int] = {}
    for old, instance in enumerate(deployment.instances):
        for copy in range(copies if instance.operator.name in names else 1):
            renumbered[old, copy] = len(instances)
            instances.append(replace(instance, replica=instance.replica + copy))
    links = []
    for link in deployment.links:
        sources = [number for (old, _), number in renumbered.items() if old == link.source]
        targets = [number for (old, _), number in renumbered.items() if old == link.target]
        pairs = zip(sources, targets, strict=True) if len(sources) == len(targets) else (
            (source, target) for source in sources for target in targets
        )  # fmt: skip
        links += [ModelLink(source, link.output, target, link.input) for source, target in pairs]
    return replace(deployment, instances=tuple(instances), links=tuple(links))
