"""Which operators share a process: each group becomes a fragment.

    none  one group per operator
    auto  chains (one stream out, one stream in) of operators with equal protection and parallelism; and backups between
          backups, in chains or not, because a log between two processes costs more than a second process gains
    all   one group, or one for each part that persistent streams separate

The operators of a cycle form one group: feedback never leaves the process, and backups on the cycle log what leaves the
cycle. With `none`, and if an operator of the cycle has shards, each of them is a separate group instead, and feedback
travels between processes (`spread`).

Backups between backups share a group (`_inside`): the fragment is checkpointed as a whole and replays its own inputs,
so the stream between them is computed again instead of replayed. A stream between them that `persist()` names is a
*tap*: written for external readers only. Under a recovery bound they do not share a group: the bound relies on every
backup being read instead of recomputed.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from riprap.base.errors import UsageError
from riprap.graph.cycles import cyclic_parts
from riprap.graph.graph import Graph, StreamSpec
from riprap.graph.order_keys import overlapping
from riprap.graph.specs import OperatorSpec, Union
from riprap.runtime.retention.choice import persistent, share_of

Fuse = Literal["auto", "none", "all"]


def fused(graph: Graph, fuse: Fuse, *, bounded: bool) -> list[tuple[str, ...]]:
    """The groups, each in the order of the graph. `bounded`: the plan has a recovery bound."""
    group = {name: {name} for name in graph.order}

    def unite(source: str, target: str) -> None:
        left, right = group[source], group[target]
        if left is not right:
            left |= right
            for name in right:
                group[name] = left

    inner: set[str] = set()  # streams that never leave a cycle
    alone: set[str] = set()  # operators of cycles over several processes
    for cycle in cyclic_parts(graph):
        if spread(graph, cycle, fuse, bounded=bounded):
            alone |= {*cycle}
            continue
        inner |= {s.id for s in graph.streams if {s.source, s.target} <= {*cycle}}
        for name in cycle[1:]:
            unite(cycle[0], name)
    if fuse != "none":
        for stream in graph.streams:
            source, target = graph[stream.source], graph[stream.target]
            if source.parallelism != target.parallelism or _apart(graph, stream, bounded):
                continue
            if alone & {stream.source, stream.target}:
                continue
            if target.parallelism > 1 and numbers_ports(graph, stream.target):
                continue
            if target.parallelism > 1 and target.partition_keys[stream.target_port]:
                continue  # it is partitioned by a key, so its shards get rows from all shards of the source
            if not _alike_replicated(source, target):
                continue
            if fuse == "all" or (_chained(graph, stream) and _alike(source, target)):
                unite(stream.source, stream.target)
        for stream in graph.streams if fuse == "auto" and not bounded else ():
            source, target = graph[stream.source], graph[stream.target]
            if not (source.parallelism == target.parallelism == 1 and _alike_replicated(source, target)):
                continue
            if alone & {stream.source, stream.target}:
                continue
            shared = persistent(graph, stream) and _inside(graph, stream) and _alike(source, target)
            if shared and not _leads_round(graph, group, stream):
                unite(stream.source, stream.target)
        _check_acyclic(graph, group, fuse, {s.id for s in graph.streams if _apart(graph, s, bounded)} - inner)
    return _ordered(graph, {id(members): members for members in group.values()}.values())


def spread(graph: Graph, cycle: Sequence[str], fuse: Fuse, *, bounded: bool) -> bool:
    """Whether each operator of a cycle is a separate group. Not if it is replicated, since each replica has its own
    feedback; nor under a recovery bound, since a cycle could not be recomputed without itself.
    """
    replicated = any(graph[name].annotations.ha_group or graph[name].annotations.copies > 1 for name in cycle)
    requested = fuse == "none" or any(graph[name].parallelism > 1 for name in cycle)
    return len(cycle) > 1 and requested and not bounded and not replicated


def numbers_ports(graph: Graph, name: str) -> bool:
    """Whether it is a union that numbers tuples of one trigger from several ports: they go to one shard."""
    return isinstance(graph[name], Union) and overlapping(list(graph.input_shapes(name)))


def _apart(graph: Graph, stream: StreamSpec, bounded: bool) -> bool:
    """Whether its two ends have to run in different processes, so that it survives the death of one of them."""
    return (persistent(graph, stream) and (bounded or not _inside(graph, stream))) or share_of(
        graph, stream
    ) is not None


def _inside(graph: Graph, stream: StreamSpec) -> bool:
    """Whether a persistent stream may be inside a fragment, where no element reads it.

    It may if all inputs of its two ends can be replayed, and the output of its consumer is logged as well.
    """
    source, target = graph[stream.source], graph[stream.target]
    inputs = (*graph.inputs(stream.source), *graph.inputs(stream.target))
    return (
        source.annotations.backup
        and source.annotations.continuous is None  # it records its state there
        and all(persistent(graph, other) for other in inputs)
        and source.deterministic
        and target.deterministic
        and (target.annotations.backup or not target.outputs)
    )


def _alike_replicated(source: OperatorSpec, target: OperatorSpec) -> bool:
    left, right = source.annotations, target.annotations
    return (left.ha_group, left.copies) == (right.ha_group, right.copies)


def _chained(graph: Graph, stream: StreamSpec) -> bool:
    if stream.partitioning != "forward" and graph[stream.target].parallelism > 1:
        return False
    return len(graph.outputs(stream.source)) == 1 and len(graph.inputs(stream.target)) == 1


def _alike(source: OperatorSpec, target: OperatorSpec) -> bool:
    """Whether they have equal protection: a crash of either costs the same. Checkpoints matter only with state."""
    left, right = source.annotations, target.annotations
    both = ((source, left), (target, right))
    saved = {(a.checkpoint_every, a.continuous, a.checkpoint_off) for spec, a in both if any(spec.stateful)}
    alone = target.annotations.continuous is not None and any(source.stateful)  # one stateful operator per element
    return len(saved) <= 1 and not alone


def _leads_round(graph: Graph, group: Mapping[str, set[str]], stream: StreamSpec) -> bool:
    """Whether some path from the group of its source to that of its target passes other groups: they would deadlock."""
    left, right = group[stream.source], group[stream.target]
    seen: set[str] = set()
    ahead = [s.target for name in left for s in graph.outputs(name) if s.target not in left and s.target not in right]
    while ahead:
        for name in group[ahead.pop()] - seen:
            seen.add(name)
            for following in graph.outputs(name):
                if following.target in right:
                    return True
                if following.target not in left:
                    ahead.append(following.target)
    return False


def _check_acyclic(graph: Graph, group: Mapping[str, set[str]], fuse: Fuse, apart: set[str]) -> None:
    """Raise if a fragment would wait for itself, because a stream around it stays outside."""
    after: dict[int, set[int]] = {}
    for stream in graph.streams:
        left, right = id(group[stream.source]), id(group[stream.target])
        if left == right and fuse == "all" and stream.id in apart:
            raise UsageError(
                f"`fuse=all`: stream {stream.id} is persistent and would be inside a fragment; use `fuse=auto`"
            )
        if left != right and stream.feedback is None:
            after.setdefault(left, set()).add(right)
    seen: dict[int, int] = {}  # 1: being visited, 2: done

    def visit(node: int) -> bool:
        if seen.get(node) == 2:
            return True
        if seen.get(node) == 1:
            return False
        seen[node] = 1
        acyclic = all(visit(other) for other in after.get(node, ()))
        seen[node] = 2
        return acyclic

    if not all(visit(id(members)) for members in group.values()):
        raise UsageError(f"`fuse={fuse}`: the fragments would wait for each other in a cycle; use `fuse=auto`")


def _ordered(graph: Graph, groups: Iterable[set[str]]) -> list[tuple[str, ...]]:
    rank = {name: at for at, name in enumerate(graph.order)}
    return sorted((tuple(sorted(members, key=rank.__getitem__)) for members in groups), key=lambda m: rank[m[0]])
