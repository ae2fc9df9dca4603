"""The verdict of a proof: what the plan promised, what was measured, and which promises were broken.

Promises, from the delivery guarantees of the run's elements and from the plan:

    every fault   it was injected, and the elements that it hit are running again
    recovery R    from the fault until they are: at most R (if the plan has a bound; not for a killed driver)
    exactly once  at a sink whose upstream elements are all exactly once: nothing lost, doubled or wrong, in order. Also
                  behind copies if one was always left, and behind groups that lose nothing while a full replica lives,
                  if one always did and no other element was hit
    no secrets    a corrupted copy is reported, if a sink shows it
    with gaps     at any other sink, unless an element is "at least once": nothing doubled, in order but for late rows
    true counts   the summary's number of tuples of an exact sink equals the rows in its stream

Some faults carry no promise, such as the death of all replicas of a group, or a corruption: rows downstream may be lost
or wrong, and are reported, but they must not be doubled or out of order.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from riprap.base.quantities import Duration
from riprap.base.tabular import Tabular
from riprap.graph.graph import Graph
from riprap.proof.effects import FaultEffect
from riprap.proof.fault_kinds import KINDS
from riprap.proof.oracle import SinkVerdict
from riprap.proof.prediction import PredictionAgreement, Predictions, agreement
from riprap.proof.quality import Quality
from riprap.proof.schedule import ScheduledFault

EXACTLY = "exactly once"  # as in a run's summary
NOT_INJECTED = "the fault was not injected"


@dataclass(frozen=True)
class FaultResult:
    """One fault and its outcome. Instants are seconds of the wall clock."""

    fault: ScheduledFault
    began: float | None  # None: the run was over before
    running: float | None  # when its targets were running again; None: never
    restored: float | None = None  # when the killed elements had restored their state
    predicted: float | None = None  # the longest time to catch up after that, in seconds; None: not predicted
    predicted_restart: float | None = None  # seconds until the state is restored
    ran: float | None = None  # when it was injected, in seconds of the run
    predicted_effect: FaultEffect | None = None  # on the output, by an assessment and the model
    effect: FaultEffect | None = None  # as measured
    altered: str | None = None  # of a corruption: the attribute that was altered; "": nothing could be altered
    driverless: float = 0.0  # seconds of its recovery without a driver, which a later fault had killed
    not_injected: str = ""  # why it was not injected, or not completely

    @property
    def restart(self) -> float | None:
        """Seconds until the killed elements had restored their state: detection, restart, restore."""
        return None if self.began is None or self.restored is None else self.restored - self.began

    @property
    def caught_up(self) -> float | None:
        """Seconds from then until they had caught up; None also if the driver died meanwhile."""
        if self.running is None or self.restored is None or self.driverless:
            return None
        return max(self.running - self.restored, 0.0)

    @property
    def promised(self) -> float | None:
        """The predicted longest recovery in seconds; None: a part of it is unknown."""
        if self.predicted is None or self.predicted_restart is None:
            return None
        return self.predicted + self.predicted_restart

    @property
    def latency(self) -> float | None:
        """Seconds from the fault until its targets were running again, without the duration of the fault itself.

        Time without a driver, which another fault had killed, does not count either: no bound covers it.
        """
        if self.began is None or self.running is None:
            return None
        lasting = self.fault.lasts / 1e6 if not KINDS[self.fault.kind].fatal else 0.0
        return max(self.running - self.began - self.driverless - lasting, 0.0)

    def misses(self, bound: Duration | None) -> bool:
        """Whether the recovery took longer than promised."""
        if bound is None or self.latency is None or not KINDS[self.fault.kind].bounded:
            return False
        return self.latency > bound / 1e6


@dataclass(frozen=True)
class Proof(Tabular):
    """Everything that the report shows and `--json` prints."""

    app: str
    seed: int
    bound: Duration | None
    faults: tuple[FaultResult, ...]
    sinks: Mapping[str, SinkVerdict]
    promised: Mapping[str, str]  # by sink: "exactly once", "with gaps", "at least once"
    broken: tuple[str, ...]  # promises that did not hold, a sentence each
    summary: Mapping[str, Any]
    agreement: PredictionAgreement | None = None  # of predicted and measured recoveries
    scores: Mapping[str, Quality] = field(default_factory=dict)  # by sink with an output score function
    orders: Mapping[str, float | None] = field(default_factory=dict)  # rank correlations of predicted and measured

    def rows(self) -> list[dict[str, Any]]:
        """Each fault: when it was injected (seconds of the run), and the measured and promised recovery in seconds."""
        return [
            {
                "kind": result.fault.kind,
                "targets": ", ".join(result.fault.targets),
                "at": result.ran,
                "recovery": result.latency,
                "promised": result.promised,
            }
            for result in self.faults
        ]

    @property
    def holds(self) -> bool:
        return not self.broken

    @property
    def worst_first(self) -> tuple[FaultResult, ...]:
        """The injected faults: without a recovery, recovered too late, most harmful to the output, slowest.

        Faults that no bound covers, such as the driver's, come after those that one does.
        """

        def badness(result: FaultResult) -> tuple[bool, bool, float, bool, float]:
            latency = float("inf") if result.latency is None else result.latency
            harm = (result.effect.impact or 0.0) if result.effect is not None else 0.0
            return result.running is None, result.misses(self.bound), harm, KINDS[result.fault.kind].bounded, latency

        done = [result for result in self.faults if result.began is not None]
        return tuple(sorted(done, key=badness, reverse=True))

    @property
    def sentence(self) -> str:
        if self.holds:
            done = len(self.faults)
            return f"This plan holds: {done} fault{'s' * (done != 1)}, and every promise was kept.{self._excused}"
        more = f" ({len(self.broken) - 1} more)" if len(self.broken) > 1 else ""
        if self.broken[0].startswith(NOT_INJECTED):  # these come after all broken promises
            return f"This is no proof: {self.broken[0]}{more}"
        return f"This plan does not hold: {self.broken[0]}{more}"

    @property
    def detected_differences(self) -> tuple[str, ...]:
        """Sentences on copies whose output differed from that of others."""
        seconds = {name: len(copies["differences"]) for name, copies in self.summary.get("copies", {}).items()}
        return tuple(
            f"Copies of {name} differed in {count} s of event time." for name, count in seconds.items() if count
        )

    @property
    def _excused(self) -> str:
        """Harm that no promise covers: a plan that holds may still lose rows."""
        harmed = {name: sink.lost + sink.wrong for name, sink in self.sinks.items() if sink.lost + sink.wrong}
        if not harmed:
            return ""
        kinds = {r.fault.kind for r in self.faults if r.began is not None and KINDS[r.fault.kind].excused}
        why = (
            f"nothing is promised after {', '.join(sorted(kinds))}"
            if kinds
            else f"the plan does not promise {', '.join(sorted(harmed))} exactly once"
        )
        count = sum(harmed.values())
        return f" {count:,} row{'s are' if count != 1 else ' is'} lost or wrong; {why}."

    def as_json(self) -> dict[str, Any]:
        return {
            "app": self.app,
            "seed": self.seed,
            "holds": self.holds,
            "sentence": self.sentence,
            "broken": list(self.broken),
            "bound": None if self.bound is None else self.bound / 1e6,
            "faults": [
                {
                    "kind": result.fault.kind,
                    "targets": list(result.fault.targets),
                    "at": result.fault.at / 1e6,
                    "began": result.began,
                    "running": result.running,
                    "latency": result.latency,
                    "restart": result.restart,
                    "caught_up": result.caught_up,
                    "predicted": {
                        "restart": result.predicted_restart,
                        "caught_up": result.predicted,
                        "latency": result.promised,
                        "effect": None if result.predicted_effect is None else result.predicted_effect.as_json(),
                    },
                    "effect": None if result.effect is None else result.effect.as_json(),
                    **({} if result.altered is None else {"altered": result.altered or None}),
                    "not_injected": result.not_injected or None,
                }
                for result in self.faults
            ],
            "agreement": None if self.agreement is None else asdict(self.agreement),
            "orders": dict(self.orders),
            "sinks": {
                name: {
                    **asdict(verdict),
                    "promised": self.promised[name],
                    **({"score": self.scores[name].as_json()} if name in self.scores else {}),
                }
                for name, verdict in self.sinks.items()
            },
            "summary": dict(self.summary),
        }


def results(
    schedule: Sequence[ScheduledFault],
    observations: Sequence[Mapping[str, Any]],
    predicted: Predictions | None = None,
    corruptions: Sequence[Mapping[str, Any]] = (),
) -> tuple[FaultResult, ...]:
    """`corruptions`: the alterations that elements reported, as in the summary of a run."""

    def when(what: str, number: int) -> float | None:
        return next((e["at"] for e in observations if e["what"] == what and e["fault"] == number), None)

    drivers = [
        (when("began", number), when("running", number)) for number, f in enumerate(schedule) if f.kind == "driver"
    ]
    altered = [_altered(fault, when("began", number), corruptions) for number, fault in enumerate(schedule)]
    return tuple(
        FaultResult(
            fault,
            when("began", number),
            when("running", number),
            when("restored", number),
            None if predicted is None else predicted.of(fault),
            None if predicted is None or not KINDS[fault.kind].fatal else predicted.restart,
            next((e.get("ran") for e in observations if e["what"] == "began" and e["fault"] == number), None),
            altered=altered[number],
            driverless=_without(when("began", number), when("running", number), drivers)
            if fault.kind != "driver"
            else 0.0,
            not_injected=_not_injected(number, fault, observations, altered[number]),
        )
        for number, fault in enumerate(schedule)
    )


def _not_injected(
    number: int, fault: ScheduledFault, observations: Sequence[Mapping[str, Any]], altered: str | None
) -> str:
    """Why a fault was not injected; "": it was. The element itself reports a corruption."""
    noted = next((e["why"] for e in observations if e["what"] == "not injected" and e["fault"] == number), "")
    if noted:
        return str(noted)
    if not any(e["what"] == "began" and e["fault"] == number for e in observations):
        return "the run was over before it: let it run longer"
    if fault.kind.startswith("corrupt") and altered is None:
        return "the run was over before anything arrived that could be altered: let it run longer"
    if fault.kind.startswith("corrupt") and not altered:
        return f"there was nothing in {', '.join(fault.targets)} that could be altered"
    return ""


def _without(began: float | None, running: float | None, drivers: Sequence[tuple[float | None, float | None]]) -> float:
    """Seconds between two moments without a driver, because one was killed in between."""
    if began is None or running is None:
        return 0.0
    return sum(
        min(back, running) - gone
        for gone, back in drivers
        if gone is not None and back is not None and began <= gone < running
    )


def _altered(fault: ScheduledFault, began: float | None, corruptions: Sequence[Mapping[str, Any]]) -> str | None:
    """The first alteration that the element reported after the fault; None: not a corruption, or none reported."""
    kind, _, what = fault.kind.partition("-")
    if kind != "corrupt" or began is None:
        return None
    reported = [e for e in corruptions if e["pe"] in fault.targets and e["what"] == what and e["at"] / 1e6 >= began]
    return None if not reported else reported[0]["column"] or ""


def promises(
    graph: Graph,
    hosts: Mapping[str, tuple[str, ...]],
    summary: Mapping[str, Any],
    hit: Collection[str] = (),
    *,
    resumed: bool = False,
) -> dict[str, str]:
    """By sink, the guarantee of all upstream elements together. `hosts`: the elements of each operator.

    If operators run in copies, or in groups that promise it, one replica may die without a loss; other elements count
    only if they were `hit` or died by themselves. `resumed`: all of them were down at once.
    """
    replicated = any(str(pe["delivery"]).startswith(f"{EXACTLY}, while") for pe in summary["pes"].values())
    spared = replicated and not resumed and not any(copies["tainted"] for copies in summary.get("copies", {}).values())
    failed = {pe for group in summary.get("groups", {}).values() if _lacked_replica(group) for pe in _members(group)}

    def delivery(pe: str) -> str:
        status = summary["pes"][pe]
        guarantee = str(status["delivery"])
        if guarantee == EXACTLY or not spared or pe in failed:
            return guarantee
        return EXACTLY if guarantee.startswith(EXACTLY) or not (status["restarts"] or pe in hit) else guarantee

    promised = {}
    for sink in graph.sinks:
        deliveries = {delivery(pe) for name in _upstream(graph, sink.name) for pe in hosts[name]}
        if deliveries == {EXACTLY}:
            promised[sink.name] = EXACTLY
        else:
            repeats = any(text.startswith("at least once") for text in deliveries)
            promised[sink.name] = "at least once" if repeats else "with gaps"
    return promised


def _lacked_replica(group: Mapping[str, Any]) -> bool:
    """Whether an HA group was ever without a full replica."""
    return bool(group["tainted"]) or any(
        failover["tainted"] or failover["to"] is None for failover in group["failovers"]
    )


def _members(group: Mapping[str, Any]) -> list[str]:
    return [pe for replica in group["replicas"] for pe in replica["elements"]]


def _upstream(graph: Graph, sink: str) -> set[str]:
    """All operators upstream of a sink, and the sink."""
    upstream, front = {sink}, [sink]
    while front:
        for stream in graph.inputs(front.pop()):
            if stream.source not in upstream:
                upstream.add(stream.source)
                front.append(stream.source)
    return upstream


def judge(
    graph: Graph,
    hosts: Mapping[str, tuple[str, ...]],
    faults: Sequence[FaultResult],
    sinks: Mapping[str, SinkVerdict],
    summary: Mapping[str, Any],
    *,
    bound: Duration | None,
    seed: int,
) -> Proof:
    done = [result.fault for result in faults if result.began is not None]
    hit = {pe for fault in done for pe in fault.targets}
    promised = promises(graph, hosts, summary, hit, resumed=any(fault.kind == "driver" for fault in done))
    broken = []
    for result in faults:
        if result.began is None or result.not_injected:
            continue
        if result.running is None:
            broken.append(f"after {result.fault} not all its targets were running again.")
        elif bound is not None and result.misses(bound):
            broken.append(f"{result.fault} took {result.latency:.2f} s, where {bound / 1e6:g} s were promised.")
    excused = {pe for r in faults if r.began is not None and KINDS[r.fault.kind].excused for pe in r.fault.targets}
    for name, verdict in sinks.items():
        if any(pe in excused for operator in _upstream(graph, name) for pe in hosts[operator]):
            promised[name] = "with gaps"
        late = sum(counts.get("late", 0) for counts in summary["streams"].values())
        broken += _broken(name, verdict, promised[name], summary["sinks"][name]["tuples"], late)
    broken += _unnoticed(faults, sinks, summary)
    broken += [f"{NOT_INJECTED}: {result.fault}: {result.not_injected}." for result in faults if result.not_injected]
    pairs = [
        (", ".join(result.fault.targets), result.predicted, result.caught_up)
        for result in faults
        if result.predicted is not None and result.caught_up is not None
    ]
    return Proof(graph.name, seed, bound, tuple(faults), sinks, promised, tuple(broken), summary, agreement(pairs))


def _unnoticed(
    faults: Sequence[FaultResult], sinks: Mapping[str, SinkVerdict], summary: Mapping[str, Any]
) -> list[str]:
    """Copies are compared: if one was corrupted and a sink shows it, a difference must have been detected."""
    copied = summary.get("copies", {}).values()
    copies = {copy["element"] for operator in copied for copy in operator["copies"]}
    corrupted = [result for result in faults if result.altered]
    if not corrupted or not all(set(result.fault.targets) <= copies for result in corrupted):
        return []
    if any(operator["differences"] for operator in copied) or not any(sink.wrong for sink in sinks.values()):
        return []
    return [f"{corrupted[0].fault} is visible at a sink, but no difference between copies was detected."]


def _broken(name: str, verdict: SinkVerdict, promised: str, counted: int, late: int) -> list[str]:
    broken = []
    if promised == EXACTLY:
        if not verdict.exact:
            broken.append(
                f"sink {name} was promised every row once and has {verdict.lost:,} lost, {verdict.doubled:,} doubled "
                f"and {verdict.wrong:,} wrong rows{'' if verdict.ordered else ', out of order'}."
            )
        if counted != verdict.found:
            broken.append(
                f"the summary counts {counted:,} tuples at sink {name}, but its stream has {verdict.found:,}."
            )
    elif promised == "with gaps" and (verdict.doubled or not (verdict.ordered or late)):
        broken.append(
            f"sink {name} has {verdict.doubled:,} doubled rows{'' if verdict.ordered else ', out of order'}, "
            "where only losses were allowed."
        )
    return broken
