"""The workloads by name."""

from collections.abc import Mapping

from riprap.base.errors import UsageError, known
from riprap_papers.workloads import nexmark_2, nexmark_3, nexmark_5, nexmark_6, nhop, wordcount
from riprap_papers.workloads.workload import Workload

WORKLOADS: Mapping[str, Workload] = {
    module.WORKLOAD.name: module.WORKLOAD for module in (nexmark_2, nexmark_3, nexmark_5, nexmark_6, wordcount, nhop)
}


def load_workload(name: str) -> Workload:
    if name not in WORKLOADS:
        raise UsageError(f"workload {name} is unknown; known: {known(WORKLOADS, name)}")
    return WORKLOADS[name]
