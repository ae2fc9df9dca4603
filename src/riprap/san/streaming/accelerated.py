"""The accelerated simulator: the same distributions as the network of activities, without moving single tuples.

Between two events (crash, recovery, fail-over, corruption, punctuation) nothing changes but counts, and a count of tuples
that each pass with some probability is binomial. So time advances in *strides*: over a stride every operator draws how many
of the tuples it received lead to what. While nothing is faulty a stride reaches to the next event, hours if need be.

While some state is being repaired, its repair must end at the right tuple. A stride is then short enough that no repair can
end within it (six standard deviations), and shorter and shorter as the end comes near, until the simulator goes tuple by
tuple; it also does so while a tainted tuple is about to reach a state that is still right.

What is left out is the time a tuple takes through the graph, microseconds where the network of activities has them; queues
are taken to be short, as they are below saturation (`check_load`). Tuples of one stride that meet at a port are taken to
come in random order.
"""

from math import inf, sqrt

import numpy as np
from numba import njit

from riprap.base.errors import UsageError
from riprap.san.generator import uniform
from riprap.san.machine import borrowed
from riprap.san.samplers import NEVER, binomial, exponential, poisson
from riprap.san.streaming.application import Application
from riprap.san.streaming.tables import (
    CRASH_RATE,
    EDGE_GROUP,
    EDGE_REPLICA,
    EMISSION_COUNT,
    EMISSIONS,
    FEED_PORT,
    FORCED_AT,
    GROUP,
    GROUP_SHOCK_COUNT,
    GROUP_SHOCKS,
    INSTANCE,
    LINK_COUNT,
    LINKS,
    OPERATOR,
    OUTPUT_COUNT,
    OUTPUTS,
    PEER,
    POISSON,
    PORT_COUNT,
    PORTS,
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
    STATEFUL,
    TAINT,
    TARGET,
    TWIN,
    Tables,
)

MOST_LOAD = 0.9  # share of its time that an operator may be busy for its queue to count as short
MANY, NOBODY = -1, -2  # who arrives during a stride, if not the next tuple of one feed

_FEW = 2.0  # tuples expected in a stride below which the simulator goes tuple by tuple
_ONE = np.uint64(1)
_SURE = 6.0  # standard deviations by which a stride stays clear of the end of a repair


def check_load(application: Application) -> None:
    """Refuse an application whose queues grow: counts alone do not describe it."""
    for operator in application.operators:
        load = sum(
            application.rates[operator.name, index] * port.seconds for index, port in enumerate(operator.inputs)
        )
        if load > MOST_LOAD:
            raise UsageError(
                f"{operator.name} is busy {load:.0%} of its time, and the accelerated simulator takes queues to be short: "
                f"lower the rate until it is below {MOST_LOAD:.0%}, or use the method tokens"
            )


def simulate(tables: Tables, keys: np.ndarray, horizon: float) -> np.ndarray:
    """One row per key: availability, availability without propagation, then tuples and tainted tuples of each sink."""
    sinks = int(tables.instances[:, SINK].max()) + 1
    results = np.zeros((len(keys), 2 + 2 * sinks))
    instances, ports, links = len(tables.instances), len(tables.ports), len(tables.links)
    workspace = (
        np.empty((instances, 3), np.int64), np.empty((instances, 3)), np.empty((ports, 5), np.int64), np.empty((ports, 2)),
        np.empty((links, 2), np.int64), np.empty((len(tables.groups), 2), np.int64), np.empty(len(tables.groups)),
        np.empty(len(tables.hosts)), np.empty(len(tables.feeds), np.int64), np.empty((tables.tuples.shape[1], 2), np.int64),
        np.empty((tables.tuples.shape[1], 2)), np.empty(int(tables.instances[:, OPERATOR].max()) + 1, np.int64),
        np.zeros(1, np.uint64),
    )  # fmt: skip
    _many(keys, float(horizon), results, *tables.arrays(), *workspace)
    return results


