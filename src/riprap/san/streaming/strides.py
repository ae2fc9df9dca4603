"""Strides of the accelerated simulator: their length, and the flow of tuples within them.

A stride is a period in which no instance becomes correct, wrong, dead, alive, active or inactive. So every operator
passes each tuple with a constant probability, and the number of passed tuples is binomial.
"""

from math import inf, sqrt

import numpy as np
from numba import njit

from riprap.san.generator import uniform
from riprap.san.samplers import NEVER, binomial, exponential, poisson
from riprap.san.streaming.tables import (
    EDGE_GROUP,
    EDGE_REPLICA,
    EMISSION_COUNT,
    EMISSIONS,
    FEED_PORT,
    GROUP,
    INSTANCE,
    LINK_COUNT,
    LINKS,
    OPERATOR,
    OUTPUT_COUNT,
    OUTPUTS,
    POISSON,
    PORT_COUNT,
    PORTS,
    REFILL_SHARE,
    REFILL_TAINTS,
    REPLICA,
    SINK,
    STANDBY_COUNTS,
    STATEFUL,
    TAINT,
    TARGET,
    TWIN,
    Tables,
)
from riprap.san.streaming.workspace import (
    ACTIVE,
    ALIVE,
    CLEAN,
    CORRUPT,
    FLOWS,
    PENDING,
    REFILL,
    TAINTED,
    UNSTABLE,
    Workspace,
)

MANY, NOBODY = -1, -2  # arrivals during a stride, if not the next tuple of one feed

_FEW = 2.0  # expected tuples of a stride below which the simulator advances tuple by tuple
_ONE = np.uint64(1)
# Inlined: a call with this many arrays costs more than most of these functions.
_inlined = njit(forceinline=True)

_SURE = 6.0  # standard deviations between the end of a stride and the end of a repair


@_inlined
def status(t: Tables, w: Workspace) -> tuple[int, int]:
    """(available, every operator alive in some copy), as 1 or 0. Of a group, only the active replica counts."""
    tainted = False
    w.fit[:] = 0
    for instance in range(t.instances.shape[0]):
        if _standby(t, w, instance):
            continue
        tainted = tainted or _unstable(t, w, instance)
        if w.being[instance, ALIVE] == 1:
            value = 2
            first = t.instances[instance, PORTS]
            for port in range(first, first + t.instances[instance, PORT_COUNT]):
                if w.repair[port, REFILL] > 0:
                    value = 1
            w.fit[t.instances[instance, OPERATOR]] = max(w.fit[t.instances[instance, OPERATOR]], value)
    least = w.fit.min()
    return int(least == 2 and (not tainted)), int(least >= 1)


@_inlined
def stride(t: Tables, w: Workspace, now: float, until: float, key: np.uint64) -> tuple[float, int]:
    """(end of the next stride, arrivals in it: MANY, a feed whose next tuple arrives, or NOBODY)."""
    repairing = False
    single = False
    for port in range(t.ports.shape[0]):
        repairing = (
            repairing or w.repair[port, UNSTABLE] > 0 or w.repair[port, REFILL] > 0 or (w.repair[port, PENDING] > 0)
        )
    for instance in range(t.instances.shape[0]):
        single = single or w.being[instance, CORRUPT] == 1
    if not repairing and (not single):
        return until, MANY
    end = until
    if not single:
        for port in range(t.ports.shape[0]):
            if t.ports[port, STATEFUL] == 0 or w.being[t.ports[port, INSTANCE], ALIVE] == 0:
                continue
            left = inf
            if w.repair[port, UNSTABLE] > 0:
                left = w.repair[port, UNSTABLE]
            elif w.flow[port, 1] > 0.0:
                single = True  # the first tainted tuple will taint correct state
            if w.repair[port, REFILL] > 0:
                left = min(left, w.repair[port, REFILL])
            if left < inf and w.flow[port, 0] > 0.0:
                root = (sqrt(_SURE * _SURE + 4.0 * max(0.0, left - 1.0)) - _SURE) / 2.0
                end = min(end, now + root * root / w.flow[port, 0])
    total = 0.0
    for feed in range(t.feeds.shape[0]):
        total += t.feed_rates[feed]
    if not single and (end - now) * total >= _FEW:
        return end, MANY
    # A stride would have too few tuples: advance to the next tuple instead.
    end, arriving = until, NOBODY
    for feed in range(t.feeds.shape[0]):
        moment = w.ticks[feed] / t.feed_rates[feed]
        if t.feeds[feed, POISSON] == 1:
            moment = now + draw(w, FLOWS, t.feed_rates[feed], key)
        if moment < end:
            end, arriving = moment, feed
    return end, arriving


