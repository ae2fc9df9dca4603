"""What every processing element has to know about the run it belongs to. Shipped to the tasks as it is.

The run's directory lies where every executor reaches it:

    run.json          how the run was started, for `--resume`
    inputs.json       what its inputs say of themselves, and inputs/PE/SOURCE what was read (`engine/input_record.py`)
    .owner            the process that drives the run, locked while it does (`base/owner.py`)
    streams/          the persistent streams, one directory each
    sinks/NAME        what came out at a sink, a persistent stream
    checkpoints/PE/   checkpoints of an element
    ledgers/PE        what an element counted, in a form that outlives its process
    metrics.jsonl     the live table, a line per element and second
    summary.json      the numbers at the end
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from riprap.graph.annotations import Stability
from riprap.protocols.channels import ChannelId
from riprap.runtime.host import Rates
from riprap.runtime.layout import Layout


@dataclass(frozen=True)
class Tls:
    """PEM texts. One certificate, made for the run, is presented by every endpoint and trusted by every client."""

    certificate: bytes
    key: bytes = field(repr=False)


@dataclass(frozen=True)
class Run:
    directory: Path
    layout: Layout
    inputs: Mapping[str, str]  # by source: a Parquet or Arrow file, or the directory of a persistent stream
    coordinator: str  # Flight location
    token: str = field(repr=False)  # required by every endpoint
    host: str  # address that elements bind to: 127.0.0.1 on a loopback master, else ""; then the one that reaches the
    # coordinator is found
    tls: Tls | None = None
    rate: Rates = None  # tuples/s of each source, or by source; None: as fast as they are taken
    batch_rows: int = 65_536  # most rows in one call of the engine
    buffer_bytes: int = 4 << 20  # most bytes that wait on one channel at its receiver
    heartbeat: float = 0.2  # seconds between signs of life
    follow: bool = False  # inputs are streams that are still being written
    idle: int | None = None  # microseconds after which such an input is idle (`idle.py`); None: it is waited for
    stability: Stability = "async"  # of persistent streams, where their operator does not say
    begun_at: int = 0  # wall clock, microseconds, when this part of the run began: latencies are of what came since

    def stability_of(self, channel: ChannelId) -> Stability:
        """Of the persistent stream of a channel, or of a sink."""
        layout = self.layout
        owner = layout.sink(channel) or layout.stream(channel).source
        return layout.graph[owner].annotations.stability or self.stability


def stream_path(directory: Path, channel: ChannelId) -> Path:
    """Where the persistent stream of a channel between operators lies, whether they share an element or not."""
    name = quote(channel.stream.replace("→", "--"), safe="")
    return directory / "streams" / name / f"{channel.source}-{channel.target}"
