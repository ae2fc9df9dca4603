"""One constructor per operator type. `selectivity`: output per input tuple; above 1 it has a fixed and a random part.

`tainted` is the selectivity for tainted tuples or state; by default it is the clean one.
"""

from math import floor

from riprap.base.errors import GraphError
from riprap.san.streaming.application import Arrivals, ModelEmission, ModelOperator, ModelPort


def selection(selectivity: float) -> dict[int, float]:
    """Probabilities of 1, 2, … tuples with mean `selectivity`: ⌊s⌋ or ⌊s⌋ + 1 of them."""
    if selectivity < 0:
        raise GraphError(f"a selectivity of {selectivity:g} is below 0")
    whole = floor(selectivity)
    chances = {whole: 1.0 - (selectivity - whole), whole + 1: selectivity - whole}
    return {tuples: chance for tuples, chance in chances.items() if tuples > 0 and chance > 0}


def port(
    seconds: float, selectivity: float, tainted: float | None = None, *,
    state: int = 0, penalty: float = 0.0, staleness: float = 0.0, cap: float = 1.0, taint: float = 0.0,
) -> ModelPort:  # fmt: skip
    """An input port of an operator with one output port."""
    clean = selection(selectivity)
    wrong = selection(selectivity if tainted is None else tainted)
    counts = sorted({*clean, *wrong}) or [1]
    return ModelPort(
        seconds,
        tuple(ModelEmission(clean.get(count, 0.0), (count,)) for count in counts),
        tuple(ModelEmission(wrong.get(count, 0.0), (count,)) for count in counts),
        state, penalty, staleness, cap, taint,
    )  # fmt: skip


def source(name: str, rate: float, seconds: float, *, poisson: bool = False) -> ModelOperator:
    """A.1: forwards everything it receives from outside."""
    return ModelOperator(name, "source", (port(seconds, 1.0),), 1, Arrivals(rate, poisson))


def sink(name: str, seconds: float) -> ModelOperator:
    """A.2: stores what reaches it; no output port."""
    return ModelOperator(name, "sink", (ModelPort(seconds, (), ()),), 0)


def functor(name: str, seconds: float, selectivity: float, tainted: float | None = None) -> ModelOperator:
    """A.3: filters or transforms; stateless."""
    return ModelOperator(name, "functor", (port(seconds, selectivity, tainted),), 1)


def aggregate(name: str, port: ModelPort) -> ModelOperator:
    """A.4 with a count-based trigger: its selectivity is how often a tuple triggers."""
    return ModelOperator(name, "aggregate", (port,), 1)


def aggregate_every(name: str, period: float, data: ModelPort, trigger_seconds: float) -> ModelOperator:
    """A.4 with a time-based trigger: tuples only fill the window; a token every `period` seconds emits."""
    silent = ModelEmission(0.0, (1,))
    filling = ModelPort(
        data.seconds, (silent,), (silent,), data.state, data.penalty, data.staleness, data.cap, data.taint
    )
    return ModelOperator(name, "aggregate", (filling, port(trigger_seconds, 1.0)), 1, timer=(1, period))


def join(name: str, *ports: ModelPort) -> ModelOperator:
    """A.5: correlates its ports."""
    return ModelOperator(name, "join", ports, 1)


def barrier(name: str, *ports: ModelPort) -> ModelOperator:
    """A.7: the same network as a join's, with the profile's selectivities."""
    return ModelOperator(name, "barrier", ports, 1)


def sort(name: str, period: float, data: ModelPort, trigger_seconds: float) -> ModelOperator:
    """A.6: passes tuples on; output port 1 carries a punctuation mark at the end of every window."""
    clean = tuple(ModelEmission(each.probability, (*each.tuples, 0)) for each in data.emissions)
    wrong = tuple(ModelEmission(each.probability, (*each.tuples, 0)) for each in data.tainted)
    through = ModelPort(data.seconds, clean, wrong, data.state, data.penalty, data.staleness, data.cap, data.taint)
    mark = (ModelEmission(1.0, (0, 1)),)
    return ModelOperator(name, "sort", (through, ModelPort(trigger_seconds, mark, mark)), 2, timer=(1, period))


def punctor(name: str, seconds: float, selectivity: float, mark: float) -> ModelOperator:
    """A.8: with probability `mark` a tuple is followed by a punctuation mark at output port 1."""
    emissions = (ModelEmission(selectivity - mark, (1, 0)), ModelEmission(mark, (1, 1)))
    return ModelOperator(name, "punctor", (ModelPort(seconds, emissions, emissions),), 2)


def split(name: str, seconds: float, *shares: float) -> ModelOperator:
    """A.9: each tuple goes to one output port, chosen with the given shares."""
    emissions = tuple(
        ModelEmission(share, tuple(int(index == output) for index in range(len(shares))))
        for output, share in enumerate(shares)
    )
    return ModelOperator(name, "split", (ModelPort(seconds, emissions, emissions),), len(shares))


def union(name: str, seconds: float) -> ModelOperator:
    """Forwards whatever arrives on any of its streams."""
    return ModelOperator(name, "union", (port(seconds, 1.0),), 1)


def delay(name: str, seconds: float) -> ModelOperator:
    """A.10: forwards everything, `seconds` being the mean time between tuples it can keep up with."""
    return ModelOperator(name, "delay", (port(seconds, 1.0),), 1)


def user_defined(name: str, ports: tuple[ModelPort, ...], outputs: int = 1) -> ModelOperator:
    """As in its profile."""
    return ModelOperator(name, "user-defined", ports, outputs)
