"""`run.json`: the options of a run, its app and its inputs, with which it is resumed.

The file never names code: `app` is a bundled app, or empty for an app of the user's own, which must be given again.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, get_args

from riprap.api.app_inputs import as_graph
from riprap.api.run_options import RunOptions
from riprap.apps.catalogue import BUNDLED
from riprap.base.documents import read_json, shortened
from riprap.base.errors import DataError, UsageError
from riprap.base.files import exists, real
from riprap.graph.annotations import Stability
from riprap.graph.builder import App
from riprap.graph.graph import Graph
from riprap.graph.plan_file import parse_plan, plan_text
from riprap.protocols.commitment import SINKS
from riprap.protocols.registry import FAILOVERS, LOGS, REGISTRY, RULES, SCOPES
from riprap.runtime.fusion import Fuse
from riprap.runtime.layout import Layout
from riprap.runtime.planned import planned_layout
from riprap.streams.stream_files import LocalFiles

_FORMAT = 2  # of run.json


@dataclass(frozen=True, kw_only=True)
class RunSettings(RunOptions):
    """The content of `run.json`. `plan` is the text of the plan, not its path."""

    app: str  # the name of a bundled app; "": the user's own app
    graph: str  # its fingerprint
    inputs: Mapping[str, str] = field(default_factory=dict)
    shards: Mapping[str, int] = field(default_factory=dict)  # of every operator
    former: Sequence[Mapping[str, int]] = ()  # the same before each change

    def layout(self, graph: Graph) -> Layout:
        return planned_layout(
            graph, None if self.plan is None else parse_plan(str(self.plan)), self.fuse, self.parallelism,
            protocol=self.protocol, interval=self.interval, log=self.log, scope=self.scope, rule=self.rule,
            failover=self.failover, sinks=self.sinks, virtual=self.virtual, former=self.former,
        )  # fmt: skip

    def to_json(self) -> dict[str, Any]:
        stored = asdict(self)
        return {"format": _FORMAT} | {name: stored[name] for name in _FITS}


def settings_of(app: str | App | Graph, graph: Graph, options: RunOptions) -> RunSettings:
    graph.check_runs()
    given = {each.name: getattr(options, each.name) for each in fields(options)}
    if options.stability not in get_args(Stability):
        raise UsageError(f"`stability={options.stability}`: expected one of {', '.join(get_args(Stability))}")
    given["parallelism"] = dict(options.parallelism)
    given["plan"] = None if options.plan is None else plan_text(options.plan)
    return RunSettings(app=bundled(app), graph=graph.fingerprint, **given)


def write_settings(directory: Path, settings: RunSettings) -> None:
    text = json.dumps(settings.to_json(), indent=2) + "\n"
    LocalFiles(directory).put("run.json", text.encode())


def read_settings(directory: Path) -> RunSettings:
    path = real(directory) / "run.json"
    if not exists(path):
        raise DataError(f"{directory} is not the directory of a run: it has no run.json")
    data = read_json(path, "the settings of the run in", own=True)
    if not isinstance(data, dict) or data.pop("format", None) != _FORMAT:
        raise DataError(f"{path} is not of a run, or of another version of riprap; this version reads format {_FORMAT}")
    for name, fits in _FITS.items():
        if name not in data:
            raise DataError(f"{path} is damaged: it has no {name}; start a new run")
        if not fits(data[name]):
            raise DataError(f"{path} is damaged: {name} is {shortened(data[name])}; start a new run")
    return RunSettings(**{name: data[name] for name in _FITS})


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


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1e15


def _is_shards(value: Any) -> bool:
    return isinstance(value, dict) and all(type(number) is int and number >= 1 for number in value.values())


# The entries of `run.json` and their checks. What concerns one process only, such as `kill`, is not stored.
_FITS: Mapping[str, Callable[[Any], bool]] = {
    "app": lambda value: value == "" or (isinstance(value, str) and value in BUNDLED),
    "graph": lambda value: isinstance(value, str),
    "plan": lambda value: value is None or isinstance(value, str),
    "fuse": lambda value: value in get_args(Fuse),
    "parallelism": _is_shards,
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
    "shards": _is_shards,
    "former": lambda value: isinstance(value, list) and all(map(_is_shards, value)),
}
