"""The accelerated simulator: the same distributions as the network of activities, without moving single tuples.

Between two events (crash, recovery, fail-over, corruption, punctuation) only counts change, and the number of tuples
that pass with a given probability is binomial. So time advances in *strides*: for each stride, every operator draws the
outcomes of its received tuples as counts. Without faults a stride extends to the next event, possibly for hours.

While state is being repaired, the repair must end at the correct tuple. Strides are then so short that no repair can
end within them (six standard deviations), and get shorter towards the end, until the simulator advances tuple by tuple.
It also does so while a tainted tuple is about to reach correct state.

It ignores the latency of tuples through the graph (microseconds in the network of activities) and assumes short queues,
as below saturation (`check_load`), and a random order of the tuples of a stride at each port.
"""

from math import inf

import numpy as np
from numba import njit

from riprap.base.errors import UsageError
from riprap.san.generator import uniform
from riprap.san.machine import borrowed
from riprap.san.streaming.application import Application
from riprap.san.streaming.strides import draw, expect, move, status, stride
from riprap.san.streaming.tables import (
    CRASH_RATE,
    FORCED_AT,
    GROUP,
    GROUP_SHOCK_COUNT,
    GROUP_SHOCKS,
    INSTANCE,
    PEER,
    PORT_COUNT,
    PORTS,
    PUNCTUATION,
    RECOVERY,
    REPLICA,
    REPLICAS,
    RESTART_REFILL,
    RESTART_TAINTED,
    SDC_RATE,
    SHOCK_COUNT,
    SHOCK_PORT,
    SHOCK_TUPLES,
    SHOCKS,
    SINK,
    STATE_SHARE,
    STATEFUL,
    TAINT,
    Tables,
)
from riprap.san.streaming.workspace import (
    ACTIVE,
    ALIVE,
    BACK_AT,
    CANDIDATE,
    CORRUPT,
    CRASH_AT,
    FAULTS,
    FIRST_FAULT,
    FLOWS,
    FORCED,
    PENDING,
    REFILL,
    SDC_AT,
    UNSTABLE,
    Workspace,
    workspace,
)

MOST_LOAD = 0.9  # utilisation up to which an operator's queue counts as short
_ONE = np.uint64(1)


def check_load(application: Application) -> None:
    """Raises `UsageError` if queues grow: counts alone do not describe the application."""
    for operator in application.operators:
        load = sum(application.rates[operator.name, index] * port.seconds for index, port in enumerate(operator.inputs))
        if load > MOST_LOAD:
            raise UsageError(
                f"{operator.name} is busy {load:.0%} of its time, and the accelerated simulator "
                "assumes short queues: "
                f"lower the rate until it is below {MOST_LOAD:.0%}, or use the method tokens"
            )


def simulate(tables: Tables, keys: np.ndarray, horizon: float) -> np.ndarray:
    """One row per key: availability, availability without propagation, then tuples and tainted tuples of each sink."""
    sinks = int(tables.instances[:, SINK].max()) + 1
    results = np.zeros((len(keys), 2 + 2 * sinks))
    _many(tables, workspace(tables), keys, float(horizon), results)
    return results


@njit(nogil=True, cache=True)
def _many(t: Tables, w: Workspace, keys: np.ndarray, horizon: float, results: np.ndarray) -> None:
    t = Tables(
        borrowed(t.order),
        borrowed(t.instances),
        borrowed(t.rates),
        borrowed(t.ports),
        borrowed(t.emissions),
        borrowed(t.tuples),
        borrowed(t.outputs),
        borrowed(t.links),
        borrowed(t.feeds),
        borrowed(t.feed_rates),
        borrowed(t.shocks),
        borrowed(t.groups),
        borrowed(t.failovers),
        borrowed(t.hosts),
        borrowed(t.members),
        borrowed(t.scalars),
    )
    w = Workspace(
        borrowed(w.being),
        borrowed(w.moments),
        borrowed(w.repair),
        borrowed(w.flow),
        borrowed(w.seen),
        borrowed(w.group),
        borrowed(w.failover_at),
        borrowed(w.host_at),
        borrowed(w.ticks),
        borrowed(w.out),
        borrowed(w.out_rate),
        borrowed(w.fit),
        borrowed(w.counter),
    )
    for row in range(keys.shape[0]):
        _one(t, w, keys[row], horizon, borrowed(results[row]))


