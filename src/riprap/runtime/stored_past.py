"""What a run has on disk, where it lies, and how it is read again by an element that is not its owner."""

from collections.abc import Callable, Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

from riprap.base.clock import Clock
from riprap.checkpoints.load import Loaded, load
from riprap.checkpoints.storage import LocalStorage
from riprap.engine.pruning import wanted_columns
from riprap.graph.specs import Source
from riprap.protocols.channels import ChannelId
from riprap.protocols.protocol import WHOLE
from riprap.runtime.feed import Feed
from riprap.runtime.hosting import Arrival
from riprap.runtime.layout import Pe
from riprap.runtime.logs import open_log, stored_messages
from riprap.runtime.run import Run
from riprap.runtime.spill import LogSpill


def log_path(run: Run, channel: ChannelId) -> Path:
    """Where the persistent stream of a channel lies; a sink's has its name."""
    sink, shards = run.layout.sink(channel), f"{channel.source}-{channel.target}"
    if sink is not None:
        path = run.directory / "sinks" / sink
        return path if run.layout.graph[sink].parallelism == 1 else path / str(channel.source)
    return run.directory / "streams" / quote(channel.stream.replace("→", "--"), safe="") / shards


def feed_of(run: Run, pe: Pe, source: str, position: int) -> Feed:
    """The input of a source, with the columns that its element needs."""
    graph = run.layout.graph
    columns = wanted_columns(graph, frozenset(pe.fragment.members))[source][0]
    path, spec, shards = run.inputs[source], cast(Source, graph[source]), pe.fragment.shards
    return Feed(path, spec, columns, position, follow=run.follow, shard=pe.shard, shards=shards)


class StoredPast:
    """For one life, which recomputes what others gave out."""

    def __init__(self, run: Run, epoch: int, clock: Clock) -> None:
        self._run, self._epoch, self._clock = run, epoch, clock
        self._storage = LocalStorage(run.directory / "checkpoints")
        self._spills = count()

    def checkpoint(self, pe: str, fits: Callable[[Mapping[str, Any]], bool]) -> Loaded | None:
        return load(self._storage, pe, WHOLE, self._clock.now(), fits=fits)

    def logged(self, channel: ChannelId, position: int) -> Iterator[Arrival]:
        stream = open_log(log_path(self._run, channel), self._run.layout.schema(channel))
        items = stream.read(from_position=position, marks=True)
        return (Arrival(channel, message, behind) for message, behind in stored_messages(items))

    def feed(self, pe: Pe, source: str, position: int) -> Feed:
        return feed_of(self._run, pe, source, position)

    def spill(self, channel: ChannelId) -> LogSpill:
        name = f"{quote(str(channel), safe='')}-{self._epoch}-recomputed-{next(self._spills)}"
        return LogSpill(self._run.directory / "spills" / name, channel, self._run.layout.schema(channel))