@_inlined
def expect(t: Tables, w: Workspace) -> None:
    """Mean rates of clean and tainted tuples into every port, in the current state."""
    w.flow[:] = 0.0
    for feed in range(t.feeds.shape[0]):
        w.flow[t.feeds[feed, FEED_PORT], 0] += t.feed_rates[feed]
    for instance in t.order:
        if w.being[instance, ALIVE] == 0:
            continue
        wrong = _wrong(t, w, instance)
        share = t.scalars[REFILL_SHARE] if _refilling(t, w, instance) else 1.0
        wrong_share = share if t.instances[instance, REFILL_TAINTS] == 1 else 1.0
        w.out_rate[:] = 0.0
        first = t.instances[instance, PORTS]
        for port in range(first, first + t.instances[instance, PORT_COUNT]):
            for emission in range(t.ports[port, EMISSIONS], t.ports[port, EMISSIONS] + t.ports[port, EMISSION_COUNT]):
                for output in range(t.instances[instance, OUTPUT_COUNT]):
                    count = t.tuples[emission, output]
                    tainted = t.emissions[emission, 1] * count
                    if wrong:
                        w.out_rate[output, 1] += (w.flow[port, 0] + w.flow[port, 1]) * tainted * wrong_share
                    else:
                        w.out_rate[output, 0] += w.flow[port, 0] * t.emissions[emission, 0] * count * share
                        w.out_rate[output, 1] += w.flow[port, 1] * tainted
        for output in range(t.instances[instance, OUTPUT_COUNT]):
            entry = t.instances[instance, OUTPUTS] + output
            for link in range(t.outputs[entry, LINKS], t.outputs[entry, LINKS] + t.outputs[entry, LINK_COUNT]):
                if _open(t, w, link):
                    # Each of two copies counts as passing everything: too much, which only shortens strides.
                    w.flow[t.links[link, TARGET], 0] += w.out_rate[output, 0]
                    w.flow[t.links[link, TARGET], 1] += w.out_rate[output, 1]


@_inlined
def move(t: Tables, w: Workspace, now: float, end: float, arriving: int, result: np.ndarray, key: np.uint64) -> bool:
    """Draws the flow from `now` to `end` as counts. Returns whether some state became correct or wrong."""
    changed = False
    w.repair[:, CLEAN] = 0
    w.repair[:, TAINTED] = 0
    for feed in range(t.feeds.shape[0]):
        if t.feeds[feed, POISSON] == 1:
            count = int(arriving == feed)
            if arriving == MANY:
                count, following = poisson(t.feed_rates[feed] * (end - now), key, w.counter[FLOWS])
                w.counter[FLOWS] = following
        else:
            # Ticks are at k / rate; the slack is for the rounding of that division.
            last = int(end * t.feed_rates[feed] * (1.0 + 1e-15) + 1e-09)
            count = max(0, last - w.ticks[feed] + 1)
            w.ticks[feed] += count
        w.repair[t.feeds[feed, FEED_PORT], CLEAN] += count
    for instance in t.order:
        if w.being[instance, ALIVE] == 0:
            continue
        first = t.instances[instance, PORTS]
        last_port = first + t.instances[instance, PORT_COUNT]
        arrived = 0
        for port in range(first, last_port):
            arrived += w.repair[port, CLEAN] + w.repair[port, TAINTED]
        if arrived == 0:
            continue
        wrong = _wrong(t, w, instance)
        share = t.scalars[REFILL_SHARE] if _refilling(t, w, instance) else 1.0
        wrong_share = share if t.instances[instance, REFILL_TAINTS] == 1 else 1.0
        w.out[:] = 0
        for port in range(first, last_port):
            clean = w.repair[port, CLEAN]
            corrupted = 0
            if w.being[instance, CORRUPT] == 1 and clean > 0:
                corrupted = 1
                w.being[instance, CORRUPT] = 0
            if t.instances[instance, SINK] >= 0:
                column = 2 + 2 * t.instances[instance, SINK]
                result[column] += clean + w.repair[port, TAINTED]
                result[column + 1] += corrupted + w.repair[port, TAINTED]
                continue
            if wrong:
                _emit(t, w, port, clean + w.repair[port, TAINTED], 1, 1, wrong_share, key)
            else:
                _emit(t, w, port, clean - corrupted, 0, 0, share, key)
                _emit(t, w, port, corrupted + w.repair[port, TAINTED], 1, 1, 1.0, key)
        for port in range(first, last_port):
            if t.ports[port, STATEFUL] == 1:
                changed = _heal(t, w, port, key) or changed
        for output in range(t.instances[instance, OUTPUT_COUNT]):
            entry = t.instances[instance, OUTPUTS] + output
            for link in range(t.outputs[entry, LINKS], t.outputs[entry, LINKS] + t.outputs[entry, LINK_COUNT]):
                if _open(t, w, link):
                    twin = t.links[link, TWIN]
                    for kind in range(2):
                        passed = w.out[output, kind]
                        if twin >= 0:
                            # Of two copies, tuples pass that are ahead of the other copy's.
                            before = max(w.seen[link, kind], w.seen[twin, kind])
                            w.seen[link, kind] += passed
                            passed = max(before, w.seen[link, kind]) - before
                        w.repair[t.links[link, TARGET], CLEAN + kind] += passed
    return changed


