"""The effect of skewed keys on each protocol: pairs of cases without and with skew. Pure."""

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from riprap_papers.compare.grid import ComparedCase
from riprap_papers.compare.measures import Result


class Pair(NamedTuple):
    case: ComparedCase  # with the skew
    even: Result
    skewed: Result

    @property
    def slower(self) -> float:
        """The factor by which skew increases the 99th percentile of latency."""
        return self.skewed.latency_p99 / self.even.latency_p99 if self.even.latency_p99 else 1.0


def pairs(results: Mapping[ComparedCase, Result]) -> list[Pair]:
    found = []
    for case, result in results.items():
        even = results.get(replace(case, skew=None))
        if case.skew is not None and even is not None:
            found.append(Pair(case, even, result))
    return found


def said(found: list[Pair]) -> str:
    """One sentence; "": no pairs."""
    protocols = list(dict.fromkeys(pair.case.protocol for pair in found))
    if len(protocols) < 2:
        return ""
    p99, slower = {}, {}
    for name in protocols:
        own = [pair for pair in found if pair.case.protocol == name]
        p99[name] = sum(pair.skewed.latency_p99 for pair in own) / len(own)
        slower[name] = sum(pair.slower for pair in own) / len(own)
    best = min(p99, key=p99.__getitem__)
    latencies = ", ".join(f"{name} {p99[name]:.0f} ms (× {slower[name]:.2f})" for name in protocols)
    return (
        f"Under skewed keys (Zipf, exponent {found[0].case.skew:g}) {best} has the lowest 99th percentile of latency; "
        f"with the factor by which skew increases it: {latencies}."
    )
