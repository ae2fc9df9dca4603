"""A deployment as tables of numbers: the input of the accelerated simulator.

Each table is a two-dimensional array; the constants below name its columns. A list of variable length is a pair of
columns: its start in another table, and its number of entries. -1 means "none".
"""

from typing import NamedTuple

import numpy as np

from riprap.san.samplers import NEVER
from riprap.san.streaming.deployment import Deployment, ModelLink, Shock
from riprap.san.streaming.failures import Faults

# instances: integers
(PORTS, PORT_COUNT, OUTPUTS, OUTPUT_COUNT, GROUP, REPLICA, SINK, SHOCKS, SHOCK_COUNT, PEER, OPERATOR, REFILL_TAINTS) = (
    range(12)
)
# fault rates of instances
CRASH_RATE, SDC_RATE, FORCED_AT = range(3)
# input ports
INSTANCE, STATEFUL, TAINT, RESTART_TAINTED, RESTART_REFILL, EMISSIONS, EMISSION_COUNT = range(7)
# output ports
LINKS, LINK_COUNT = range(2)
# links
TARGET, EDGE_GROUP, EDGE_REPLICA, TWIN = range(4)
# feeds: sources and timers
FEED_PORT, POISSON = range(2)
# groups
GROUP_SHOCKS, GROUP_SHOCK_COUNT, REPLICAS = range(3)
# scalars: seconds of an outage; share of corruptions that affect state; selectivity while refilling; seconds or NEVER;
# 1 if standby replicas count
RECOVERY, STATE_SHARE, REFILL_SHARE, PUNCTUATION, STANDBY_COUNTS = range(5)
# shocks
SHOCK_PORT, SHOCK_TUPLES = range(2)


class Tables(NamedTuple):
    """See the columns above. `order`: instances upstream first. `members`: (host, instance) pairs."""

    order: np.ndarray
    instances: np.ndarray
    rates: np.ndarray
    ports: np.ndarray
    emissions: np.ndarray  # per emission: probability clean, tainted
    tuples: np.ndarray  # per emission and output port: tuples
    outputs: np.ndarray
    links: np.ndarray
    feeds: np.ndarray
    feed_rates: np.ndarray
    shocks: np.ndarray
    groups: np.ndarray
    failovers: np.ndarray
    hosts: np.ndarray  # crash rates
    members: np.ndarray
    scalars: np.ndarray


def tables(deployment: Deployment, faults: Faults) -> Tables:
    """Converts a deployment to tables."""
    application = deployment.application
    operators = {operator.name: number for number, operator in enumerate(application.operators)}
    order = [index for name in application.order for index in deployment.of_operator[name]]
    shocks: list[Shock] = []
    instances: list[list[int]] = []
    ports: list[list[int]] = []
    tuples: list[list[int]] = []
    outputs: list[list[int]] = []
    links: list[list[int]] = []
    rates: list[list[float]] = []
    emissions: list[list[float]] = []
    width = max(1, *(operator.outputs for operator in application.operators))
    first_port = np.cumsum([0, *(len(each.operator.inputs) for each in deployment.instances)])
    link_number: dict[ModelLink, int] = {}
    for index in range(len(deployment.instances)):
        for output in range(deployment.instances[index].operator.outputs):
            for link in deployment.links:
                if (link.source, link.output) == (index, output):
                    link_number[link] = len(link_number)
    sinks = 0
    for index, instance in enumerate(deployment.instances):
        operator = instance.operator
        group, replica = deployment.membership.get(index, (-1, -1))
        peers = deployment.peers(index)
        own_shocks = deployment.crash_shocks(index)
        instances.append(
            [
                first_port[index],
                len(operator.inputs),
                len(outputs),
                operator.outputs,
                group,
                replica,
                sinks if operator.sink else -1,
                len(shocks),
                len(own_shocks),
                peers[0] if peers else -1,
                operators[operator.name],
                int(deployment.taints_refilling(index)),
            ]
        )
        sinks += operator.sink
        shocks += own_shocks
        rates.append(
            [
                faults.crash_rate_of(operator.name),
                faults.sdc_rate_of(operator.name),
                faults.forced.get(operator.name, NEVER),
            ]
        )
        for number, port in enumerate(operator.inputs):
            restart = instance.restarts[number]
            ports.append(
                [
                    index,
                    int(port.stateful),
                    port.taint_stabilisation if port.stateful else 0,
                    restart.tainted,
                    restart.refill,
                    len(emissions),
                    len(port.emissions),
                ]
            )
            for clean, dirty in zip(port.emissions, port.tainted, strict=True):
                emissions.append([clean.probability, dirty.probability])
                tuples.append([*clean.tuples, *[0] * (width - operator.outputs)])
        for output in range(operator.outputs):
            links_of_port = [link for link in link_number if (link.source, link.output) == (index, output)]
            outputs.append([link_number[links_of_port[0]] if links_of_port else 0, len(links_of_port)])
    for link in link_number:
        edge = deployment.membership[link.source] if deployment.leaves_group(link) else (-1, -1)
        twins = [
            number
            for other, number in link_number.items()
            if other.source in deployment.peers(link.source)
            and (other.output, other.target, other.input) == (link.output, link.target, link.input)
        ]
        links.append([first_port[link.target] + link.input, *edge, twins[0] if twins else -1])
    feeds, feed_rates = [], []
    for index, instance in enumerate(deployment.instances):
        if instance.operator.arrivals:
            feeds.append([first_port[index], int(instance.operator.arrivals.poisson)])
            feed_rates.append(instance.operator.arrivals.rate)
        if instance.operator.timer:
            feeds.append([first_port[index] + instance.operator.timer[0], 0])
            feed_rates.append(1 / instance.operator.timer[1])
    groups = []
    for number, each in enumerate(deployment.groups):
        own_shocks = deployment.group_shocks(number)
        groups.append([len(shocks), len(own_shocks), len(each.replicas)])
        shocks += own_shocks
    machines = deployment.machines(faults.hosts)
    members = [[number, instance] for number, (_, _, own) in enumerate(machines) for instance in own]
    return Tables(
        np.array(order, np.int64),
        _whole(instances, 12),
        np.array(rates, np.float64),
        _whole(ports, 7),
        np.array(emissions, np.float64).reshape(-1, 2),
        _whole(tuples, width),
        _whole(outputs, 2),
        _whole(links, 4),
        _whole(feeds, 2),
        np.array(feed_rates, np.float64),
        _whole([[first_port[shock.instance] + shock.port, shock.tuples] for shock in shocks], 2),
        _whole(groups, 3),
        np.array([each.failover for each in deployment.groups], np.float64),
        np.array([rate for _, rate, _ in machines], np.float64),
        _whole(members, 2),
        np.array(
            [
                deployment.recovery,
                faults.state_share,
                deployment.refill_selectivity,
                deployment.punctuation or NEVER,
                float(deployment.reading.standby_counts),
            ]
        ),
    )


def _whole(rows: list[list[int]], width: int) -> np.ndarray:
    return np.array(rows, np.int64).reshape(-1, width)