# Columns of the workspace: instances …
_ALIVE, _CORRUPT, _FORCED = range(3)
_CRASH_AT, _SDC_AT, _BACK_AT = range(3)
# … ports (clean tuples still to process, …) …
_UNSTABLE, _REFILL, _PENDING, _CLEAN, _TAINTED = range(5)
# … groups: 1 + active replica, 1 + the replica that is being activated.
_ACTIVE, _CANDIDATE = range(2)


@njit(nogil=True, cache=True)
def _many(
    keys, horizon, results, order, instances, rates, ports, emissions, tuples, outputs, links, feeds, feed_rates, shocks,
    groups, failovers, hosts, members, scalars, being, moments, repair, flow, seen, group, failover_at, host_at, ticks,
    out, out_rate, fit, counter,
):  # fmt: skip
    for row in range(keys.shape[0]):
        _one(
            keys[row], horizon, borrowed(results[row]), borrowed(order), borrowed(instances), borrowed(rates),
            borrowed(ports), borrowed(emissions), borrowed(tuples), borrowed(outputs), borrowed(links), borrowed(feeds),
            borrowed(feed_rates), borrowed(shocks), borrowed(groups), borrowed(failovers), borrowed(hosts),
            borrowed(members), borrowed(scalars), borrowed(being), borrowed(moments), borrowed(repair), borrowed(flow),
            borrowed(seen), borrowed(group), borrowed(failover_at), borrowed(host_at), borrowed(ticks), borrowed(out),
            borrowed(out_rate), borrowed(fit), borrowed(counter),
        )  # fmt: skip


@njit(cache=True)
def _one(
    key, horizon, result, order, instances, rates, ports, emissions, tuples, outputs, links, feeds, feed_rates, shocks,
    groups, failovers, hosts, members, scalars, being, moments, repair, flow, seen, group, failover_at, host_at, ticks,
    out, out_rate, fit, counter,
):  # fmt: skip
    """One replication."""
    counter[0] = 0
    result[:] = 0.0
    being[:, _ALIVE] = 1
    being[:, _CORRUPT] = 0
    being[:, _FORCED] = 0
    repair[:] = 0
    seen[:] = 0
    group[:, _ACTIVE] = 1
    group[:, _CANDIDATE] = 0
    failover_at[:] = inf
    ticks[:] = 1
    for instance in range(instances.shape[0]):
        moments[instance, _CRASH_AT] = _draw(rates[instance, CRASH_RATE], key, counter)
        moments[instance, _SDC_AT] = _draw(rates[instance, SDC_RATE], key, counter)
        moments[instance, _BACK_AT] = inf
    for host in range(hosts.shape[0]):
        host_at[host] = _draw(hosts[host], key, counter)
    punctuation_at = scalars[3]
    now = 0.0
    available = alive = 1
    changed = True  # whether rates and availability, which follow from who is right, alive and active, must be found anew
    while True:
        until = min(horizon, punctuation_at)
        for instance in range(instances.shape[0]):
            for column in range(3):
                until = min(until, moments[instance, column])
            if being[instance, _FORCED] == 0:
                until = min(until, rates[instance, FORCED_AT])
        for each in range(failover_at.shape[0]):
            until = min(until, failover_at[each])
        for host in range(host_at.shape[0]):
            until = min(until, host_at[host])
        while now < until:
            if changed:
                available, alive = _status(instances, ports, being, repair, fit)
                _expect(
                    order, instances, ports, emissions, tuples, outputs, links, feeds, feed_rates, scalars, being, repair,
                    flow, group, out_rate,
                )  # fmt: skip
            end, arriving = _stride(
                now, until, instances, ports, feeds, feed_rates, being, repair, flow, ticks, key, counter
            )
            result[0] += (end - now) * available
            result[1] += (end - now) * alive
            changed = _move(
                now, end, arriving, result, order, instances, ports, emissions, tuples, outputs, links, feeds, feed_rates,
                scalars, being, repair, seen, group, ticks, out, key, counter,
            )  # fmt: skip
            now = end
        if now >= horizon:
            break
        # Whatever is due now happens now; one pass is enough, because nothing new can become due at once.
        if punctuation_at <= now:
            seen[:] = 0
            punctuation_at += scalars[3]
            continue
        changed = True
        for host in range(host_at.shape[0]):
            if host_at[host] <= now:
                for member in range(members.shape[0]):
                    if members[member, 0] == host:
                        _crash(members[member, 1], now, instances, scalars, shocks, being, moments, repair)
                host_at[host] = now + _draw(hosts[host], key, counter)
        for instance in range(instances.shape[0]):
            if moments[instance, _BACK_AT] <= now:
                _recover(instance, now, instances, ports, rates, shocks, being, moments, repair, key, counter)
            if moments[instance, _SDC_AT] <= now:
                _corrupt(instance, instances, ports, scalars, being, repair, key, counter)
                moments[instance, _SDC_AT] = now + _draw(rates[instance, SDC_RATE], key, counter)
            if moments[instance, _CRASH_AT] <= now:
                _crash(instance, now, instances, scalars, shocks, being, moments, repair)
            if being[instance, _FORCED] == 0 and rates[instance, FORCED_AT] <= now:
                being[instance, _FORCED] = 1
                _crash(instance, now, instances, scalars, shocks, being, moments, repair)
        for each in range(groups.shape[0]):
            _supervise(each, now, instances, groups, failovers, shocks, ports, being, repair, group, failover_at)
    result[0] /= horizon
    result[1] /= horizon


