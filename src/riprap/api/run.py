"""`run`: runs an app as processing elements on Spark, with exactly the protection of its plan.

from riprap.api.run import run
result = run("bargain-discovery", {"Source": "market.parquet"}, rate=200_000, kill="Aggregator@10s")
result.summary["streams"]    # tuples sent, received, late, lost and repeated, by stream
result.sink("Sink")          # its rows, as an Arrow table
result                       # in a notebook: the elements and the streams
"""

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from riprap.api.app_inputs import as_graph
from riprap.api.run_options import ResumeOptions, RunOptions
from riprap.api.run_settings import RunSettings, read_settings, resumed_app, settings_of, write_settings
from riprap.base.disk import retry_while_full
from riprap.base.errors import DataError, UsageError
from riprap.base.files import real, write_text
from riprap.base.options import made, takes
from riprap.base.owner import is_empty, owned
from riprap.base.phases import Phases
from riprap.base.quantities import parse_duration
from riprap.engine.input_check import check_columns, check_input
from riprap.engine.input_record import NOTED, Identity, another_input, check_same, identity, read_noted
from riprap.graph.builder import App
from riprap.graph.graph import Graph
from riprap.report.replicas import replicas
from riprap.report.run import element_table, stream_table
from riprap.runtime.coordination.run_summary import positions, read_ledgers
from riprap.runtime.corruption import parse_corruptions
from riprap.runtime.former_shards import shards_of
from riprap.runtime.handover import check_taken_over, hand_over
from riprap.runtime.kills import parse_kills
from riprap.runtime.layout import Layout
from riprap.spark.running import Show, Watch, ready_session, run_on_spark
from riprap.streams import PersistentStream
from riprap.streams.description import is_stream
from riprap.streams.shards import read_table
from riprap.streams.stream_files import LocalFiles

STREAM = "stream:"  # optional prefix of the directory of a persistent stream

Inputs = Mapping[str, str | os.PathLike[str]]  # by source


@dataclass(frozen=True)
class RunResult:
    """The result of a run."""

    directory: Path
    summary: Mapping[str, Any]  # as `--json` prints it

    def sink(self, name: str) -> pa.Table:
        """The rows of a sink, in order; if it has several shards, in the order of their keys."""
        paths = self.summary["sinks"]
        if name not in paths:
            raise UsageError(f"sink {name} does not exist; the sinks are {', '.join(paths)}")
        return read_table(paths[name]["path"])

    def _repr_html_(self) -> str:
        return "".join([element_table(self.summary), stream_table(self.summary), *replicas(self.summary)])


@takes(RunOptions)
def run(
    app: str | App | Graph,
    inputs: Inputs | Callable[[], Inputs],
    *,
    out: Path | str,
    spark: Any = None,
    watch: Watch = lambda state, table: None,
    show: Show = lambda state, lines: None,
    warn: Callable[[str], None] = lambda text: None,
    phases: Phases | None = None,
    **options: Any,
) -> RunResult:
    """Run an app until its inputs end, or for some seconds. `out` is the run's directory, which must not exist.

    `inputs` may be a function that makes them; it is called after all other checks. Options are the fields of
    `riprap.api.run_options.RunOptions`.
    `protocol` is one of `riprap.protocols.registry`; `interval`, `log`, `scope` and `rule` are its settings. `sinks`:
    eager, whose rows can be read at once, or committed, whose rows show once no rollback can undo them. `virtual`:
    elements that did not fail may keep their state when others roll back (uncoordinated, induced). `failover` of HA
    groups: smart, which sends what consumers have not received, or plain, as published. `corrupt` flips bits:
    "Aggregator@10s", in one tuple or in the state with equal probability.
    `stability` of persistent streams: async, group or fsync. `follow`: inputs are persistent streams that are still
    being written; the run lasts until they are marked as ended. `idle`: an input without rows for this long is not
    waited for (`runtime/idle.py`).
    `silence`: the heartbeat timeout; an element that is silent for longer is replaced.
    """
    asked = made(RunOptions, options)
    phases = Phases() if phases is None else phases
    phases.done("imports")
    timeout = _heartbeat_timeout(asked.silence)
    directory = real(out)
    graph = as_graph(app)
    settings = settings_of(app, graph, asked)
    layout = settings.layout(graph)
    idle_after = _idle(settings, layout)
    kills, corruptions = parse_kills(asked.kill, layout), parse_corruptions(asked.corrupt, layout)
    with owned(directory, "run"):
        if not is_empty(directory):
            raise UsageError(f"{out} is not empty: resume the run with --resume {out}, or give another directory")
        input_paths = inputs() if callable(inputs) else inputs
        settings = replace(
            settings, inputs={name: str(_path(path)) for name, path in input_paths.items()}, shards=shards_of(layout)
        )
        _check_inputs(layout, settings.inputs, follow=asked.follow)
        phases.done("inputs")
        noted = {name: _identity(Path(path)) for name, path in settings.inputs.items()}
        session = ready_session(layout, kills, spark=spark, master=asked.master, phases=phases)
        write_settings(directory, settings)
        _note_inputs(directory, noted)
        result = run_on_spark(
            session, layout, settings.inputs, directory, rate=asked.rate, seconds=asked.seconds, kills=kills,
            corruptions=corruptions, tls=asked.tls, stability=settings.stability, follow=asked.follow, idle=idle_after,
            silence=timeout, phases=phases, watch=watch, show=show, warn=warn,
        )  # fmt: skip
        return _stored(directory, result)


