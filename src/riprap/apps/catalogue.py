"""Finding an app: by the name of a bundled one, as `module:attribute`, or as a PySpark job, `job.py:query`.

Only the user names code, on the command line or in a call: a file can at most contain a name in `BUNDLED`. The
directory of a user's module is searched after everything that is installed, so that no file in it can shadow a library.
"""

import importlib
import inspect
import os
import re
import sys
from collections.abc import Callable, Mapping
from importlib.machinery import PathFinder
from importlib.metadata import entry_points
from types import ModuleType
from typing import Any

from riprap.base.errors import RiprapError, UsageError, known, users_line
from riprap.graph.builder import App
from riprap.graph.graph import Graph

# Bundled apps: a name and the function `build() -> Graph`. Installed packages add theirs through the entry point group
# `riprap.apps`, read here, before a user's directory is on the path.
BUNDLED: Mapping[str, str] = {
    "bargain-discovery": "riprap.apps.bargain_discovery:build",
    "yield-prediction": "riprap.apps.yield_prediction:build",
    "sensor-fleet": "riprap.apps.sensor_fleet:build",
    **{point.name: point.value for point in entry_points(group="riprap.apps")},
}


def workload_module(name: str) -> ModuleType | None:
    """The module of a bundled app that generates its own input: it has a `WORKLOAD`."""
    module = importlib.import_module(BUNDLED[name].partition(":")[0]) if name in BUNDLED else None
    return module if hasattr(module, "WORKLOAD") else None


def is_job(name: str) -> bool:
    """Whether a name is that of an existing PySpark job: a script or a pipeline, or one of its queries."""
    return re.search(r"\.(py|ya?ml)(:[^:]+)?$", name) is not None


def load_app(name: str) -> Graph:
    """The graph called `name`: a bundled app, an existing PySpark job, or `module:attribute` where the attribute is a
    Graph, an App, or a function of that module without arguments that returns one. `name` comes from the user, never
    from a file."""
    if is_job(name):
        from riprap.spark.jobs.job_files import job_graph

        return job_graph(name)
    where = BUNDLED.get(name, name)
    module_name, colon, attribute = where.partition(":")
    if not colon or not module_name or not attribute:
        raise UsageError(
            f"app {name} is unknown; bundled apps are {known(BUNDLED, name)}; write your own app as module:attribute, "
            "or a PySpark job as job.py or job.py:query"
        )
    module = _imported(module_name, f"app {name}")
    if not hasattr(module, attribute):
        public = [item for item in dir(module) if not item.startswith("_")]
        raise UsageError(f"module {_shown(module)} has no {attribute}; it has {known(public, attribute)}")
    target: object = getattr(module, attribute)
    where = getattr(module, "__file__", None) or module_name
    if inspect.isfunction(target) and not any(map(_required, inspect.signature(target).parameters.values())):
        _check_home(target, module_name, name)
        target = _built(target, name, where)
    if isinstance(target, App):
        target = _built(target.build, name, where)
    if not isinstance(target, Graph):
        raise UsageError(
            f"{name} is a {type(target).__name__}; it has to be an App, a Graph, or a function that returns one "
            "and needs no arguments"
        )
    return target


def _imported(name: str, purpose: str) -> ModuleType:
    """A module named by the user: installed, or in the current directory, which is put last on the path."""
    here, top = os.getcwd(), name.partition(".")[0]
    importlib.invalidate_caches()  # it may be new
    try:
        if here not in sys.path and PathFinder.find_spec(top) is None and PathFinder.find_spec(top, [here]) is not None:
            sys.path.append(here)
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise UsageError(
            f"cannot import {error.name} for {purpose}; give a module that Python finds from here, as module:attribute"
        ) from error
    except (Exception, SystemExit) as error:  # the user's module may fail in any way
        raise _failed(error, f"cannot import {name} for {purpose}") from error


def _shown(module: ModuleType) -> str:
    """The module with its file, since a library takes precedence over a user's module of the same name."""
    file = getattr(module, "__file__", None)
    return f"{module.__name__} ({file})" if file else module.__name__


def _check_home(function: object, module: str, name: str) -> None:
    """Raise unless the function is defined in the named module: functions that it imports are not run."""
    home = str(getattr(function, "__module__", None))
    if home != module and not home.startswith(f"{module}."):
        raise UsageError(f"{name} is a function of {home}, not of {module}: name a function of your own module")


def _required(parameter: inspect.Parameter) -> bool:
    optional = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return parameter.default is inspect.Parameter.empty and parameter.kind not in optional


def _built(build: Callable[[], object], name: str, where: str) -> object:
    try:
        return build()
    except (Exception, SystemExit) as error:
        raise _failed(error, f"app {name} cannot be built", where) from error


def _failed(error: BaseException, what: str, where: str = "") -> RiprapError:
    """An error of the user's module as one sentence, ending with the user's line in its traceback, or with `where`."""
    at = f" ({line})" if (line := users_line(error) or where) else ""
    reason = " ".join(str(error).split()) or "no reason given"
    if isinstance(error, RiprapError):
        return type(error)(f"{what}: {reason}{at}")
    return UsageError(f"{what}: {type(error).__name__}: {reason}{at}")


def load_function(text: str) -> Callable[..., Any]:
    """`module:function`, which comes from the user, never from a file."""
    module_name, _, name = text.partition(":")
    module = _imported(module_name, f"the function {text}")
    function: object = getattr(module, name, None)
    if not callable(function):
        names = [item for item, value in vars(module).items() if callable(value) and not item.startswith("_")]
        raise UsageError(f"{_shown(module)} has no function {name}; it has {known(names, name)}")
    _check_home(function, module_name, text)
    return function
