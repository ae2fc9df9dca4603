"""The verdict of a proof: what the plan promised, what was measured, and which promise broke.

Promises, by what the run says of its elements and what the plan says of itself:

    every fault   it was done, and the elements that it hit run again
    recovery R    from the fault until they do: at most R (where there is a bound; of a driver nothing is said)
    exactly once  at a sink that only exactly-once elements lead to: nothing lost, doubled or wrong, in order; also
                  behind copies of which one was always left, and behind groups that tell of themselves that they lose
                  nothing while a full replica lives, and had one, where no other element was hit
    no secrets    of a copy that was corrupted somebody is told, if a sink shows it
    with gaps     at any other sink, unless one element is "at least once": nothing doubled, in order but for late rows
    true counts   the summary's number of tuples of an exact sink is what is in its stream

Of some faults nobody promised anything, as of the death of all replicas of a group: behind them rows may be lost or
wrong, and are told, and so they are behind a corruption; twice or out of order they may not be.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from riprap.base.quantities import Duration
from riprap.graph.graph import Graph
from riprap.proof.effects import FaultEffect
from riprap.proof.fault_kinds import KINDS
from riprap.proof.oracle import SinkVerdict
from riprap.proof.prediction import PredictionAgreement, Predictions, agreement
from riprap.proof.quality import Quality
from riprap.proof.schedule import ScheduledFault

EXACTLY = "exactly once"  # as a run says it of its elements
NOT_INJECTED = "the fault was not injected"


@dataclass(frozen=True)
class FaultResult:
    """One fault, and what came of it. Instants are seconds of the wall clock."""

    fault: ScheduledFault
    began: float | None  # None: the run was over before
    running: float | None  # when what it hit ran again; None: it never did
    restored: float | None = None  # when what it killed had its state again
    predicted: float | None = None  # seconds from there until it has caught up, at most; None: nothing predicts it
    predicted_restart: float | None = None  # seconds until it has its state again
    ran: float | None = None  # when it began, in seconds of the run
    foreseen: FaultEffect | None = None  # on the output, by an assessment and the model
    effect: FaultEffect | None = None  # as measured
    altered: str | None = None  # of a corruption: the attribute that it struck; "": there was nothing to strike
    driverless: float = 0.0  # seconds of its recovery in which a driver that was killed after it was not back
    not_injected: str = ""  # why it could not be done, or not all of it

    @property
    def restart(self) -> float | None:
        """Seconds until what it killed had its state again: detection, a process, the checkpoint."""
        return None if self.began is None or self.restored is None else self.restored - self.began

    @property
    def caught_up(self) -> float | None:
        """Seconds from then until it had worked out again what it lost; None as well if the driver died meanwhile."""
        if self.running is None or self.restored is None or self.driverless:
            return None
        return max(self.running - self.restored, 0.0)

    @property
    def promised(self) -> float | None:
        """Seconds that the whole recovery was predicted to take at most; None: some part is not known."""
        if self.predicted is None or self.predicted_restart is None:
            return None
        return self.predicted + self.predicted_restart

    @property
    def latency(self) -> float | None:
        """Seconds from the fault until what it hit ran again, without the time that a fault itself lasts.

        Nor with that in which a driver was away that another fault killed: no bound is about it.
        """
        if self.began is None or self.running is None:
            return None
        lasting = self.fault.lasts / 1e6 if not KINDS[self.fault.kind].fatal else 0.0
        return max(self.running - self.began - self.driverless - lasting, 0.0)

    def misses(self, bound: Duration | None) -> bool:
        """Whether it took longer than was promised."""
        if bound is None or self.latency is None or not KINDS[self.fault.kind].bounded:
            return False
        return self.latency > bound / 1e6


@dataclass(frozen=True)
class Proof:
    """Everything that the page shows, and `--json` prints."""

    app: str
    seed: int
    bound: Duration | None
    faults: tuple[FaultResult, ...]
    sinks: Mapping[str, SinkVerdict]
    promised: Mapping[str, str]  # by sink: "exactly once", "with gaps", "at least once"
    broken: tuple[str, ...]  # promises that did not hold, a sentence each
    summary: Mapping[str, Any]
    agreement: PredictionAgreement | None = None  # of predicted and measured recoveries
    scores: Mapping[str, Quality] = field(default_factory=dict)  # by sink that was given an output score function
    orders: Mapping[str, float | None] = field(default_factory=dict)  # rank correlations of predicted and measured

    @property
    def holds(self) -> bool:
        return not self.broken

    @property
    def worst_first(self) -> tuple[FaultResult, ...]:
        """The faults that were: what never came back, what came too late, what harmed the output most, the slowest.

        Of those that a bound is about: the others, as the driver's, come behind them.
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
        if self.broken[0].startswith(NOT_INJECTED):  # they stand behind every promise that broke
            return f"This is no proof: {self.broken[0]}{more}"
        return f"This plan does not hold: {self.broken[0]}{more}"

    @property
    def found_out(self) -> tuple[str, ...]:
        """Which copies were seen to give out other things than others did."""
        told = {name: len(each["differences"]) for name, each in self.summary.get("copies", {}).items()}
        return tuple(f"Copies of {name} differed in {count} s of event time." for name, count in told.items() if count)

    @property
    def _excused(self) -> str:
        """What was harmed and nobody had promised: a plan that holds may still lose rows."""
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
                        "effect": None if result.foreseen is None else result.foreseen.as_json(),
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
    """`corruptions`: what elements say that they altered, as in the summary of a run."""

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
    """Why a fault was not done; "": it was. Of a corruption the element tells it."""
    noted = next((e["why"] for e in observations if e["what"] == "not injected" and e["fault"] == number), "")
    if noted:
        return str(noted)
    if not any(e["what"] == "began" and e["fault"] == number for e in observations):
        return "the run was over before it; give a longer --for"
    if fault.kind.startswith("corrupt") and altered is None:
        return "the run was over before anything came that could be altered; give a longer --for"
    if fault.kind.startswith("corrupt") and not altered:
        return f"there was nothing in {', '.join(fault.targets)} that could be altered"
    return ""