@takes(ResumeOptions)
def resume(
    directory: Path | str,
    *,
    app: str | App | Graph | None = None,
    spark: Any = None,
    watch: Watch = lambda state, table: None,
    show: Show = lambda state, lines: None,
    warn: Callable[[str], None] = lambda text: None,
    phases: Phases | None = None,
    **options: Any,
) -> RunResult:
    """Resume a run whose driver was killed or stopped, from its checkpoints and persistent streams.

    `app` is the app of the run: code is never loaded from a directory, so only a bundled app may be left out.
    Options are the fields of `riprap.api.run_options.ResumeOptions`. `parallelism`: new numbers of shards, which `app`
    may also have. Operators with continuous checkpoints can change theirs (`runtime/former_shards.py`).
    """
    asked = made(ResumeOptions, options)
    phases = Phases() if phases is None else phases
    phases.done("imports")
    timeout = _heartbeat_timeout(asked.silence)
    directory = real(directory)
    settings = read_settings(directory)
    graph = resumed_app(directory, settings, app)
    settings, layout, changed = _changed(directory, settings, graph, asked.parallelism)
    idle_after = _idle(settings, layout)
    if any(pe.fragment.copied for pe in layout.pes):
        raise UsageError(
            f"the run in {directory} is under full replication, where copies restore from each other and have no "
            "checkpoints: it cannot be resumed; start a new run, or protect it with checkpoints, a backup or another "
            "`protocol`"
        )
    _check_inputs(layout, settings.inputs, follow=settings.follow)
    kills = parse_kills(asked.kill, layout)
    with owned(directory, "run"):
        _check_same_inputs(directory, layout, settings.inputs)
        if changed:
            write_settings(directory, settings)
        hand_over(directory, layout, settings.stability)
        phases.done("inputs")
        session = ready_session(layout, kills, spark=spark, master=asked.master, phases=phases)
        result = run_on_spark(
            session, layout, settings.inputs, directory, rate=settings.rate,
            seconds=asked.seconds if asked.seconds is not None else settings.seconds, kills=kills, tls=asked.tls,
            stability=settings.stability, follow=settings.follow, idle=idle_after,
            silence=timeout, phases=phases, watch=watch, show=show, warn=warn,
        )  # fmt: skip
        return _stored(directory, result)


