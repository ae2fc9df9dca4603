"""The other end of a channel or of the coordinator, as a process of its own.

    consumer, with {"channel": "gap", "epoch": 1, "next": 0, "held": false},

prints its location, then of each arrival [kind, number, items, values of x in order and gapless, maximum resident kB];
`held`: takes nothing before it gets a line. Gets a second line or the end of its input: ends.

    element, with {"pe": "F", "attempt": 0, "location": "grpc://…"},

prints its registration, beats, tells the states that it gets as lines (or `fail`), ends when it is asked to.
"""

import json
import os
import resource
import sys
from threading import Thread

from wiring import LAYOUT, SCHEMA, channel

from riprap.base.clock import SYSTEM_CLOCK
from riprap.protocols.events import ProducerGone
from riprap.runtime.coordination.client import Client, CoordinatorLost
from riprap.runtime.coordination.element_states import WorkerState
from riprap.runtime.coordination.roster import ElementFenced
from riprap.runtime.host import Arrival
from riprap.runtime.messages import MessageKind
from riprap.runtime.run_context import Run
from riprap.runtime.transport.transport import Transport


def tell(what: object) -> None:
    print(json.dumps(what), flush=True)


def consumer(run: Run, settings: dict) -> None:
    of = channel(settings["channel"])
    expected = settings["next"]
    transport = Transport(
        LAYOUT.consumer(of), settings["epoch"], {of: SCHEMA}, {}, lambda _: expected, lambda *_: None, run
    )
    tell(transport.location)
    if settings.get("held"):
        sys.stdin.readline()
    ending = []
    Thread(target=lambda: (sys.stdin.readline(), ending.append(1), transport.wake()), daemon=True).start()
    while not ending:
        for event in transport.poll(1.0):
            if isinstance(event, ProducerGone):
                tell(["gone", event.epoch])
            elif isinstance(event, Arrival):
                message = event.message
                number, items = message.number, message.items
                rows = message.batch.batch() if message.batch is not None else None
                fine = rows is None or (
                    rows.column(1).to_pylist() == list(range(number, number + items))
                    and rows.column(0).to_pylist() == [f"k{n % 5}" for n in range(number, number + items)]
                )
                expected = max(expected, number + items)
                transport.acknowledge(of, expected)
                tell(
                    [
                        MessageKind(message.kind).name,
                        number,
                        items,
                        fine,
                        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
                    ]
                )
    transport.close()
    tell("closed")


def element(run: Run, settings: dict) -> None:
    client = Client(run, settings["pe"], settings["attempt"], executor_pid=7)
    try:
        tell(client.register())
        client.announce(settings["location"])
        lines: list[str] = []
        Thread(target=lambda: lines.extend(iter(sys.stdin.readline, "")), daemon=True).start()
        while not client.stopping:
            client.beat({"pid": os.getpid()})
            while lines:
                line = lines.pop(0).strip()
                if line == "fail":
                    client.failed("it went wrong")
                else:
                    client.status(WorkerState(line))
            SYSTEM_CLOCK.sleep(run.heartbeat)
        client.status(WorkerState.ENDED)
    except (ElementFenced, CoordinatorLost) as error:
        tell([type(error).__name__, str(error)])
    finally:
        client.close()


ROLES = {"consumer": consumer, "element": element}
