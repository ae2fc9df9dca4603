"""Three sentences: what the numbers of a comparison say about which protocol to take. Pure."""

from collections.abc import Callable, Mapping, Sequence
from statistics import mean

from riprap.compare.grid import NONE, Case
from riprap.compare.measures import Result

Results = Mapping[Case, Result]


def advice(results: Results) -> list[str]:
    """As many sentences as the results can carry."""
    found: list[str] = []
    compared = {case: result for case, result in results.items() if case.protocol != NONE}
    protocols = list(dict.fromkeys(case.protocol for case in compared))
    if len(protocols) < 2:
        return found
    calm = _by_protocol(compared, lambda result: result.latency_p99)
    best = min(calm, key=calm.__getitem__)
    found.append(
        f"While nothing fails, {best} has the lowest 99th percentile of latency ({calm[best]:.0f} ms on average over "
        f"the workloads; {_others(calm, best, 'ms', 0)})."
    )
    failed = {case: result for case, result in compared.items() if case.failure and result.first_output is not None}
    if failed:
        first = _by_protocol(failed, lambda result: result.first_output or 0.0)
        best = min(first, key=first.__getitem__)
        found.append(
            f"After a kill {best} gives new output soonest ({first[best]:.2f} s on average; "
            f"{_others(first, best, 's', 2)})."
        )
    wrong = {
        name: sum(r.lost + r.repeated for case, r in compared.items() if case.protocol == name) for name in protocols
    }
    exact = [name for name in protocols if not wrong[name]]
    lossy = {name: count for name, count in wrong.items() if count}
    if exact and not lossy:
        found.append(f"All of them ({_listed(exact)}) lost and repeated nothing, so the choice is one of cost alone.")
    elif lossy:
        told = ", ".join(f"{name} {count:,}" for name, count in lossy.items())
        found.append(f"Rows lost or repeated in the output: {told}; none under {_listed(exact) or 'any other'}.")
    return found


def _by_protocol(results: Results, of: Callable[[Result], float]) -> dict[str, float]:
    names = dict.fromkeys(case.protocol for case in results)
    return {name: mean(of(r) for case, r in results.items() if case.protocol == name) for name in names}


def _others(values: Mapping[str, float], best: str, unit: str, digits: int) -> str:
    return ", ".join(f"{name} {value:.{digits}f} {unit}" for name, value in values.items() if name != best)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names)
