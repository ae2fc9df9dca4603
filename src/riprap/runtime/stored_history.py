"""The data of a run on disk: paths, and readers for elements that do not own it."""

from collections.abc import Callable, Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

from riprap.base.clock import Clock
from riprap.checkpoints.load import Loaded, load
from riprap.checkpoints.storage import LocalStorage
from riprap.engine.input_record import Reading, check_same, read_noted
from riprap.graph.specs import Source
from riprap.protocols.channels import ChannelId
from riprap.protocols.protocol import WHOLE
from riprap.runtime.feed import Feed
from riprap.runtime.host import Arrival
from riprap.runtime.idle import IdleFeed, IdleLog
from riprap.runtime.layout import Layout, Pe
from riprap.runtime.logs import open_log, stored_messages
from riprap.runtime.messages import Message
from riprap.runtime.run_context import Run, stream_path
from riprap.runtime.spill import LogSpill
from riprap.runtime.stored_text import StoredText
from riprap.streams import PersistentStream


def log_path(run: Run, channel: ChannelId) -> Path:
    """The path of the persistent stream of a channel; that of a sink has the sink's name."""
    sink = run.layout.sink(channel)
    if sink is not None:
        path = run.directory / "sinks" / sink
        return path if run.layout.graph[sink].parallelism == 1 else path / str(channel.source)
    return stream_path(run.directory, run.layout.written(channel))


class StoredLogs:
    """Persistent streams between elements, for a shard that takes over from others (`takeover.py`)."""

    def __init__(self, directory: Path, layout: Layout) -> None:
        self._directory, self._layout = directory, layout

    def _stream(self, channel: ChannelId) -> PersistentStream:
        return open_log(stream_path(self._directory, channel), self._layout.schema(channel))

    def records(self, channel: ChannelId) -> Iterator[bytes]:
        return (record.payload for record in self._stream(channel).records_backwards())

    def messages(self, channel: ChannelId, position: int) -> Iterator[tuple[Message, int]]:
        return stored_messages(self._stream(channel).read(from_position=position, marks=True))

    def last(self, channel: ChannelId) -> list[Message]:
        stream = self._stream(channel)
        start = max(stream.stable().position - 1, stream.first_position())
        return [message for message, _ in stored_messages(stream.read(from_position=start, marks=True))]


def feed_of(run: Run, pe: Pe, source: str, position: int, clock: Clock, *, own: bool) -> Feed | IdleFeed:
    """The input of a source, with the columns that are read. `own`: in the source's own element."""
    graph = run.layout.graph
    columns = run.layout.wanted[source][0]
    path, spec, shards = run.inputs[source], cast(Source, graph[source]), pe.fragment.shards
    noted = read_noted(run.directory).get(source, {})
    if "files" in noted:
        check_same(run.directory, source, Path(path), noted)  # it may have been replaced during the run
    note: dict[str, Any] = {}
    if own and pe.shard == 0 and "files" in noted:
        note["note"] = Reading(run.directory, pe.id, source).part
    feed = Feed(path, spec, columns, position, follow=run.follow, shard=pe.shard, shards=shards, **note)
    if run.idle is None:
        return feed
    log = IdleLog(run.directory / "idle" / quote(pe.id, safe="") / quote(source, safe=""), own=own)
    return IdleFeed(feed, spec.rank, log, run.idle, clock, own=own)


class StoredAncestors:
    """For an incarnation that recomputes the output of others."""

    def __init__(self, run: Run, epoch: int, clock: Clock) -> None:
        self._run, self._epoch, self._clock = run, epoch, clock
        self._storage = LocalStorage(run.directory / "checkpoints")
        self._spills = count()

    def checkpoint(self, pe: str, fits: Callable[[Mapping[str, Any]], bool]) -> Loaded | None:
        return load(self._storage, pe, WHOLE, self._clock.now(), fits=fits)

    def logged(self, channel: ChannelId, position: int) -> Callable[[], Arrival | None]:
        stream = open_log(log_path(self._run, channel), self._run.layout.schema(channel))
        reader = stream.read(from_position=position, marks=True)
        text = StoredText()
        messages = stored_messages(reader, text)

        def following() -> Arrival | None:
            nonlocal messages
            stored = next(messages, None)
            if stored is None:
                messages = stored_messages(reader.again(), text)
                return None
            return Arrival(channel, *stored)

        return following

    def feed(self, pe: Pe, source: str, position: int) -> Feed | IdleFeed:
        return feed_of(self._run, pe, source, position, self._clock, own=False)

    def spill(self, channel: ChannelId) -> LogSpill:
        name = f"{quote(str(channel), safe='')}-{self._epoch}-recomputed-{next(self._spills)}"
        return LogSpill(self._run.directory / "spills" / name, channel, self._run.layout.schema(channel))
