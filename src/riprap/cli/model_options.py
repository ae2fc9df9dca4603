"""Options of `riprap model` that name operators: `OPERATOR=RATE`, `HOST=A,B@RATE`, `GROUP=A,B`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from riprap.base.errors import UsageError, known
from riprap.base.quantities import parse_number

if TYPE_CHECKING:
    from riprap.graph.graph import Graph
    from riprap.san.streaming.failures import ModelHost
    from riprap.san.streaming.scenario import ModelProtection


def rates_of(given: Sequence[str] | None, option: str, graph: "Graph") -> dict[str, float]:
    """`OPERATOR=RATE`, for each operator with a rate of its own."""
    found = {}
    for text in given or ():
        name, equals, rate = text.rpartition("=")
        if not equals:
            raise UsageError(f"{option} {text}: write OPERATOR=RATE, as in Source=1e-4")
        found[_operator(name, option, graph)] = parse_number(rate, option, most=1e6)
    return found


def hosts_of(given: Sequence[str] | None, graph: "Graph") -> "tuple[ModelHost, ...]":
    """`HOST=A,B@RATE`: operators on one machine, which takes them all down at that rate."""
    from riprap.san.streaming.failures import ModelHost

    found = []
    for text in given or ():
        name, equals, rest = text.partition("=")
        names, at, rate = rest.rpartition("@")
        if not (name and equals and names and at):
            raise UsageError(f"--host {text}: write HOST=A,B@RATE, as in left=Source,Filter@1e-5")
        operators = tuple(_operator(each.strip(), "--host", graph) for each in names.split(","))
        found.append(ModelHost(name, operators, parse_number(rate, "--host", most=1e6)))
    return tuple(found)


def hosts_of_layout(given: str | None, graph: "Graph") -> "tuple[ModelHost, ...]":
    """`FUSE@RATE`: every element of that layout is a process, which takes its operators down together."""
    from riprap.cli.colocation import together
    from riprap.san.streaming.failures import ModelHost

    if given is None:
        return ()
    fuse, at, rate = given.partition("@")
    if not at:
        raise UsageError(f"--hosts {given}: write FUSE@RATE, as in auto@1e-5")
    each = parse_number(rate, "--hosts", most=1e6)
    return tuple(ModelHost(members[0], members, each) for members in together(graph, fuse, "--hosts"))


def groups_of(given: Sequence[str] | None, failover: float, graph: "Graph") -> "tuple[ModelProtection, ...]":
    """`GROUP=A,B`: operators that are replicated together; what is in none restarts."""
    from riprap.san.streaming.scenario import ModelProtection

    found, taken = [], set[str]()
    for text in given or ():
        name, equals, names = text.partition("=")
        if not (name and equals and names):
            raise UsageError(f"--group {text}: write GROUP=A,B, as in trades=TradeFilter,Aggregator")
        operators = tuple(_operator(each.strip(), "--group", graph) for each in names.split(","))
        twice = taken & set(operators)
        if twice or len(set(operators)) < len(operators):
            raise UsageError(f"--group {text}: {', '.join(sorted(twice)) or 'an operator'} is named twice")
        taken |= set(operators)
        found.append(ModelProtection("ha-group", operators, {"failover": failover}))
    return tuple(found)


def _operator(name: str, option: str, graph: "Graph") -> str:
    names = [spec.name for spec in graph.operators if spec.kind != "sink"]
    if name not in names:
        raise UsageError(f"{option} names {name}, which {graph.name} does not have: {known(names, name)}")
    return name