@njit(cache=True)
def _draw(rate, key, counter):
    if rate <= 0.0:
        return NEVER
    delay, following = exponential(rate, key, counter[0])
    counter[0] = following
    return delay


@njit(cache=True)
def _crash(instance, now, instances, scalars, shocks, being, moments, repair):
    """Everything it held is lost; state downstream of it misses tuples from now on."""
    if being[instance, _ALIVE] == 0:
        return
    being[instance, _ALIVE] = 0
    being[instance, _CORRUPT] = 0
    moments[instance, _CRASH_AT] = inf
    moments[instance, _SDC_AT] = inf
    moments[instance, _BACK_AT] = now + scalars[0]
    first = instances[instance, PORTS]
    for port in range(first, first + instances[instance, PORT_COUNT]):
        repair[port, _UNSTABLE] = 0
        repair[port, _REFILL] = 0
    peer = instances[instance, PEER]
    if peer < 0 or being[peer, _ALIVE] == 0:
        first = instances[instance, SHOCKS]
        for shock in range(first, first + instances[instance, SHOCK_COUNT]):
            repair[shocks[shock, SHOCK_PORT], _PENDING] += 1


@njit(cache=True)
def _recover(instance, now, instances, ports, rates, shocks, being, moments, repair, key, counter):
    peer = instances[instance, PEER]
    if peer < 0 or being[peer, _ALIVE] == 0:
        first = instances[instance, PORTS]
        for port in range(first, first + instances[instance, PORT_COUNT]):
            repair[port, _UNSTABLE] = ports[port, RESTART_TAINTED]
            repair[port, _REFILL] = ports[port, RESTART_REFILL]
        first = instances[instance, SHOCKS]
        _release(first, instances[instance, SHOCK_COUNT], ports, shocks, being, repair)
    being[instance, _ALIVE] = 1
    moments[instance, _BACK_AT] = inf
    moments[instance, _CRASH_AT] = now + _draw(rates[instance, CRASH_RATE], key, counter)
    moments[instance, _SDC_AT] = now + _draw(rates[instance, SDC_RATE], key, counter)


@njit(cache=True)
def _release(first, count, ports, shocks, being, repair):
    """An outage upstream is over: from here on, clean tuples repair the state."""
    for shock in range(first, first + count):
        port = shocks[shock, SHOCK_PORT]
        repair[port, _PENDING] -= 1
        if being[ports[port, INSTANCE], _ALIVE] == 1:
            repair[port, _UNSTABLE] = max(repair[port, _UNSTABLE], shocks[shock, SHOCK_TUPLES])


