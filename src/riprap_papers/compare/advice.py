"""Advice on the choice of a protocol, from the numbers of a comparison. Pure."""

from collections.abc import Callable, Collection, Mapping, Sequence
from statistics import mean

from riprap_papers.compare import cycle, skew
from riprap_papers.compare.cycle import Fall, Falling
from riprap_papers.compare.grid import NONE, ComparedCase
from riprap_papers.compare.measures import Result

Results = Mapping[ComparedCase, Result]

_CYCLE = "a cycle"
_ALIKE = 1.1  # times the best: too small a difference to decide by


def advice(results: Results, falls: Mapping[Falling, Fall] | None = None) -> list[str]:
    """A sentence for each shape of graph, if the results support one, and one on losses; one each on skewed keys and on
    a cycle of elements, if compared."""
    even = {case: result for case, result in results.items() if case.skew is None and case.protocol != NONE}
    if len({case.protocol for case in even}) < 2:
        own = []
    else:
        shapes = list(dict.fromkeys(_shape(case) for case in even))
        dominoes = {falling.protocol for falling, one in (falls or {}).items() if one.to_the_start}
        sentences = [
            _taken(shape, {c: r for c, r in even.items() if _shape(c) == shape}, dominoes if shape == _CYCLE else set())
            for shape in shapes
        ]
        own = [*filter(None, sentences), _exact(even)]
    return [*own, *filter(None, (skew.said(skew.pairs(results)), cycle.said(falls or {})))]


def _shape(case: ComparedCase) -> str:
    if case.of.cyclic:
        return _CYCLE
    return "joins" if any(spec.kind == "join" for spec in case.of.graph()) else "a line of operators"


def _taken(shape: str, results: Results, dominoes: Collection[str]) -> str:
    """The best protocol for a shape among those that lost and repeated nothing, by latency and by time to first output.

    Not `dominoes`, which roll back to the start; a short run does not show what that costs.
    """
    exact = [name for name in _exact_ones(results) if name not in dominoes]
    seen = {case: r for case, r in results.items() if r.throughput and case.protocol in exact}  # before a kill
    failed = {case: r for case, r in seen.items() if r.first_output is not None}
    latency = _by_protocol(seen, lambda result: result.latency_p99)
    first = _by_protocol(failed, lambda result: result.first_output or 0.0)
    measures = [(latency, "p99 ", " ms", 0), (first, "new output after ", " s", 2)]
    known = [one for one in measures if len(one[0]) > 1]
    if not known:
        return ""
    good = [name for name in known[0][0] if all(v.get(name, 1e9) <= _ALIKE * min(v.values()) for v, *_ in known)]
    workloads = ", ".join(dict.fromkeys(case.workload for case in seen))

    def of(name: str) -> str:
        return ", ".join(f"{word}{v[name]:.{digits}f}{unit}" for v, word, unit, digits in known if name in v)

    def rest(names: Sequence[str]) -> str:
        alike: dict[str, list[str]] = {}
        for name in known[0][0]:
            if name not in names:
                alike.setdefault(of(name), []).append(name)
        return "".join(f"; {_listed(others)}: {figures}" for figures, others in alike.items())

    if good:
        beside = f", or {_listed(good[1:])}, which are equally good" if good[1:] else ""
        return f"For {shape} ({workloads}) take {good[0]} ({of(good[0])}){beside}{rest(good)}."
    calm, soon = (min(v, key=v.__getitem__) for v, *_ in known)
    return (
        f"For {shape} ({workloads}) take {calm} where latency counts ({of(calm)}) and {soon} where failures do "
        f"({of(soon)}){rest([calm, soon])}."
    )


def _exact_ones(results: Results) -> list[str]:
    wrong = {case.protocol for case, result in results.items() if not result.exact}
    return [name for name in dict.fromkeys(case.protocol for case in results) if name not in wrong]


def _exact(results: Results) -> str:
    exact, lossy = _exact_ones(results), dict[str, int]()
    for case, result in results.items():
        if not result.exact:
            wrong = result.lost + result.repeated + result.altered
            lossy[case.protocol] = lossy.get(case.protocol, 0) + wrong
    if not lossy:
        return f"All of them ({_listed(exact)}) lost and repeated nothing, so only their costs differ."
    counts = ", ".join(f"{name} {count:,}" for name, count in lossy.items())
    rest = _listed(exact) or "any other"
    return f"Output rows that are missing, wrong or repeated: {counts}; none under {rest}."


def _by_protocol(results: Results, of: Callable[[Result], float]) -> dict[str, float]:
    names = dict.fromkeys(case.protocol for case in results)
    return {name: mean(of(r) for case, r in results.items() if case.protocol == name) for name in names}


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names)