def _without(began: float | None, running: float | None, drivers: Sequence[tuple[float | None, float | None]]) -> float:
    """Seconds between two moments in which drivers that were killed there were not back."""
    if began is None or running is None:
        return 0.0
    return sum(
        min(back, running) - gone
        for gone, back in drivers
        if gone is not None and back is not None and began <= gone < running
    )


def _altered(fault: ScheduledFault, began: float | None, corruptions: Sequence[Mapping[str, Any]]) -> str | None:
    """By the first alteration that the element tells of from the fault on; None: it is none, or nothing was told."""
    kind, _, what = fault.kind.partition("-")
    if kind != "corrupt" or began is None:
        return None
    told = [e for e in corruptions if e["pe"] in fault.targets and e["what"] == what and e["at"] / 1e6 >= began]
    return None if not told else told[0]["column"] or ""


def promises(
    graph: Graph,
    hosts: Mapping[str, tuple[str, ...]],
    summary: Mapping[str, Any],
    hit: Collection[str] = (),
    *,
    resumed: bool = False,
) -> dict[str, str]:
    """By sink, what holds of all elements that lead to it. `hosts`: the elements of each operator.

    Where operators run in copies, or in groups that promise it, one of them may die and nothing is lost; other elements
    count if they were `hit`, or died of themselves. `resumed`: all of them were gone at once.
    """
    replicated = any(str(told["delivery"]).startswith(f"{EXACTLY}, while") for told in summary["pes"].values())
    spared = replicated and not resumed and not any(copies["tainted"] for copies in summary.get("copies", {}).values())
    failed = {pe for group in summary.get("groups", {}).values() if _gave_out(group) for pe in _members(group)}

    def delivery(pe: str) -> str:
        told = summary["pes"][pe]
        words = str(told["delivery"])
        if words == EXACTLY or not spared or pe in failed:
            return words
        return EXACTLY if words.startswith(EXACTLY) or not (told["restarts"] or pe in hit) else words

    found = {}
    for sink in graph.sinks:
        deliveries = {delivery(pe) for name in _upstream(graph, sink.name) for pe in hosts[name]}
        if deliveries == {EXACTLY}:
            found[sink.name] = EXACTLY
        else:
            careless = any(text.startswith("at least once") for text in deliveries)
            found[sink.name] = "at least once" if careless else "with gaps"
    return found


def _gave_out(group: Mapping[str, Any]) -> bool:
    """Whether an HA group was ever without a full replica."""
    return bool(group["tainted"]) or any(each["tainted"] or each["to"] is None for each in group["failovers"])


def _members(group: Mapping[str, Any]) -> list[str]:
    return [pe for replica in group["replicas"] for pe in replica["elements"]]


def _upstream(graph: Graph, sink: str) -> set[str]:
    """All operators that lead to a sink, and itself."""
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
            broken.append(f"after {result.fault} not everything that it hit ran again.")
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
    """Copies are compared: where one was corrupted, and it shows, some difference has to have been found."""
    copied = summary.get("copies", {}).values()
    copies = {copy["element"] for each in copied for copy in each["copies"]}
    struck = [result for result in faults if result.altered]
    if not struck or not all(set(result.fault.targets) <= copies for result in struck):
        return []
    if any(each["differences"] for each in copied) or not any(sink.wrong for sink in sinks.values()):
        return []
    return [f"{struck[0].fault} shows at a sink, and no copies were found to differ."]


def _broken(name: str, verdict: SinkVerdict, promised: str, counted: int, late: int) -> list[str]:
    found = []
    if promised == EXACTLY:
        if not verdict.exact:
            found.append(
                f"sink {name} was promised every row once and has {verdict.lost:,} lost, {verdict.doubled:,} doubled "
                f"and {verdict.wrong:,} wrong rows{'' if verdict.ordered else ', out of order'}."
            )
        if counted != verdict.found:
            found.append(f"the summary counts {counted:,} tuples at sink {name}, and its stream has {verdict.found:,}.")
    elif promised == "with gaps" and (verdict.doubled or not (verdict.ordered or late)):
        found.append(
            f"sink {name} has {verdict.doubled:,} doubled rows{'' if verdict.ordered else ', out of order'}, "
            "where only losses were allowed."
        )
    return found