@njit(forceinline=True)
def _one(t: Tables, w: Workspace, key: np.uint64, horizon: float, result: np.ndarray) -> None:
    """One replication."""
    w.counter[FLOWS] = 0
    w.counter[FAULTS] = FIRST_FAULT
    result[:] = 0.0
    w.being[:, ALIVE] = 1
    w.being[:, CORRUPT] = 0
    w.being[:, FORCED] = 0
    w.repair[:] = 0
    w.seen[:] = 0
    w.group[:, ACTIVE] = 1
    w.group[:, CANDIDATE] = 0
    w.failover_at[:] = inf
    w.ticks[:] = 1
    for instance in range(t.instances.shape[0]):
        w.moments[instance, CRASH_AT] = draw(w, FAULTS, t.rates[instance, CRASH_RATE], key)
        w.moments[instance, SDC_AT] = draw(w, FAULTS, t.rates[instance, SDC_RATE], key)
        w.moments[instance, BACK_AT] = inf
    for host in range(t.hosts.shape[0]):
        w.host_at[host] = draw(w, FAULTS, t.hosts[host], key)
    punctuation_at = t.scalars[PUNCTUATION]
    now = 0.0
    available = alive = 1
    changed = True  # whether correctness, liveness or activity has changed, which determine rates and availability
    while True:
        until = min(horizon, punctuation_at)
        for instance in range(t.instances.shape[0]):
            for column in range(3):
                until = min(until, w.moments[instance, column])
            if w.being[instance, FORCED] == 0:
                until = min(until, t.rates[instance, FORCED_AT])
        for group in range(w.failover_at.shape[0]):
            until = min(until, w.failover_at[group])
        for host in range(w.host_at.shape[0]):
            until = min(until, w.host_at[host])
        while now < until:
            if changed:
                available, alive = status(t, w)
                expect(t, w)
            end, arriving = stride(t, w, now, until, key)
            result[0] += (end - now) * available
            result[1] += (end - now) * alive
            changed = move(t, w, now, end, arriving, result, key)
            now = end
        if now >= horizon:
            break
        # Process all events that are due; one pass is enough, because none of them makes another one due.
        if punctuation_at <= now:
            w.seen[:] = 0
            punctuation_at += t.scalars[PUNCTUATION]
            continue
        changed = True
        for host in range(w.host_at.shape[0]):
            if w.host_at[host] <= now:
                for member in range(t.members.shape[0]):
                    if t.members[member, 0] == host:
                        _crash(t, w, t.members[member, 1], now)
                w.host_at[host] = now + draw(w, FAULTS, t.hosts[host], key)
        for instance in range(t.instances.shape[0]):
            if w.moments[instance, BACK_AT] <= now:
                _recover(t, w, instance, now, key)
            if w.moments[instance, SDC_AT] <= now:
                _corrupt(t, w, instance, key)
                w.moments[instance, SDC_AT] = now + draw(w, FAULTS, t.rates[instance, SDC_RATE], key)
            if w.moments[instance, CRASH_AT] <= now:
                _crash(t, w, instance, now)
            if w.being[instance, FORCED] == 0 and t.rates[instance, FORCED_AT] <= now:
                w.being[instance, FORCED] = 1
                _crash(t, w, instance, now)
        for group in range(t.groups.shape[0]):
            _supervise(t, w, group, now)
    result[0] /= horizon
    result[1] /= horizon


@njit(forceinline=True)
def _crash(t: Tables, w: Workspace, instance: int, now: float) -> None:
    """Everything in the instance is lost; from now on, downstream state misses tuples."""
    if w.being[instance, ALIVE] == 0:
        return
    w.being[instance, ALIVE] = 0
    w.being[instance, CORRUPT] = 0
    w.moments[instance, CRASH_AT] = inf
    w.moments[instance, SDC_AT] = inf
    w.moments[instance, BACK_AT] = now + t.scalars[RECOVERY]
    first = t.instances[instance, PORTS]
    for port in range(first, first + t.instances[instance, PORT_COUNT]):
        w.repair[port, UNSTABLE] = 0
        w.repair[port, REFILL] = 0
    peer = t.instances[instance, PEER]
    if peer < 0 or w.being[peer, ALIVE] == 0:
        first = t.instances[instance, SHOCKS]
        for shock in range(first, first + t.instances[instance, SHOCK_COUNT]):
            w.repair[t.shocks[shock, SHOCK_PORT], PENDING] += 1


