"""Work arrays of the accelerated simulator, reused by every replication."""

from typing import NamedTuple

import numpy as np

from riprap.san.streaming.tables import OPERATOR, Tables

# being: per instance, integers
ALIVE, CORRUPT, FORCED = range(3)  # 0 or 1 each; FORCED: its forced crash has happened
# moments: times per instance, seconds
CRASH_AT, SDC_AT, BACK_AT = range(3)
# repair: per port, tuples; PENDING counts outages upstream; CLEAN and TAINTED: arrivals in a stride
UNSTABLE, REFILL, PENDING, CLEAN, TAINTED = range(5)
# group: 1 + active replica, 1 + the replica that is being activated; 0: none
ACTIVE, CANDIDATE = range(2)

# counter
FLOWS, FAULTS = range(2)
FIRST_FAULT = np.uint64(1 << 62)  # start of the counter of faults: beyond the range of that of flows


class Workspace(NamedTuple):
    being: np.ndarray
    moments: np.ndarray
    repair: np.ndarray
    flow: np.ndarray  # per port: mean rates of clean and tainted tuples
    seen: np.ndarray  # per link: clean and tainted tuples since the last punctuation
    group: np.ndarray
    failover_at: np.ndarray  # per group, seconds
    host_at: np.ndarray  # per host, seconds of the next crash
    ticks: np.ndarray  # per evenly spaced feed: number of its next tuple
    out: np.ndarray  # per output port of the current instance: clean and tainted tuples
    out_rate: np.ndarray  # the same as mean rates
    fit: np.ndarray  # per operator: 2 alive with full state, 1 alive, 0 neither, in its best copy
    counter: np.ndarray  # of the random generator, separate for FLOWS and FAULTS: the same faults for any flow


def workspace(tables: Tables) -> Workspace:
    instances, ports, width = len(tables.instances), len(tables.ports), tables.tuples.shape[1]
    return Workspace(
        np.empty((instances, 3), np.int64),
        np.empty((instances, 3)),
        np.empty((ports, 5), np.int64),
        np.empty((ports, 2)),
        np.empty((len(tables.links), 2), np.int64),
        np.empty((len(tables.groups), 2), np.int64),
        np.empty(len(tables.groups)),
        np.empty(len(tables.hosts)),
        np.empty(len(tables.feeds), np.int64),
        np.empty((width, 2), np.int64),
        np.empty((width, 2)),
        np.empty(int(tables.instances[:, OPERATOR].max()) + 1, np.int64),
        np.zeros(2, np.uint64),
    )
