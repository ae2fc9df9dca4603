"""Invariants of every marking of a network: no token is created or lost.

An instance that is alive does one thing at a time: it waits, processes one tuple, or sends. A dead one does nothing and
has no tuples in flight to it. A crash that does not empty a place, a recovery that starts twice, or an activity that
continues after a crash violates this.
"""

from collections.abc import Sequence

from riprap.san.formalism import Invariant
from riprap.san.streaming.application import ModelOperator
from riprap.san.streaming.failures import Faults


def one_thing_at_a_time(name: str, operator: ModelOperator, faults: Faults, incoming: Sequence[str]) -> list[Invariant]:
    """Invariants of the instance `name`; `incoming`: the places of its input streams."""
    doing = [f"{name}.waiting"]
    for port in range(len(operator.inputs)):
        doing += [f"{name}.processing{port}", f"{name}.processing_tainted{port}"]
    sending = [
        f"{name}.{kind}{output}" for output in range(operator.outputs) for kind in ("sending", "sending_tainted")
    ]
    if sending:
        doing.append(f"min(1, {' + '.join(sending)})")
    alive = f"{name}.alive" if faults.any_crash else "1"
    invariants = [Invariant(f"{name} does one thing at a time while it is alive", f"{' + '.join(doing)} == {alive}")]
    if faults.any_crash and incoming:
        empty = f"{alive} == 1 or {' + '.join(incoming)} == 0"
        invariants.append(Invariant(f"nothing is in flight to {name} while it is dead", empty))
    return invariants
