"""`run`: runs an app as processing elements on Spark, with exactly the protection of its plan.

from riprap.api.run import run
result = run("bargain-discovery", {"Source": "market.parquet"}, rate=200_000, kill="Aggregator@10s")
result.summary["streams"]    # tuples sent, received, late, lost and repeated, by stream
result.sink("Sink")          # its rows, as an Arrow table
result                       # in a notebook: the elements and the streams
"""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, cast, get_args

import pyarrow as pa

from riprap.api.app_inputs import as_graph
from riprap.apps.catalogue import BUNDLED
from riprap.base.disk import retry_while_full
from riprap.base.documents import read_json, shortened
from riprap.base.errors import DataError, UsageError
from riprap.base.files import exists, real, write_text
from riprap.base.owner import is_empty, owned
from riprap.base.phases import Phases
from riprap.base.quantities import parse_duration
from riprap.engine.input_check import check_columns, check_input
from riprap.engine.input_record import NOTED, Identity, another_input, check_same, identity, read_noted
from riprap.graph.annotations import Stability
from riprap.graph.builder import App
from riprap.graph.graph import Graph
from riprap.graph.plan_file import parse_plan, plan_text
from riprap.protocols.commitment import SINKS
from riprap.protocols.registry import FAILOVERS, LOGS, REGISTRY, RULES, SCOPES
from riprap.report.replicas import replicas
from riprap.report.run import element_table, stream_table
from riprap.runtime.coordination.run_summary import positions, read_ledgers
from riprap.runtime.corruption import parse_corruptions
from riprap.runtime.former_shards import shards_of
from riprap.runtime.fusion import Fuse
from riprap.runtime.handover import check_taken_over, hand_over
from riprap.runtime.host import Rates
from riprap.runtime.kills import parse_kills
from riprap.runtime.layout import Layout
from riprap.runtime.planned import planned_layout
from riprap.spark.running import Show, Watch, ready_session, run_on_spark
from riprap.streams import PersistentStream
from riprap.streams.description import is_stream
from riprap.streams.shards import read_table
from riprap.streams.stream_files import LocalFiles

_FORMAT = 2  # of run.json
STREAM = "stream:"  # optional prefix of the directory of a persistent stream

Inputs = Mapping[str, str | os.PathLike[str]]  # by source


@dataclass(frozen=True)
class RunSettings:
    """The content of `run.json`, with which a run is resumed."""

    app: str  # the name of a bundled app; "": the user's own app, which must be given again
    graph: str  # its fingerprint
    plan: str | None  # TOML
    fuse: Fuse
    parallelism: Mapping[str, int]
    inputs: Mapping[str, str]
    rate: Rates  # tuples/s of each source, or by source
    seconds: float | None
    protocol: str = "partial"
    interval: str | None = None  # checkpoint interval of protocols other than partial
    log: str | None = None  # persistent or volatile
    scope: str | None = None  # of induced
    rule: str | None = None  # of induced
    stability: Stability = "async"  # of persistent streams, unless set in the plan
    follow: bool = False  # inputs are streams that are still being written
    idle: str | None = None  # an input without rows for this long is not waited for
    failover: str = FAILOVERS[0]  # of HA groups
    sinks: str | None = None  # eager or committed
    virtual: bool = False  # a recovery line may contain the live state of elements that did not fail
    shards: Mapping[str, int] = field(default_factory=dict)  # of every operator
    former: Sequence[Mapping[str, int]] = ()  # the same before each change

    def layout(self, graph: Graph) -> Layout:
        return planned_layout(
            graph, None if self.plan is None else parse_plan(self.plan), self.fuse, self.parallelism,
            protocol=self.protocol, interval=self.interval, log=self.log, scope=self.scope, rule=self.rule,
            failover=self.failover, sinks=self.sinks, virtual=self.virtual, former=self.former,
        )  # fmt: skip


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


