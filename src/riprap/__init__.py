"""Riprap: find the operators of a streaming application worth protecting, protect exactly those, prove it.

    import riprap

    found = riprap.assess("bargain-discovery")           # which operators matter
    plan = riprap.plan("bargain-discovery", recovery="5s", latency="1s")
    riprap.prove("bargain-discovery", plan=plan, out="proof", seconds="30s").holds

Names are loaded on first use, so `import riprap` is cheap.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

_HOMES = {
    "App": "riprap.graph.builder",
    "Stream": "riprap.graph.builder",
    "Graph": "riprap.graph.graph",
    "apply": "riprap.graph.aggregates",
    "backup": "riprap.graph.annotations",
    "checkpoint": "riprap.graph.annotations",
    "continuous": "riprap.graph.annotations",
    "full_replication": "riprap.graph.annotations",
    "ha_group": "riprap.graph.annotations",
    "persist": "riprap.graph.annotations",
    "retain": "riprap.graph.annotations",
    "count": "riprap.graph.windows",
    "punctuated": "riprap.graph.windows",
    "session_window": "riprap.graph.windows",
    "sliding": "riprap.graph.windows",
    "tumbling": "riprap.graph.windows",
    "unbounded": "riprap.graph.windows",
    "time": "riprap.graph.windows",
    "zero": "riprap.graph.windows",
    "read_plan": "riprap.graph.plan_file",
    "Engine": "riprap.engine.engine",
    "Rows": "riprap.operators.user",
    "UserOperator": "riprap.operators.user",
    "check_operator": "riprap.testing.checker",
    "run_bounded": "riprap.spark.bounded",
    "session": "riprap.spark.session",
    "assess": "riprap.api.public",
    "from_spark": "riprap.api.public",
    "measure": "riprap.api.public",
    "protect": "riprap.api.public",
    "Slo": "riprap.planner.slo",
    "model": "riprap.api.public",
    "plan": "riprap.api.public",
    "prove": "riprap.api.public",
    "record": "riprap.api.public",
    "resume": "riprap.api.public",
    "run": "riprap.api.public",
}

__all__ = [
    "App",
    "Engine",
    "Graph",
    "Rows",
    "Slo",
    "Stream",
    "UserOperator",
    "apply",
    "assess",
    "backup",
    "check_operator",
    "checkpoint",
    "continuous",
    "count",
    "from_spark",
    "full_replication",
    "ha_group",
    "measure",
    "model",
    "persist",
    "plan",
    "protect",
    "prove",
    "punctuated",
    "read_plan",
    "record",
    "resume",
    "retain",
    "run",
    "run_bounded",
    "session",
    "session_window",
    "sliding",
    "time",
    "tumbling",
    "unbounded",
    "zero",
]

if TYPE_CHECKING:
    from riprap.api.public import assess, from_spark, measure, model, plan, protect, prove, record, resume, run
    from riprap.engine.engine import Engine
    from riprap.graph.aggregates import apply
    from riprap.graph.annotations import backup, checkpoint, continuous, full_replication, ha_group, persist, retain
    from riprap.graph.builder import App, Stream
    from riprap.graph.graph import Graph
    from riprap.graph.plan_file import read_plan
    from riprap.graph.windows import count, punctuated, session_window, sliding, time, tumbling, unbounded, zero
    from riprap.operators.user import Rows, UserOperator
    from riprap.planner.slo import Slo
    from riprap.spark.bounded import run_bounded
    from riprap.spark.session import session
    from riprap.testing.checker import check_operator


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module riprap has no attribute {name}")
    return getattr(import_module(_HOMES[name]), name)
