"""What every processing element has to know about its run. It is pickled to the tasks.

The run's directory is on a file system that all executors share:

    run.json          how the run was started, for `--resume`
    inputs.json       a description of the inputs, and inputs/PE/SOURCE what was read (`engine/input_record.py`)
    .owner            the process that drives the run, locked while it does (`base/owner.py`)
    streams/          the persistent streams, one directory each
    sinks/NAME        the output of a sink, a persistent stream
    checkpoints/PE/   checkpoints of an element
    ledgers/PE        the counters of an element, in a form that outlives its process
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
    """PEM texts. Every endpoint presents the one certificate of the run, and every client trusts it."""

    certificate: bytes
    key: bytes = field(repr=False)


@dataclass(frozen=True)
class Run:
    directory: Path
    layout: Layout
    inputs: Mapping[str, str]  # by source: a Parquet or Arrow file, or the directory of a persistent stream
    coordinator: str  # Flight location
    token: str = field(repr=False)  # required by every endpoint
    host: str  # address that elements bind to: 127.0.0.1 on a loopback master; "": the one that reaches the coordinator
    tls: Tls | None = None
    rate: Rates = None  # tuples/s of each source, or by source; None: unlimited
    batch_rows: int = 65_536  # most rows in one call of the engine
    buffer_bytes: int = 4 << 20  # most bytes that wait on one channel at its receiver
    heartbeat: float = 0.2  # seconds between heartbeats
    follow: bool = False  # inputs are streams that are still being written
    idle: int | None = None  # microseconds after which such an input is idle (`idle.py`); None: merges wait for it
    stability: Stability = "async"  # default for persistent streams
    begun_at: int = 0  # wall clock, microseconds, when the run was started or resumed: latencies count from there

    def stability_of(self, channel: ChannelId) -> Stability:
        """The stability of the persistent stream of a channel, or of a sink."""
        layout = self.layout
        owner = layout.sink(channel) or layout.stream(channel).source
        return layout.graph[owner].annotations.stability or self.stability


def stream_path(directory: Path, channel: ChannelId) -> Path:
    """The path of the persistent stream of a channel between operators, whether they share an element or not."""
    name = quote(channel.stream.replace("→", "--"), safe="")
    return directory / "streams" / name / f"{channel.source}-{channel.target}"
