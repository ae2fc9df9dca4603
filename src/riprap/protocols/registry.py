"""Protocols by name: the one list of them."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from riprap.base.errors import UsageError, known
from riprap.base.quantities import parse_duration
from riprap.protocols import coordinated, hybrid, induced, recompute, repeat, unaligned, uncoordinated
from riprap.protocols.commitment import SINKS
from riprap.protocols.partial import PARTIAL
from riprap.protocols.protocol import ProtocolSpec

REGISTRY: Mapping[str, ProtocolSpec] = {
    spec.name: spec
    for spec in (
        PARTIAL,
        coordinated.SPEC,
        unaligned.SPEC,
        hybrid.SPEC,
        uncoordinated.SPEC,
        induced.SPEC,
        repeat.SPEC,
        recompute.SPEC,
    )
}
LOGS = ("persistent", "volatile")
FAILOVERS = ("smart", "plain")  # of HA groups
SCOPES = ("cycles", "all")
RULES = tuple(induced.RULES)


def protocol(name: str) -> ProtocolSpec:
    if name not in REGISTRY:
        raise UsageError(f"no protocol is called {name}; there are {known(REGISTRY, name)}")
    return REGISTRY[name]


def configured(
    name: str,
    *,
    interval: str | None = None,
    log: str | None = None,
    scope: str | None = None,
    rule: str | None = None,
    failover: str = FAILOVERS[0],
    sinks: str | None = None,
    virtual: bool = False,
) -> tuple[ProtocolSpec, dict[str, Any]]:
    """A protocol as a user asks for it, with its settings; raises `UsageError` for what does not go together."""
    spec = protocol(name)
    if failover not in FAILOVERS:
        raise UsageError(f"--failover {failover}: expected {' or '.join(FAILOVERS)}")
    settings: dict[str, Any] = {} if failover == FAILOVERS[0] else {"failover": failover}
    if spec is PARTIAL and (interval, log, scope, rule) != (None, None, None, None):
        raise UsageError("--interval, --log and --induced-… are of other protocols: partial has its plan instead")
    if interval is not None:
        settings["interval"] = parse_duration(interval)
        if settings["interval"] < 1:
            raise UsageError(f"--interval {interval}: checkpoints need a time between them, as in 10s")
    if log is not None:
        if log not in LOGS:
            raise UsageError(f"--log {log}: expected {' or '.join(LOGS)}")
        if spec.retention[0] != "log":
            raise UsageError(f"--log is for uncoordinated and induced: {name} holds what is on its way")
        if spec is repeat.SPEC and log == "volatile":
            raise UsageError("--log volatile: repeat reads its logs again, so they are persistent; use uncoordinated")
        settings["log"] = log
        if log == "volatile":
            spec = replace(spec, retention=("hold", "hold"), lossy=True)
    for key, given, choices in (("scope", scope, SCOPES), ("rule", rule, RULES)):
        if given is not None:
            if given not in choices:
                raise UsageError(f"--induced-{key} {given}: expected {' or '.join(choices)}")
            if spec.name != "induced":
                raise UsageError(f"--induced-{key} is for induced: {name} forces no checkpoints")
            settings[key] = given
    if virtual:
        if spec.name not in ("uncoordinated", "induced"):
            raise UsageError(f"--virtual is for uncoordinated and induced: {name} has no line of single checkpoints")
        if settings.get("log") == "volatile":
            raise UsageError(
                "--virtual leaves elements as they are that did not fail, and with --log volatile what is on its way "
                "to them would be lost: use --log persistent"
            )
        settings["virtual"] = True
    if sinks is not None:
        if sinks not in SINKS:
            raise UsageError(f"--sinks {sinks}: expected {' or '.join(SINKS)}")
        if sinks == "committed" and (spec is PARTIAL or spec is recompute.SPEC):
            raise UsageError(
                f"--sinks committed shows rows when nobody will go back to before them, and {name} has no such line: "
                "use another protocol, as coordinated, or --sinks eager"
            )
        if sinks == "committed" and settings.get("log") == "volatile":
            raise UsageError(
                "--sinks committed is for exactly once, and with --log volatile rows are lost: use --log persistent, "
                "or --sinks eager"
            )
        settings["sinks"] = sinks
    return spec, settings
