"""Advice for each operator, derived from its metrics.

The reference is silence: if an outage only stops the output, every section that it covers has an error of 1, so I is
the number of covered sections.

    silent   R and I are within one section of silence: the output is correct as soon as the operator runs again
    lasting  the error outlasts the outage, but I is below WORSE times that of silence
    worse    I is above that: the output during and after the outage is worse than none

The advice also depends on the operator. Silent: a *restart* is enough. A stateful operator was assessed without state
and with a checkpoint of the age that a plan leaves: it is *checkpointed* if the checkpoint lowers R or I below HELPS of
what they are without state, and the output is then not worse than none. Lasting, and no checkpoint helps: others missed
its tuples, so either its outage must be shorter (it is *replicated*) or its input must be replayed (its upstream
operators are backups). Worse: it is replicated.

A source reads on from where it stopped: if its input can be replayed, a restart is enough. Operators that behave like
it get the advice that it would have without a replay.

If values are altered, nothing fails, so restarts and fail-overs do not help: either *nothing* is needed, or copies must
*compare* their output.

With several sinks the strongest advice applies: one correct output does not compensate for a wrong one.

Adjacent operators to replicate form one group, also if only operators that behave like one of them are in between: a
fail-over of the group loses tuples only at its edge. An operator that also feeds operators outside the group is not
grouped with those downstream of it: otherwise their failure would also stop the output to the others.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from riprap.base.quantities import Duration, show_duration
from riprap.faults.campaign_summary import TargetSummary
from riprap.faults.models import LOST_STATE
from riprap.faults.targets import TargetChoice
from riprap.graph.graph import Graph

Advice = Literal["restart", "checkpoint", "replicate", "nothing", "compare"]
Effect = Literal["silent", "lasting", "worse"]
EFFECTS: tuple[Effect, ...] = get_args(Effect)  # weakest first
WORSE = 3.0  # times silence
HELPS = 0.9  # a checkpoint that leaves more than this of the error without state is of no use
_CHECKPOINTED, _FAILS_OVER = "checkpoint", "fail-over"


@dataclass(frozen=True)
class OperatorAdvice:
    advice: Advice
    sentence: str
    group: tuple[str, ...] = ()  # operators to replicate together, in the order of the graph


def verdicts(
    graph: Graph,
    placed: Sequence[TargetChoice],
    summaries: Sequence[TargetSummary],
    failover: Duration,
    *,
    altered: bool = False,
    replayed: frozenset[str] = frozenset(),
) -> dict[str, OperatorAdvice]:
    """By target. `altered`: the faults were of `models.ALTERS`. `replayed`: sources whose input can be replayed."""
    worst = deciding(unprotected(summaries))
    if altered:
        return {name: _of_altered(summary) for name, summary in worst.items()}
    saved = deciding(checkpointed(summaries))
    exempt = {name for name in worst if set(name.split("+")) <= replayed}
    for place in placed:  # those that are like an exempt source have a verdict of their own
        if place.like in exempt:
            worst[place.operator] = worst[place.like]
    advice = {name: _advice(graph, name, summary, saved.get(name)) for name, summary in worst.items()}
    advice |= dict.fromkeys(exempt, "restart")
    groups = _groups(graph, placed, advice)
    several = len({summary.sink for summary in summaries}) > 1
    found = {
        name: _verdict(graph, name, summary, saved.get(name), advice[name], groups.get(name, ()), failover, several)
        for name, summary in worst.items()
    }
    return found | {name: _of_replayed(worst[name]) for name in exempt}


def unprotected(summaries: Sequence[TargetSummary]) -> list[TargetSummary]:
    """Those of operators that just restart. A campaign with one state for all has no others."""
    plain = [s for s in summaries if s.outcome != _FAILS_OVER and not s.outcome.startswith(_CHECKPOINTED)]
    return plain or list(summaries)


def checkpointed(summaries: Sequence[TargetSummary]) -> list[TargetSummary]:
    """Those of operators that were also assessed without state."""
    lost = {(s.sink, s.target) for s in summaries if s.outcome == LOST_STATE.kind}
    return [s for s in summaries if s.outcome.startswith(_CHECKPOINTED) and (s.sink, s.target) in lost]


def deciding(summaries: Sequence[TargetSummary]) -> dict[str, TargetSummary]:
    """By target, the summary of the sink with the strongest effect; of equal ones, with the largest error."""
    decisive: dict[str, TargetSummary] = {}
    for summary in summaries:
        known = decisive.get(summary.target)
        if known is None or _weight(summary) > _weight(known):
            decisive[summary.target] = summary
    return decisive


def _weight(summary: TargetSummary) -> tuple[int, float, int]:
    return EFFECTS.index(_effect(summary)), summary.paired.I, summary.paired.R


def _effect(summary: TargetSummary) -> Effect:
    metrics, covered = summary.paired, summary.covered
    if covered + 1 >= metrics.R and covered + 1 >= metrics.I:
        return "silent"
    return "worse" if WORSE * covered < metrics.I else "lasting"


def _advice(graph: Graph, target: str, summary: TargetSummary, saved: TargetSummary | None) -> Advice:
    """`saved`: with a checkpoint; None: unknown, and then the state is taken to be what a checkpoint leaves."""
    effect = _effect(summary)
    if effect == "silent":
        return "restart"
    if saved is None:
        return "checkpoint" if effect == "lasting" and _stateful(graph, target) else "replicate"
    without, with_it = summary.paired, saved.paired
    helps = with_it.I <= HELPS * without.I or with_it.R <= HELPS * without.R
    return "checkpoint" if helps and _effect(saved) != "worse" else "replicate"


def _stateful(graph: Graph, target: str) -> bool:
    return any(any(graph[name].stateful) for name in target.split("+"))


def _verdict(
    graph: Graph, target: str, summary: TargetSummary, saved: TargetSummary | None, advice: Advice,
    group: tuple[str, ...], failover: Duration, several: bool,
) -> OperatorAdvice:  # fmt: skip
    metrics, outage = summary.paired, show_duration(summary.decisive.duration)
    silence = f"silence for {outage} would cost I = {summary.covered:.1f}"
    output = f"the output at {summary.sink}" if several else "the output"
    if metrics.R == 0:
        every = "any output" if several else "the output"
        return OperatorAdvice(advice, f"Restart is enough: an outage of {outage} leaves no section of {every} wrong.")
    if advice == "restart":
        return OperatorAdvice(
            advice,
            f"Restart is enough: {output} is correct once the operator runs again (R = {metrics.R}; {silence}).",
        )
    lasting = f"{output} stays wrong for {metrics.R} sections and I = {metrics.I:.2f}, where {silence}"
    if saved is not None:
        lasting = f"without its state {lasting}; with a {saved.outcome} it leaves R = {saved.paired.R}, "
        lasting += f"I = {saved.paired.I:.2f}"
    if advice == "checkpoint":
        return OperatorAdvice(advice, f"Checkpoint, and restart quickly: {lasting}.")
    short = [o for o in summary.outages if o.duration <= failover]
    promise = f"; an outage of {show_duration(short[-1].duration)} leaves I = {short[-1].I:.2f}" if short else ""
    others = [name for name in group if name != target]
    together = f", together with {' and '.join(others)}" if others else ""
    instead = "" if _stateful(graph, target) else _instead(graph, target)
    return OperatorAdvice(advice, f"Replicate{together}: {lasting}{promise}.{instead}", group)


def _of_replayed(summary: TargetSummary) -> OperatorAdvice:
    return OperatorAdvice(
        "restart",
        f"Restart is enough: its input is read on from where it stopped. Only a feed that cannot be replayed would "
        f"cost R = {summary.paired.R}, I = {summary.paired.I:.2f}.",
    )


def _of_altered(summary: TargetSummary) -> OperatorAdvice:
    metrics = summary.paired
    if metrics.R == 0:
        return OperatorAdvice("nothing", "Nothing is needed: altered values leave no section of the output wrong.")
    sections = "1 section" if metrics.R == 1 else f"{metrics.R} sections"
    return OperatorAdvice(
        "compare",
        f"Compare copies of it (full replication): altered values make {sections} of the output at {summary.sink} "
        f"wrong, I = {metrics.I:.2f}, and no restart or fail-over corrects that.",
    )


def _instead(graph: Graph, target: str) -> str:
    """The alternative protection of a stateless operator."""
    before = {name for member in target.split("+") for name in graph.upstream(member)} - set(target.split("+"))
    upstream = [name for name in graph.order if name in before]
    if not upstream:
        return " It has no state to checkpoint."
    return f" It has no state to checkpoint; or make {' and '.join(upstream)} a backup and replay its output."


def _groups(graph: Graph, placed: Sequence[TargetChoice], advice: Mapping[str, Advice]) -> dict[str, tuple[str, ...]]:
    """For each target to replicate, the operators to replicate with it."""
    like = {p.operator: p.like for p in placed}
    members = {spec.name for spec in graph if advice.get(spec.name, advice.get(like.get(spec.name, ""))) == "replicate"}
    replicated = [target for target in advice if advice[target] == "replicate"]
    members |= {name for target in replicated for name in target.split("+")}
    inside = {name for name in members if set(graph.downstream(name)) <= members}
    groups: dict[str, tuple[str, ...]] = {}
    for target in replicated:
        group, stack = set(target.split("+")), target.split("+")
        while stack:
            name = stack.pop()
            near = {*(inside & set(graph.upstream(name))), *(graph.downstream(name) if name in inside else ())} - group
            group |= near
            stack += near
        groups[target] = tuple(name for name in graph.order if name in group)
    return groups
