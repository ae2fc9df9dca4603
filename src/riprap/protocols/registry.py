"""All protocols, by name."""

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
DEFAULT = PARTIAL  # without a protocol for the whole run, each operator has the protection of its plan
BOUNDED = recompute.SPEC  # meets a recovery bound
LOGS = ("persistent", "volatile")
FAILOVERS = ("smart", "plain")  # of HA groups
SCOPES = ("cycles", "all")
RULES = tuple(induced.RULES)


def protocol(name: str) -> ProtocolSpec:
    if name not in REGISTRY:
        raise UsageError(f"unknown protocol {name}: {known(REGISTRY, name)}")
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
    """The protocol that a user selects, with its settings; raises `UsageError` for incompatible options."""
    spec = protocol(name)
    if failover not in FAILOVERS:
        raise UsageError(f"`failover={failover}`: expected {' or '.join(FAILOVERS)}")
    settings: dict[str, Any] = {} if failover == FAILOVERS[0] else {"failover": failover}
    if spec is PARTIAL and (interval, log, scope, rule) != (None, None, None, None):
        raise UsageError(
            "`interval`, `log`, `scope` and `rule` belong to other protocols: partial uses its plan instead"
        )
    if interval is not None:
        settings["interval"] = parse_duration(interval)
        if settings["interval"] < 1:
            raise UsageError(f"`interval={interval}`: checkpoints need a time between them, as in 10s")
    if log is not None:
        if log not in LOGS:
            raise UsageError(f"`log={log}`: expected {' or '.join(LOGS)}")
        if spec.retention[0] != "log":
            raise UsageError(f"`log` is for uncoordinated and induced: {name} holds items in flight")
        if spec is repeat.SPEC and log == "volatile":
            raise UsageError("`log=volatile`: repeat replays its logs, so they must be persistent; use uncoordinated")
        settings["log"] = log
        if log == "volatile":
            spec = replace(spec, retention=("hold", "hold"), lossy=True)
    for key, value, choices in (("scope", scope, SCOPES), ("rule", rule, RULES)):
        if value is not None:
            if value not in choices:
                raise UsageError(f"`{key}={value}`: expected {' or '.join(choices)}")
            if spec.name != "induced":
                raise UsageError(f"`{key}` is for induced: {name} forces no checkpoints")
            settings[key] = value
    if virtual:
        if spec.name not in ("uncoordinated", "induced"):
            raise UsageError(f"`virtual` is for uncoordinated and induced: {name} computes no recovery line")
        if settings.get("log") == "volatile":
            raise UsageError(
                "`virtual` does not roll back elements that did not fail, and with `log=volatile` items in flight to "
                "them would be lost: use `log=persistent`"
            )
        settings["virtual"] = True
    if sinks is not None:
        if sinks not in SINKS:
            raise UsageError(f"`sinks={sinks}`: expected {' or '.join(SINKS)}")
        if sinks == "committed" and (spec is PARTIAL or spec is recompute.SPEC):
            raise UsageError(
                f"`sinks=committed` shows rows once no rollback can undo them, and {name} does not commit checkpoints: "
                "use another protocol, such as coordinated, or `sinks=eager`"
            )
        if sinks == "committed" and settings.get("log") == "volatile":
            raise UsageError(
                "`sinks=committed` is for exactly once, but `log=volatile` loses rows: use `log=persistent`, or "
                "`sinks=eager`"
            )
        settings["sinks"] = sinks
    return spec, settings