def run(
    app: str | App | Graph,
    inputs: Inputs | Callable[[], Inputs],
    *,
    out: Path | str,
    plan: Path | str | None = None,
    fuse: Fuse = "auto",
    parallelism: Mapping[str, int] | None = None,
    rate: Rates = None,
    seconds: float | None = None,
    protocol: str = "partial",
    interval: str | None = None,
    log: str | None = None,
    scope: str | None = None,
    rule: str | None = None,
    stability: Stability = "async",
    follow: bool = False,
    idle: str | None = None,
    failover: str = FAILOVERS[0],
    sinks: str | None = None,
    virtual: bool = False,
    kill: str | None = None,
    corrupt: str | None = None,
    silence: str = "3s",
    tls: bool = False,
    spark: Any = None,
    master: str | None = None,
    watch: Watch = lambda state, table: None,
    show: Show = lambda state, lines: None,
    warn: Callable[[str], None] = lambda text: None,
    phases: Phases | None = None,
) -> RunResult:
    """Run an app until its inputs end, or for some seconds. `out` is the run's directory, which must not exist.

    `inputs` may be a function that makes them; it is called after all other checks.
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
    phases = Phases() if phases is None else phases
    phases.done("imports")
    timeout = _heartbeat_timeout(silence)
    directory = real(out)
    graph = as_graph(app)
    settings = RunSettings(
        bundled(app),
        graph.fingerprint,
        plan_text(plan) if plan is not None else None,
        fuse,
        dict(parallelism or {}),
        {},
        rate,
        seconds,
        protocol,
        interval,
        log,
        scope,
        rule,
        _stability(stability),
        follow,
        idle,
        failover,
        sinks,
        virtual,
    )
    layout = settings.layout(graph)
    idle_after = _idle(settings, layout)
    kills, corruptions = parse_kills(kill, layout), parse_corruptions(corrupt, layout)
    with owned(directory, "run"):
        if not is_empty(directory):
            raise UsageError(f"{out} is not empty: resume the run with --resume {out}, or give another directory")
        input_paths = inputs() if callable(inputs) else inputs
        settings = replace(
            settings, inputs={name: str(_path(path)) for name, path in input_paths.items()}, shards=shards_of(layout)
        )
        _check_inputs(layout, settings.inputs, follow=follow)
        phases.done("inputs")
        noted = {name: _identity(Path(path)) for name, path in settings.inputs.items()}
        session = ready_session(layout, kills, spark=spark, master=master, phases=phases)
        _write(directory, settings)
        _note_inputs(directory, noted)
        result = run_on_spark(
            session, layout, settings.inputs, directory, rate=rate, seconds=seconds, kills=kills,
            corruptions=corruptions, tls=tls, stability=settings.stability, follow=follow, idle=idle_after,
            silence=timeout, phases=phases, watch=watch, show=show, warn=warn,
        )  # fmt: skip
        return _stored(directory, result)


def resume(
    directory: Path | str,
    *,
    app: str | App | Graph | None = None,
    parallelism: Mapping[str, int] | None = None,
    seconds: float | None = None,
    kill: str | None = None,
    silence: str = "3s",
    tls: bool = False,
    spark: Any = None,
    master: str | None = None,
    watch: Watch = lambda state, table: None,
    show: Show = lambda state, lines: None,
    warn: Callable[[str], None] = lambda text: None,
    phases: Phases | None = None,
) -> RunResult:
    """Resume a run whose driver was killed or stopped, from its checkpoints and persistent streams.

    `app` is the app of the run: code is never loaded from a directory, so only a bundled app may be left out.
    `parallelism`: new numbers of shards, which `app` may also have. Operators with continuous checkpoints can change
    theirs (`runtime/former_shards.py`).
    """
    phases = Phases() if phases is None else phases
    phases.done("imports")
    timeout = _heartbeat_timeout(silence)
    directory = real(directory)
    settings = read_settings(directory)
    graph = resumed_app(directory, settings, app)
    settings, layout, changed = _changed(directory, settings, graph, parallelism or {})
    idle_after = _idle(settings, layout)
    if any(pe.fragment.copied for pe in layout.pes):
        raise UsageError(
            f"the run in {directory} is under full replication, where copies restore from each other and have no "
            "checkpoints: it cannot be resumed; start a new run, or protect it with checkpoints, a backup or another "
            "--protocol"
        )
    _check_inputs(layout, settings.inputs, follow=settings.follow)
    kills = parse_kills(kill, layout)
    with owned(directory, "run"):
        _check_same_inputs(directory, layout, settings.inputs)
        if changed:
            _write(directory, settings)
        hand_over(directory, layout, settings.stability)
        phases.done("inputs")
        session = ready_session(layout, kills, spark=spark, master=master, phases=phases)
        result = run_on_spark(
            session, layout, settings.inputs, directory, rate=settings.rate,
            seconds=seconds if seconds is not None else settings.seconds, kills=kills, tls=tls,
            stability=settings.stability, follow=settings.follow, idle=idle_after,
            silence=timeout, phases=phases, watch=watch, show=show, warn=warn,
        )  # fmt: skip
        return _stored(directory, result)


def read_settings(directory: Path) -> RunSettings:
    path = real(directory) / "run.json"
    if not exists(path):
        raise DataError(f"{directory} is not the directory of a run: it has no run.json")
    data = read_json(path, "the settings of the run in", own=True)
    if not isinstance(data, dict) or data.pop("format", None) != _FORMAT:
        raise DataError(f"{path} is not of a run, or of another version of riprap; this version reads format {_FORMAT}")
    for name, fits in _SHAPE.items():
        if name not in data:
            raise DataError(f"{path} is damaged: it has no {name}; start a new run")
        if not fits(data[name]):
            raise DataError(f"{path} is damaged: {name} is {shortened(data[name])}; start a new run")
    return RunSettings(**{name: data[name] for name in _SHAPE})


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


def _write(directory: Path, settings: RunSettings) -> None:
    text = json.dumps({"format": _FORMAT, **asdict(settings)}, indent=2) + "\n"
    LocalFiles(directory).put("run.json", text.encode())


def resumed_app(directory: Path, settings: RunSettings, app: str | App | Graph | None) -> Graph:
    """The app of a run: the given one, or a bundled one; raises if it is not the app that the run started with."""
    if app is None and settings.app not in BUNDLED:
        raise UsageError(
            f"the run in {directory} is of your own app, and code is never loaded from a directory: give the app "
            f"again, as in riprap run --resume {directory} --app module:attribute"
        )
    graph = as_graph(settings.app if app is None else app)
    if graph.fingerprint != settings.graph:
        raise UsageError(
            f"{graph.name} is not the app that the run in {directory} started with: its graph differs; give the app as "
            "it was, or start a new run"
        )
    return graph


def bundled(app: str | App | Graph) -> str:
    """The name of a bundled app; "" for a user's app."""
    return app if isinstance(app, str) and app in BUNDLED else ""


