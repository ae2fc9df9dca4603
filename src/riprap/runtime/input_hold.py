"""An element registers as a reader of the persistent streams that it reads, so that no rows it may need are trimmed.

It holds each stream from the row that a restart would read first: that of its oldest checkpoint, as reported by the
director, or the next row if a restart resumes at the current position. A registration outlives the process and the run,
which can be resumed; the driver releases all of them when the inputs have been read to the end.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

import xxhash

from riprap.graph.specs import Source
from riprap.runtime.layout import Layout, Pe
from riprap.runtime.logs import reader_of
from riprap.runtime.run_context import Run
from riprap.streams import PersistentStream
from riprap.streams.description import DESCRIPTION


def input_streams(inputs: Mapping[str, str]) -> dict[str, PersistentStream]:
    """By source, the inputs that are persistent streams."""
    return {name: PersistentStream.open(path) for name, path in inputs.items() if (Path(path) / DESCRIPTION).exists()}


class InputHold:
    """Of one element, in one process."""

    def __init__(self, run: Run, pe: Pe, warn: Callable[[str], None]) -> None:
        self._run = str(run.directory.absolute())
        self._name = f"run-{xxhash.xxh3_64_hexdigest(self._run.encode())}-{reader_of(pe.id)}"
        own = {name: run.inputs[name] for name in run.inputs if name in pe.fragment.members}
        self._streams = input_streams(own)
        self._plan = run.layout.plan(pe)
        self._needed: dict[str, int] = {}
        for source, stream in list(self._streams.items()):
            try:
                if self._name not in stream.readers():
                    stream.register_reader(self._name, stream.first_position(), run=self._run)
            except OSError as error:
                del self._streams[source]
                warn(
                    f"the run cannot register as a reader of {own[source]} ({error.strerror}), so trimming that stream "
                    "may delete rows that it needs again; give it write access there"
                )
        self._sorted = {name for name in own if _sorts(run.layout, name)}

    def release(self, positions: Mapping[str, int]) -> None:
        """By source: rows before this one will not be read again."""
        for source, position in positions.items():
            if source in self._streams and source not in self._sorted and position > self._needed.get(source, 0):
                self._needed[source] = position
                self._streams[source].register_reader(self._name, position, run=self._run)

    def passed(self, positions: Mapping[str, int]) -> None:
        """By source: rows read; they are released if a restart resumes at the current position."""
        if not self._plan.whole:
            self.release(positions)


def _sorts(layout: Layout, name: str) -> bool:
    """Whether a source reads its input from the start after a restart."""
    spec = layout.graph[name]
    return isinstance(spec, Source) and spec.lateness is not None


def release_inputs(directory: Path, inputs: Mapping[str, str]) -> None:
    """Release all inputs: the run has read them to the end."""
    run = str(directory.absolute())
    for stream in input_streams(inputs).values():
        for name, holder in stream.held_by().items():
            if holder == run:
                stream.unregister_reader(name)
