"""Options of `riprap model` that name operators: `OPERATOR=RATE`, `HOST=A,B@RATE`, `GROUP=A,B`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from riprap.base.errors import UsageError, known
from riprap.base.quantities import parse_number

if TYPE_CHECKING:
    from riprap.graph.graph import Graph
    from riprap.san.streaming.failures import ModelHost
    from riprap.san.streaming.scenario import ModelProtection


def rates_of(texts: Sequence[str] | None, option: str, graph: "Graph") -> dict[str, float]:
    """`OPERATOR=RATE`: rates of single operators."""
    rates = {}
    for text in texts or ():
        name, equals, rate = text.rpartition("=")
        if not equals:
            raise UsageError(f"{option} {text}: write OPERATOR=RATE, as in Source=1e-4")
        rates[_operator(name, option, graph)] = parse_number(rate, option, most=1e6)
    return rates


def hosts_of(texts: Sequence[str] | None, graph: "Graph") -> "tuple[ModelHost, ...]":
    """`HOST=A,B@RATE`: operators on one machine, which fail together at that rate."""
    from riprap.san.streaming.failures import ModelHost

    hosts = []
    for text in texts or ():
        name, equals, rest = text.partition("=")
        names, at, rate = rest.rpartition("@")
        if not (name and equals and names and at):
            raise UsageError(f"--host {text}: write HOST=A,B@RATE, as in left=Source,Filter@1e-5")
        operators = tuple(_operator(member.strip(), "--host", graph) for member in names.split(","))
        hosts.append(ModelHost(name, operators, parse_number(rate, "--host", most=1e6)))
    return tuple(hosts)


def hosts_of_layout(text: str | None, graph: "Graph") -> "tuple[ModelHost, ...]":
    """`FUSE@RATE`: the operators of each element of that layout fail together."""
    from riprap.cli.colocation import colocated_operators
    from riprap.san.streaming.failures import ModelHost

    if text is None:
        return ()
    fuse, at, rate = text.partition("@")
    if not at:
        raise UsageError(f"--hosts {text}: write FUSE@RATE, as in auto@1e-5")
    failures = parse_number(rate, "--hosts", most=1e6)
    return tuple(ModelHost(members[0], members, failures) for members in colocated_operators(graph, fuse, "--hosts"))


def groups_of(texts: Sequence[str] | None, failover: float, graph: "Graph") -> "tuple[ModelProtection, ...]":
    """`GROUP=A,B`: operators that are replicated together; operators in no group restart."""
    from riprap.san.streaming.scenario import ModelProtection

    groups, grouped = [], set[str]()
    for text in texts or ():
        name, equals, names = text.partition("=")
        if not (name and equals and names):
            raise UsageError(f"--group {text}: write GROUP=A,B, as in trades=TradeFilter,Aggregator")
        operators = tuple(_operator(member.strip(), "--group", graph) for member in names.split(","))
        twice = grouped & set(operators)
        if twice or len(set(operators)) < len(operators):
            raise UsageError(f"--group {text}: {', '.join(sorted(twice)) or 'an operator'} is named twice")
        grouped |= set(operators)
        groups.append(ModelProtection("ha-group", operators, {"failover": failover}))
    return tuple(groups)


def _operator(name: str, option: str, graph: "Graph") -> str:
    names = [spec.name for spec in graph.operators if spec.kind != "sink"]
    if name not in names:
        raise UsageError(f"{option} names {name}, which {graph.name} does not have: {known(names, name)}")
    return name