@_inlined
def _emit(t: Tables, w: Workspace, port: int, count: int, column: int, kind: int, share: float, key: np.uint64) -> None:
    """Draws the emissions of `count` tuples at `port` and adds them to `out`."""
    left = 1.0
    for emission in range(t.ports[port, EMISSIONS], t.ports[port, EMISSIONS] + t.ports[port, EMISSION_COUNT]):
        chance = t.emissions[emission, column] * share
        if count == 0 or chance <= 0.0:
            continue
        chosen, following = binomial(count, min(1.0, chance / left), key, w.counter[FLOWS])
        w.counter[FLOWS] = following
        count -= chosen
        left -= chance
        for output in range(w.out.shape[0]):
            w.out[output, kind] += chosen * t.tuples[emission, output]


@_inlined
def _heal(t: Tables, w: Workspace, port: int, key: np.uint64) -> bool:
    """Effect of a stride's tuples on the state of a port: clean ones repair it, tainted ones undo the repair.

    After the last tainted tuple the state needs `TAINT` clean ones; if k clean ones follow it, TAINT - k remain.
    Earlier tainted tuples require fewer, so the larger requirement remains. Returns whether the state became correct or
    wrong.
    """
    clean, tainted = w.repair[port, CLEAN], w.repair[port, TAINTED]
    was_unstable, was_refilling = w.repair[port, UNSTABLE] > 0, w.repair[port, REFILL] > 0
    left = max(0, w.repair[port, UNSTABLE] - clean)
    if tainted > 0:
        behind = 0
        while behind < clean and uniform(key, w.counter[FLOWS]) * (clean - behind + tainted) < clean - behind:
            behind += 1
            w.counter[FLOWS] += _ONE
        w.counter[FLOWS] += _ONE
        left = max(left, t.ports[port, TAINT] - behind)
    w.repair[port, UNSTABLE] = left
    w.repair[port, REFILL] = max(0, w.repair[port, REFILL] - clean)
    return was_unstable != (left > 0) or was_refilling != (w.repair[port, REFILL] > 0)


@_inlined
def _standby(t: Tables, w: Workspace, instance: int) -> bool:
    """Whether an instance is in a standby replica that does not count."""
    group = t.instances[instance, GROUP]
    return (
        group >= 0 and t.scalars[STANDBY_COUNTS] == 0.0 and w.group[group, ACTIVE] != t.instances[instance, REPLICA] + 1
    )


@_inlined
def _wrong(t: Tables, w: Workspace, instance: int) -> bool:
    """Whether the output of an instance is tainted because of its state."""
    filling = t.instances[instance, REFILL_TAINTS] == 1 and _refilling(t, w, instance)
    return filling or _unstable(t, w, instance)


@_inlined
def _unstable(t: Tables, w: Workspace, instance: int) -> bool:
    """Whether some state of an instance lacks lost tuples."""
    first = t.instances[instance, PORTS]
    for port in range(first, first + t.instances[instance, PORT_COUNT]):
        if w.repair[port, UNSTABLE] > 0 or w.repair[port, PENDING] > 0:
            return True
    return False


@_inlined
def _refilling(t: Tables, w: Workspace, instance: int) -> bool:
    """Whether an instance emits less because its state is not full."""
    first = t.instances[instance, PORTS]
    refilling = False
    for port in range(first, first + t.instances[instance, PORT_COUNT]):
        refilling = refilling or w.repair[port, REFILL] > 0
    return refilling


@_inlined
def _open(t: Tables, w: Workspace, link: int) -> bool:
    """Whether tuples on a link arrive: its target is alive, and its source's replica is active."""
    if w.being[t.ports[t.links[link, TARGET], INSTANCE], ALIVE] == 0:
        return False
    edge = t.links[link, EDGE_GROUP]
    return edge < 0 or w.group[edge, ACTIVE] == t.links[link, EDGE_REPLICA] + 1


@_inlined
def draw(w: Workspace, stream: int, rate: float, key: np.uint64) -> float:
    """Seconds to the next fault, or to the next tuple of a Poisson feed."""
    if rate <= 0.0:
        return NEVER
    delay, following = exponential(rate, key, w.counter[stream])
    w.counter[stream] = following
    return delay