def _stability(text: str) -> Stability:
    if text not in get_args(Stability):
        raise UsageError(f"--stability {text}: expected one of {', '.join(get_args(Stability))}")
    return cast(Stability, text)


def _heartbeat_timeout(text: str) -> float:
    seconds = parse_duration(text) / 1e6
    if seconds < 1:
        raise UsageError(f"--silence {text}: elements send five heartbeats a second; write a time of 1s or more")
    return seconds


def _idle(settings: RunSettings, layout: Layout) -> int | None:
    """Microseconds after which an input is idle; None: it is waited for."""
    if settings.idle is None:
        return None
    after = int(parse_duration(settings.idle))
    if not settings.follow:
        raise UsageError(f"--idle {settings.idle} is for inputs that are still being written: give --follow too")
    if after <= 0:
        raise UsageError(
            "--idle 0s: write the longest time from the _ts of a tuple until it is in the stream, as in 10s"
        )
    for source in layout.graph.sources:
        if source.lateness is not None:
            raise UsageError(
                f"--idle: source {source.name} has a lateness and holds its rows until later ones arrive: leave one out"
            )
        if any(pe.fragment.replicas > 1 for pe in layout.hosting(source.name)):
            raise UsageError(
                f"--idle: source {source.name} has replicas, and each would wait on its own: leave one out"
            )
    return after


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1e15


# Checks of the entries of `run.json`.
_SHAPE: Mapping[str, Callable[[Any], bool]] = {
    "app": lambda value: value == "" or (isinstance(value, str) and value in BUNDLED),
    "graph": lambda value: isinstance(value, str),
    "plan": lambda value: value is None or isinstance(value, str),
    "fuse": lambda value: value in get_args(Fuse),
    "parallelism": lambda value: isinstance(value, dict) and all(type(n) is int and n >= 1 for n in value.values()),
    "inputs": lambda value: isinstance(value, dict) and all(isinstance(path, str) for path in value.values()),
    "rate": lambda value: value is None or all(map(_is_number, value.values() if isinstance(value, dict) else [value])),
    "seconds": lambda value: value is None or _is_number(value),
    "protocol": lambda value: isinstance(value, str) and value in REGISTRY,
    "interval": lambda value: value is None or isinstance(value, str),
    "log": lambda value: value is None or value in LOGS,
    "scope": lambda value: value is None or value in SCOPES,
    "rule": lambda value: value is None or value in RULES,
    "stability": lambda value: value in get_args(Stability),
    "follow": lambda value: isinstance(value, bool),
    "idle": lambda value: value is None or isinstance(value, str),
    "failover": lambda value: value in FAILOVERS,
    "sinks": lambda value: value is None or value in SINKS,
    "virtual": lambda value: isinstance(value, bool),
    "shards": lambda value: isinstance(value, dict) and all(type(n) is int and n >= 1 for n in value.values()),
    "former": lambda value: isinstance(value, list) and all(map(_SHAPE["shards"], value)),
}


def _path(text: str | os.PathLike[str]) -> Path:
    return Path(str(text).removeprefix(STREAM)).absolute()


def _check_inputs(layout: Layout, inputs: Mapping[str, str], *, follow: bool) -> None:
    for source in layout.graph.sources:
        if source.name not in inputs:
            raise UsageError(f"no input for source {source.name}; give a file or a persistent stream")
        path = Path(inputs[source.name])
        if not path.exists():
            later = "; --follow needs an existing stream: start its writer first" if follow else ""
            raise DataError(f"the input of source {source.name}, {path}, does not exist{later}")
        if is_stream(LocalFiles(path)):
            check_columns(PersistentStream.open(path).schema, source)
        elif follow:
            raise UsageError(f"--follow: the input of source {source.name}, {path}, is not a persistent stream")
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
