"""Prepares the data on disk for another number of shards. The driver runs it before the elements start.

A process that still writes the log of an old shard is fenced, and the log is ended, so that consumers reach its end.
The logs of the input are retained for the new shards as they were for the old ones. Ledgers get their new shape. Each
step is idempotent, since a driver may have been killed in between.
"""

from pathlib import Path
from urllib.parse import quote

from riprap.base.clock import SYSTEM_CLOCK
from riprap.base.errors import UsageError
from riprap.graph.annotations import Stability
from riprap.graph.order_keys import END_KEY
from riprap.protocols.channels import ChannelId
from riprap.runtime.element.ledger import ledger_shape, reshape_ledger
from riprap.runtime.element.records import log_of
from riprap.runtime.former_shards import ENDING
from riprap.runtime.layout import Layout, Pe
from riprap.runtime.logs import LogSender, open_log, reader_of
from riprap.runtime.messages import Message, MessageKind
from riprap.runtime.run_context import stream_path
from riprap.runtime.stored_history import StoredLogs


def hand_over(directory: Path, layout: Layout, stability: Stability) -> None:
    """Hand over from the shards of `layout.before` to those of the layout, if any have changed."""
    old = layout.before
    if old is None:
        return
    for shard in old.pes:
        if _changed(layout, shard):
            for channel in old.outputs(shard):
                _end(directory, old, channel, stability)
    _transfer_readers(directory, layout, old)
    ids = {pe.id: pe for pe in old.pes}
    for pe in layout.pes:
        if pe.id in ids:
            ledgers = directory / "ledgers" / quote(pe.id, safe="")
            reshape_ledger(ledgers, ledger_shape(old, ids[pe.id]), ledger_shape(layout, pe))


def check_taken_over(directory: Path, layout: Layout) -> None:
    """Raise if shards have yet to take over from former ones: others could not take over from them."""
    logs = StoredLogs(directory, layout)
    for pe in layout.pes:
        if layout.change(pe.fragment) is not None and next(iter(logs.records(log_of(layout, pe))), None) is None:
            shards = pe.fragment.shards
            raise UsageError(
                f"{pe.id} has yet to take over from the former shards of {pe.fragment.name}: resume with {shards} "
                f"shard{'s' * (shards != 1)} of it once more, and change their number when it has"
            )


def _changed(layout: Layout, shard: Pe) -> bool:
    """Whether a shard of the former layout was replaced."""
    return any(layout.change(fragment) == shard.fragment for fragment in layout.fragments)


def _end(directory: Path, old: Layout, channel: ChannelId, stability: Stability) -> None:
    if any(message.watermark == END_KEY for message in StoredLogs(directory, old).last(channel)):
        return
    stability = old.graph[old.stream(channel).source].annotations.stability or stability
    log = LogSender(stream_path(directory, channel), channel, old.schema(channel), ENDING, stability=stability)
    log.append(Message(MessageKind.END, ENDING, log.next, watermark=END_KEY))
    log.flush()
    log.close()


def _transfer_readers(directory: Path, layout: Layout, old: Layout) -> None:
    """Register the new readers of each input log from where the old ones need it, and unregister the old ones."""
    former: dict[ChannelId, set[str]] = {}
    for shard in old.pes:
        if _changed(layout, shard):
            for channel in old.inputs(shard):
                former.setdefault(old.written(channel), set()).add(reader_of(shard.id))
    for pe in layout.pes:
        for channel in layout.inputs(pe) if layout.change(pe.fragment) is not None else ():
            written = layout.written(channel)
            stream = open_log(stream_path(directory, written), layout.schema(channel), clock=SYSTEM_CLOCK)
            readers = stream.readers()
            needed = [position for name, position in readers.items() if name in former[written]]
            if needed and reader_of(pe.id) not in readers:
                stream.register_reader(reader_of(pe.id), min(needed))
    for written, names in former.items():
        stream = open_log(stream_path(directory, written), layout.schema(written), clock=SYSTEM_CLOCK)
        for name in names & stream.readers().keys():
            stream.unregister_reader(name)