@njit(forceinline=True)
def _recover(t: Tables, w: Workspace, instance: int, now: float, key: np.uint64) -> None:
    """Alive again, with old or empty state, unless it can copy correct state from a replica."""
    peer = t.instances[instance, PEER]
    if peer < 0 or w.being[peer, ALIVE] == 0:
        first = t.instances[instance, PORTS]
        for port in range(first, first + t.instances[instance, PORT_COUNT]):
            w.repair[port, UNSTABLE] = t.ports[port, RESTART_TAINTED]
            w.repair[port, REFILL] = t.ports[port, RESTART_REFILL]
        first = t.instances[instance, SHOCKS]
        _release(t, w, first, t.instances[instance, SHOCK_COUNT])
    w.being[instance, ALIVE] = 1
    w.moments[instance, BACK_AT] = inf
    w.moments[instance, CRASH_AT] = now + draw(w, FAULTS, t.rates[instance, CRASH_RATE], key)
    w.moments[instance, SDC_AT] = now + draw(w, FAULTS, t.rates[instance, SDC_RATE], key)


@njit(forceinline=True)
def _release(t: Tables, w: Workspace, first: int, count: int) -> None:
    """An upstream outage is over: from now on, clean tuples repair the state."""
    for shock in range(first, first + count):
        port = t.shocks[shock, SHOCK_PORT]
        w.repair[port, PENDING] -= 1
        if w.being[t.ports[port, INSTANCE], ALIVE] == 1:
            w.repair[port, UNSTABLE] = max(w.repair[port, UNSTABLE], t.shocks[shock, SHOCK_TUPLES])


@njit(forceinline=True)
def _corrupt(t: Tables, w: Workspace, instance: int, key: np.uint64) -> None:
    """Silent corruption of the state, or of the next tuple."""
    first = t.instances[instance, PORTS]
    last = first + t.instances[instance, PORT_COUNT]
    stateful = False
    for port in range(first, last):
        stateful = stateful or t.ports[port, STATEFUL] == 1
    hits_state = False
    if stateful:
        hits_state = uniform(key, w.counter[FAULTS]) >= 1.0 - t.scalars[STATE_SHARE]
        w.counter[FAULTS] += _ONE
    if not hits_state:
        w.being[instance, CORRUPT] = 1
        return
    for port in range(first, last):
        if t.ports[port, STATEFUL] == 1:
            w.repair[port, UNSTABLE] = max(w.repair[port, UNSTABLE], t.ports[port, TAINT])


@njit(forceinline=True)
def _supervise(t: Tables, w: Workspace, group: int, now: float) -> None:
    """Deactivates an incomplete replica; activates the first complete one after the fail-over time."""
    if w.group[group, ACTIVE] == 0 and w.failover_at[group] <= now:
        w.group[group, ACTIVE] = w.group[group, CANDIDATE]
        w.failover_at[group] = inf
        w.group[group, CANDIDATE] = 0
        _release(t, w, t.groups[group, GROUP_SHOCKS], t.groups[group, GROUP_SHOCK_COUNT])
    complete = 0
    for replica in range(t.groups[group, REPLICAS] - 1, -1, -1):
        all_alive = True
        for instance in range(t.instances.shape[0]):
            if t.instances[instance, GROUP] == group and t.instances[instance, REPLICA] == replica:
                all_alive = all_alive and w.being[instance, ALIVE] == 1
        if all_alive:
            complete = replica + 1
        elif w.group[group, ACTIVE] == replica + 1:
            w.group[group, ACTIVE] = 0
            first = t.groups[group, GROUP_SHOCKS]
            for shock in range(first, first + t.groups[group, GROUP_SHOCK_COUNT]):
                w.repair[t.shocks[shock, SHOCK_PORT], PENDING] += 1
    if w.group[group, ACTIVE] == 0 and complete != w.group[group, CANDIDATE]:
        w.group[group, CANDIDATE] = complete
        w.failover_at[group] = now + t.failovers[group] if complete else inf