@njit(cache=True)
def _corrupt(instance, instances, ports, scalars, being, repair, key, counter):
    """Silent corruption of the state, or of the next tuple."""
    first = instances[instance, PORTS]
    last = first + instances[instance, PORT_COUNT]
    stateful = False
    for port in range(first, last):
        stateful = stateful or ports[port, STATEFUL] == 1
    hits_state = False
    if stateful:
        hits_state = uniform(key, counter[0]) >= 1.0 - scalars[1]
        counter[0] += _ONE
    if not hits_state:
        being[instance, _CORRUPT] = 1
        return
    for port in range(first, last):
        if ports[port, STATEFUL] == 1:
            repair[port, _UNSTABLE] = max(repair[port, _UNSTABLE], ports[port, TAINT])


@njit(cache=True)
def _supervise(each, now, instances, groups, failovers, shocks, ports, being, repair, group, failover_at):
    """Deactivate a replica that is not whole; activate the first whole one, once it has been that for a fail-over."""
    if group[each, _ACTIVE] == 0 and failover_at[each] <= now:
        group[each, _ACTIVE] = group[each, _CANDIDATE]
        failover_at[each] = inf
        group[each, _CANDIDATE] = 0
        _release(groups[each, GROUP_SHOCKS], groups[each, GROUP_SHOCK_COUNT], ports, shocks, being, repair)
    whole = 0
    for replica in range(groups[each, REPLICAS] - 1, -1, -1):
        all_alive = True
        for instance in range(instances.shape[0]):
            if instances[instance, GROUP] == each and instances[instance, REPLICA] == replica:
                all_alive = all_alive and being[instance, _ALIVE] == 1
        if all_alive:
            whole = replica + 1
        elif group[each, _ACTIVE] == replica + 1:
            group[each, _ACTIVE] = 0
            first = groups[each, GROUP_SHOCKS]
            for shock in range(first, first + groups[each, GROUP_SHOCK_COUNT]):
                repair[shocks[shock, SHOCK_PORT], _PENDING] += 1
    if group[each, _ACTIVE] == 0 and whole != group[each, _CANDIDATE]:
        group[each, _CANDIDATE] = whole
        failover_at[each] = now + failovers[each] if whole else inf


@njit(cache=True)
def _status(instances, ports, being, repair, fit):
    """(available, every operator alive in some copy), as 1 or 0."""
    tainted = False
    for port in range(ports.shape[0]):
        tainted = tainted or repair[port, _UNSTABLE] > 0 or repair[port, _PENDING] > 0
    fit[:] = 0
    for instance in range(instances.shape[0]):
        if being[instance, _ALIVE] == 1:
            value = 2
            first = instances[instance, PORTS]
            for port in range(first, first + instances[instance, PORT_COUNT]):
                if repair[port, _REFILL] > 0:
                    value = 1
            fit[instances[instance, OPERATOR]] = max(fit[instances[instance, OPERATOR]], value)
    least = fit.min()
    return int(least == 2 and not tainted), int(least >= 1)


@njit(cache=True)
def _wrong(instance, instances, repair):
    first = instances[instance, PORTS]
    for port in range(first, first + instances[instance, PORT_COUNT]):
        if repair[port, _UNSTABLE] > 0 or repair[port, _PENDING] > 0:
            return True
    return False


@njit(cache=True)
def _refilling(instance, instances, repair):
    first = instances[instance, PORTS]
    for port in range(first, first + instances[instance, PORT_COUNT]):
        if repair[port, _REFILL] > 0:
            return True
    return False


@njit(cache=True)
def _open(link, links, ports, being, group):
    """Whether what is sent into a link arrives: its target is alive, and its source's replica is the active one."""
    if being[ports[links[link, TARGET], INSTANCE], _ALIVE] == 0:
        return False
    edge = links[link, EDGE_GROUP]
    return edge < 0 or group[edge, _ACTIVE] == links[link, EDGE_REPLICA] + 1


