"""`riprap profile` from Python: measures the operators of an app over recorded data.

    from riprap.api.profile import profile
    found = profile("bargain-discovery", {"Source": "market.parquet"})
    found.operators["Aggregator"].selectivity    # tuples out by tuples in, per port

Recoveries and the costs of techniques are measured by runs: `recovery_profile.py`, `cost_profile.py`.
"""

import os
from collections.abc import Mapping
from pathlib import Path

from riprap.apps.catalogue import load_app
from riprap.base.clock import SYSTEM_CLOCK, Clock
from riprap.base.errors import UsageError, known
from riprap.engine import profile as measured
from riprap.engine.input_check import check_input
from riprap.engine.inputs import keyed, read_file
from riprap.graph.graph import Graph
from riprap.graph.plan_file import read_plan

Inputs = Mapping[str, str | os.PathLike[str]]  # by source


def profile(
    app: str | Graph, inputs: Inputs, *, plan: Path | str | None = None, clock: Clock = SYSTEM_CLOCK
) -> measured.Profile:
    """Run an app over recorded data in this process: rates, selectivity, time and state per operator."""
    graph = load_app(app) if isinstance(app, str) else app
    if plan is not None:
        graph = read_plan(Path(plan)).apply(graph)
    for source in graph.sources:
        if source.name not in inputs:
            raise UsageError(f"no input for source {source.name}; inputs were given for {known(inputs)}")
        check_input(Path(inputs[source.name]), source)
    recorded = {source.name: keyed(read_file(inputs[source.name]), source) for source in graph.sources}
    return measured.profile(graph, recorded, clock=clock)
