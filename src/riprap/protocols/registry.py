"""Protocols by name: the one list of them."""

from collections.abc import Mapping

from riprap.base.errors import UsageError, known
from riprap.protocols.partial import PARTIAL
from riprap.protocols.protocol import ProtocolSpec

REGISTRY: Mapping[str, ProtocolSpec] = {spec.name: spec for spec in (PARTIAL,)}


def protocol(name: str) -> ProtocolSpec:
    if name not in REGISTRY:
        raise UsageError(f"no protocol is called {name}; there are {known(REGISTRY, name)}")
    return REGISTRY[name]