@njit(cache=True)
def _stride(now, until, instances, ports, feeds, feed_rates, being, repair, flow, ticks, key, counter):
    """(end of the next stride, who arrives in it: many, one feed's next tuple, or nobody)."""
    repairing = False
    single = False
    for port in range(ports.shape[0]):
        repairing = repairing or repair[port, _UNSTABLE] > 0 or repair[port, _REFILL] > 0 or repair[port, _PENDING] > 0
    for instance in range(instances.shape[0]):
        single = single or being[instance, _CORRUPT] == 1
    if not repairing and not single:
        return until, MANY
    end = until
    if not single:
        for port in range(ports.shape[0]):
            if ports[port, STATEFUL] == 0 or being[ports[port, INSTANCE], _ALIVE] == 0:
                continue
            left = inf
            if repair[port, _UNSTABLE] > 0:
                left = repair[port, _UNSTABLE]
            elif flow[port, 1] > 0.0:
                single = True  # the first tainted tuple will make a right state wrong
            if repair[port, _REFILL] > 0:
                left = min(left, repair[port, _REFILL])
            if left < inf and flow[port, 0] > 0.0:
                root = (sqrt(_SURE * _SURE + 4.0 * max(0.0, left - 1.0)) - _SURE) / 2.0
                end = min(end, now + root * root / flow[port, 0])
    total = 0.0
    for feed in range(feeds.shape[0]):
        total += feed_rates[feed]
    if not single and (end - now) * total >= _FEW:
        return end, MANY
    # A stride would hold hardly any tuple: go to the next one instead.
    end, arriving = until, NOBODY
    for feed in range(feeds.shape[0]):
        moment = ticks[feed] / feed_rates[feed]
        if feeds[feed, POISSON] == 1:
            moment = now + _draw(feed_rates[feed], key, counter)
        if moment < end:
            end, arriving = moment, feed
    return end, arriving


@njit(cache=True)
def _expect(
    order, instances, ports, emissions, tuples, outputs, links, feeds, feed_rates, scalars, being, repair, flow, group, out_rate
):  # fmt: skip
    """Mean rates of clean and tainted tuples into every port, as things stand."""
    flow[:] = 0.0
    for feed in range(feeds.shape[0]):
        flow[feeds[feed, FEED_PORT], 0] += feed_rates[feed]
    for instance in order:
        if being[instance, _ALIVE] == 0:
            continue
        wrong = _wrong(instance, instances, repair)
        share = scalars[2] if _refilling(instance, instances, repair) else 1.0
        out_rate[:] = 0.0
        first = instances[instance, PORTS]
        for port in range(first, first + instances[instance, PORT_COUNT]):
            for emission in range(ports[port, EMISSIONS], ports[port, EMISSIONS] + ports[port, EMISSION_COUNT]):
                for output in range(instances[instance, OUTPUT_COUNT]):
                    count = tuples[emission, output]
                    tainted = emissions[emission, 1] * count
                    if wrong:
                        out_rate[output, 1] += (flow[port, 0] + flow[port, 1]) * tainted
                    else:
                        out_rate[output, 0] += flow[port, 0] * emissions[emission, 0] * count * share
                        out_rate[output, 1] += flow[port, 1] * tainted
        for output in range(instances[instance, OUTPUT_COUNT]):
            entry = instances[instance, OUTPUTS] + output
            for link in range(outputs[entry, LINKS], outputs[entry, LINKS] + outputs[entry, LINK_COUNT]):
                if _open(link, links, ports, being, group):
                    # Of twins, each is taken to pass everything: too much, which only makes strides shorter.
                    flow[links[link, TARGET], 0] += out_rate[output, 0]
                    flow[links[link, TARGET], 1] += out_rate[output, 1]