def _changed(
    directory: Path, settings: RunSettings, graph: Graph, parallelism: Mapping[str, int]
) -> tuple[RunSettings, Layout, bool]:
    """The settings and the layout with the requested numbers of shards; and whether these changed."""
    requested = replace(settings, parallelism={**settings.parallelism, **parallelism})
    now = shards_of(replace(requested, former=()).layout(graph))
    previous = {name: settings.shards.get(name, shards) for name, shards in now.items()}
    before = replace(settings, parallelism=previous).layout(graph)  # the graph may have other numbers
    if now == previous:
        return settings, before, False
    check_taken_over(directory, before)
    requested = replace(requested, shards=now, former=(*settings.former, previous))
    return requested, requested.layout(graph), True


def _heartbeat_timeout(text: str) -> float:
    seconds = parse_duration(text) / 1e6
    if seconds < 1:
        raise UsageError(f"`silence={text}`: elements send five heartbeats a second; write a time of 1s or more")
    return seconds


def _idle(settings: RunSettings, layout: Layout) -> int | None:
    """Microseconds after which an input is idle; None: it is waited for."""
    if settings.idle is None:
        return None
    after = int(parse_duration(settings.idle))
    if not settings.follow:
        raise UsageError(f"`idle={settings.idle}` is for inputs that are still being written: give `follow` too")
    if after <= 0:
        raise UsageError(
            "`idle=0s`: write the longest time from the _ts of a tuple until it is in the stream, as in 10s"
        )
    for source in layout.graph.sources:
        if source.lateness is not None:
            raise UsageError(
                f"`idle`: source {source.name} has a lateness and holds its rows until later ones arrive: leave one out"
            )
        if any(pe.fragment.replicas > 1 for pe in layout.hosting(source.name)):
            raise UsageError(
                f"`idle`: source {source.name} has replicas, and each would wait on its own: leave one out"
            )
    return after


def _path(text: str | os.PathLike[str]) -> Path:
    return Path(str(text).removeprefix(STREAM)).absolute()


def _check_inputs(layout: Layout, inputs: Mapping[str, str], *, follow: bool) -> None:
    for source in layout.graph.sources:
        if source.name not in inputs:
            raise UsageError(f"no input for source {source.name}; give a file or a persistent stream")
        path = Path(inputs[source.name])
        if not path.exists():
            later = "; `follow` needs an existing stream: start its writer first" if follow else ""
            raise DataError(f"the input of source {source.name}, {path}, does not exist{later}")
        if is_stream(LocalFiles(path)):
            check_columns(PersistentStream.open(path).schema, source)
        elif follow:
            raise UsageError(f"`follow`: the input of source {source.name}, {path}, is not a persistent stream")
        else:
            check_input(path, source)


def _identity(path: Path) -> Identity:
    return (
        {"stream": PersistentStream.open(path).description.id.hex()} if is_stream(LocalFiles(path)) else identity(path)
    )


def _note_inputs(directory: Path, noted: Mapping[str, Identity]) -> None:
    LocalFiles(directory).put(NOTED, json.dumps(noted).encode())


def _check_same_inputs(directory: Path, layout: Layout, inputs: Mapping[str, str]) -> None:
    """Raise if an input is not the one that was read; note what was appended to it."""
    before = read_noted(directory)
    now, grown = dict(before), False
    read = positions(layout, read_ledgers(directory, layout)) if before else {}
    for source, path in ((name, Path(inputs[name])) for name in before if name in inputs):
        noted = before[source]
        if "stream" not in noted and not is_stream(LocalFiles(path)):
            if check_same(directory, source, path, noted):
                now[source], grown = identity(path), True
            continue
        current = _identity(path)
        if current.get("stream") != noted.get("stream"):
            raise another_input(source, path, "it is another stream" if "stream" in current else "it was a stream")
        available, already_read = (
            PersistentStream.open(path).stable().position,
            max((n for (_, s), n in read.items() if s == source), default=0),
        )
        if available < already_read:
            raise another_input(source, path, f"it has {available:,} rows, and {already_read:,} were read")
    if grown:
        _note_inputs(directory, now)


def _stored(directory: Path, result: dict[str, Any]) -> RunResult:
    text, path = json.dumps(result, indent=2, ensure_ascii=False) + "\n", directory / "summary.json"
    retry_while_full(lambda: write_text(path, text), path)
    return RunResult(directory, result)
