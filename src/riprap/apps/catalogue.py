"""Finding an app: by the name of a bundled one, or as `module:attribute`."""

import importlib
import inspect
import os
import sys
from collections.abc import Callable, Mapping
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

from riprap.base.errors import RiprapError, UsageError, known, users_line
from riprap.graph.builder import App
from riprap.graph.graph import Graph

# Bundled apps: a name and the module with a function `build() -> Graph`.
BUNDLED: Mapping[str, str] = {
    "bargain-discovery": "riprap.apps.bargain_discovery:build",
    "yield-prediction": "riprap.apps.yield_prediction:build",
    "sensor-fleet": "riprap.apps.sensor_fleet:build",
    "nexmark-2": "riprap.workloads.nexmark_2:build",
    "nexmark-3": "riprap.workloads.nexmark_3:build",
    "nexmark-5": "riprap.workloads.nexmark_5:build",
    "nexmark-6": "riprap.workloads.nexmark_6:build",
    "wordcount": "riprap.workloads.wordcount:build",
    "nhop": "riprap.workloads.nhop:build",
}


def workload_module(name: str) -> ModuleType | None:
    """The module of a bundled workload. Workloads are below this package: they are found by name, as a user's apps."""
    module = BUNDLED.get(name, "").partition(":")[0]
    return importlib.import_module(module) if module.startswith("riprap.workloads.") else None


def load_app(name: str) -> Graph:
    """The graph called `name`: a bundled app, or `module:attribute` where the attribute is a Graph, an App, or a
    function without arguments that returns one. Modules are also looked for in the current directory."""
    where = BUNDLED.get(name, name)
    module_name, colon, attribute = where.partition(":")
    if not colon or not module_name or not attribute:
        raise UsageError(
            f"app {name} is unknown; bundled apps are {known(BUNDLED, name)}; your own is written module:attribute"
        )
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise UsageError(
            f"cannot import {error.name} for app {name}; give a module that Python finds from here, as module:attribute"
        ) from error
    except (Exception, SystemExit) as error:
        raise _failed(error, f"cannot import {module_name} for app {name}") from error
    if not hasattr(module, attribute):
        public = [item for item in dir(module) if not item.startswith("_")]
        raise UsageError(f"module {module_name} has no {attribute}; it has {known(public, attribute)}")
    found: object = getattr(module, attribute)
    where = getattr(module, "__file__", None) or module_name
    if inspect.isfunction(found) and not any(_required(each) for each in inspect.signature(found).parameters.values()):
        found = _built(found, name, where)
    if isinstance(found, App):
        found = _built(found.build, name, where)
    if not isinstance(found, Graph):
        raise UsageError(
            f"{name} is a {type(found).__name__}; it has to be an App, a Graph, or a function that returns one "
            "and needs no arguments"
        )
    return found


def _required(parameter: inspect.Parameter) -> bool:
    optional = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return parameter.default is inspect.Parameter.empty and parameter.kind not in optional


def _built(build: Callable[[], object], name: str, where: str) -> object:
    try:
        return build()
    except (Exception, SystemExit) as error:
        raise _failed(error, f"app {name} cannot be built", where) from error


def _failed(error: BaseException, what: str, where: str = "") -> RiprapError:
    """What somebody's module raised, as one sentence that ends with the line of theirs that it came through, or with
    `where` if it came through none.
    """
    at = f" ({line})" if (line := users_line(error) or where) else ""
    reason = " ".join(str(error).split()) or "no reason given"
    if isinstance(error, RiprapError):
        return type(error)(f"{what}: {reason}{at}")
    return UsageError(f"{what}: {type(error).__name__}: {reason}{at}")


def refuse_planted(name: str, directory: Path) -> None:
    """Files of a run or an assessment name modules. One that lies among them is data, and is not run.

    `name`: `module:attribute`, as a file in the directory has it. Its first module is looked for, not imported.
    """
    top = BUNDLED.get(name, name).partition(":")[0].partition(".")[0]
    importlib.invalidate_caches()
    try:
        found = PathFinder.find_spec(top, [os.getcwd(), *sys.path]) if top.isidentifier() else None
    except (ImportError, ValueError):
        return
    places = [] if found is None else [found.origin, *(found.submodule_search_locations or ())]
    if any(place is not None and Path(place).resolve().is_relative_to(directory.resolve()) for place in places):
        raise UsageError(
            f"{directory} names {name}, and {top} lies in that directory: nothing in it is run; "
            "move the module out of it, and start from where it is"
        )


def load_function(text: str) -> Callable[..., Any]:
    """`module:function`. Modules are also looked for in the current directory."""
    module_name, _, name = text.partition(":")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        module = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:  # the user's module may fail in any way
        raise _failed(error, f"cannot import {module_name} for the function {text}") from error
    function: object = getattr(module, name, None)
    if not callable(function):
        names = [each for each, value in vars(module).items() if callable(value) and not each.startswith("_")]
        raise UsageError(f"{module_name} has no function {name}; it has {known(names, name)}")
    return function