@njit(cache=True)
def _move(
    now, end, arriving, result, order, instances, ports, emissions, tuples, outputs, links, feeds, feed_rates, scalars, being,
    repair, seen, group, ticks, out, key, counter,
):  # fmt: skip
    """Everything that flows from `now` to `end`, drawn in bulk. Returns whether some state became right or wrong."""
    changed = False
    repair[:, _CLEAN] = 0
    repair[:, _TAINTED] = 0
    for feed in range(feeds.shape[0]):
        if feeds[feed, POISSON] == 1:
            count = int(arriving == feed)
            if arriving == MANY:
                count, following = poisson(feed_rates[feed] * (end - now), key, counter[0])
                counter[0] = following
        else:
            last = int(end * feed_rates[feed] * (1.0 + 1e-15) + 1e-9)
            count = max(0, last - ticks[feed] + 1)
            ticks[feed] += count
        repair[feeds[feed, FEED_PORT], _CLEAN] += count
    for instance in order:
        if being[instance, _ALIVE] == 0:
            continue
        first = instances[instance, PORTS]
        last_port = first + instances[instance, PORT_COUNT]
        arrived = 0
        for port in range(first, last_port):
            arrived += repair[port, _CLEAN] + repair[port, _TAINTED]
        if arrived == 0:
            continue
        wrong = _wrong(instance, instances, repair)
        share = scalars[2] if _refilling(instance, instances, repair) else 1.0
        out[:] = 0
        for port in range(first, last_port):
            clean = repair[port, _CLEAN]
            corrupted = 0
            if being[instance, _CORRUPT] == 1 and clean > 0:
                corrupted = 1
                being[instance, _CORRUPT] = 0
            if instances[instance, SINK] >= 0:
                column = 2 + 2 * instances[instance, SINK]
                result[column] += clean + repair[port, _TAINTED]
                result[column + 1] += corrupted + repair[port, _TAINTED]
                continue
            if wrong:
                _emit(port, clean + repair[port, _TAINTED], 1, 1, 1.0, ports, emissions, tuples, out, key, counter)
            else:
                _emit(port, clean - corrupted, 0, 0, share, ports, emissions, tuples, out, key, counter)
                _emit(port, corrupted + repair[port, _TAINTED], 1, 1, 1.0, ports, emissions, tuples, out, key, counter)
        for port in range(first, last_port):
            if ports[port, STATEFUL] == 1:
                changed = _heal(port, ports, repair, key, counter) or changed
        for output in range(instances[instance, OUTPUT_COUNT]):
            entry = instances[instance, OUTPUTS] + output
            for link in range(outputs[entry, LINKS], outputs[entry, LINKS] + outputs[entry, LINK_COUNT]):
                if _open(link, links, ports, being, group):
                    twin = links[link, TWIN]
                    for kind in range(2):
                        passed = out[output, kind]
                        if twin >= 0:
                            # Of two copies' tuples, those pass that are ahead of the other copy's.
                            before = max(seen[link, kind], seen[twin, kind])
                            seen[link, kind] += passed
                            passed = max(before, seen[link, kind]) - before
                        repair[links[link, TARGET], _CLEAN + kind] += passed
    return changed


@njit(cache=True)
def _emit(port, count, column, kind, share, ports, emissions, tuples, out, key, counter):
    """Draw what `count` tuples at `port` lead to, and add it to `out`."""
    left = 1.0
    for emission in range(ports[port, EMISSIONS], ports[port, EMISSIONS] + ports[port, EMISSION_COUNT]):
        chance = emissions[emission, column] * share
        if count == 0 or chance <= 0.0:
            continue
        chosen, following = binomial(count, min(1.0, chance / left), key, counter[0])
        counter[0] = following
        count -= chosen
        left -= chance
        for output in range(out.shape[0]):
            out[output, kind] += chosen * tuples[emission, output]


@njit(cache=True)
def _heal(port, ports, repair, key, counter):
    """What a stride's tuples do to the state behind a port: clean ones repair it, each tainted one sets it back.

    After the last tainted tuple the state needs `TAINT` clean ones; if k of the clean ones come after it, TAINT - k are left.
    Earlier tainted tuples leave less than that, so the larger of both demands is what remains. Returns whether the state
    became right or wrong.
    """
    clean, tainted = repair[port, _CLEAN], repair[port, _TAINTED]
    was_unstable, was_refilling = repair[port, _UNSTABLE] > 0, repair[port, _REFILL] > 0
    left = max(0, repair[port, _UNSTABLE] - clean)
    if tainted > 0:
        behind = 0
        while behind < clean and uniform(key, counter[0]) * (clean - behind + tainted) < clean - behind:
            behind += 1
            counter[0] += _ONE
        counter[0] += _ONE
        left = max(left, ports[port, TAINT] - behind)
    repair[port, _UNSTABLE] = left
    repair[port, _REFILL] = max(0, repair[port, _REFILL] - clean)
    return was_unstable != (left > 0) or was_refilling != (repair[port, _REFILL] > 0)
