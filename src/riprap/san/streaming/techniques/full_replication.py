"""Full replication: two copies of every operator except sources and sinks; each sends to both downstream copies.

Receivers drop duplicates by counting: the n-th tuple of one copy is dropped if the n-th of the other copy was received.
Periodic punctuations clear the counters. Real copies are deterministic; here they draw independently, as in the
published model, so even without faults slightly more tuples pass than without replication. A crashed copy restores its
state from the other one; if that is dead too, it starts with empty state.
"""

from collections.abc import Mapping
from dataclasses import replace

from riprap.base.errors import PlanError
from riprap.san.streaming.deployment import Deployment, ModelLink, replicated

NAME = "full-replication"
SETTINGS: Mapping[str, float] = {"punctuation": 15.0}  # seconds
COPIES = 2


def apply(deployment: Deployment, operators: frozenset[str], settings: Mapping[str, float]) -> Deployment:
    """Replicate `operators`, except sources and sinks, and connect all copies with all."""
    if deployment.groups:
        raise PlanError("full replication and high-availability groups cannot be combined; choose one of them")
    if not settings["punctuation"] > 0:
        raise PlanError(f"a punctuation every {settings['punctuation']:g} s is impossible; the time must be positive")
    inner = frozenset(
        operator.name for operator in deployment.application.operators
        if operator.name in operators and not operator.sink and operator.arrivals is None
    )  # fmt: skip
    copied = replicated(deployment, inner, COPIES)
    crossed = {
        ModelLink(source, link.output, target, link.input)
        for link in copied.links
        for source in copied.of_operator[copied.instances[link.source].operator.name]
        for target in copied.of_operator[copied.instances[link.target].operator.name]
    }
    links = tuple(sorted(crossed, key=lambda link: (link.target, link.input, link.source, link.output)))
    return replace(copied, links=links, redundant=inner, punctuation=settings["punctuation"])
