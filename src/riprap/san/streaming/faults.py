"""What goes wrong. Every rate is per second, for exponential times between faults; different faults are independent.

- A crash discards everything in an operator's queues and buffers; it is back, empty-handed, `recovery` seconds later.
- A silent corruption hits an operator that is alive: the next tuple it processes is tainted, or, with `state_share`
  if it has state, its state is.
- A host takes all operators on it down at once, each then recovering on its own.
- Sources fail like any other operator; `crash_rates` and `sdc_rates` set single operators apart.
- A forced crash happens once, at a given second.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from riprap.base.errors import UsageError
from riprap.san.streaming.application import Application


@dataclass(frozen=True)
class Host:
    """Operators that share a machine. Of a replicated operator it holds the first replica."""

    name: str
    operators: tuple[str, ...]
    crash_rate: float


@dataclass(frozen=True)
class Faults:
    crash_rate: float = 0.0
    sdc_rate: float = 0.0
    recovery: float = 3.5  # seconds from a crash to running again
    state_share: float = 0.5
    crash_rates: Mapping[str, float] = field(default_factory=dict)  # operator → its own rate
    sdc_rates: Mapping[str, float] = field(default_factory=dict)
    hosts: tuple[Host, ...] = ()
    forced: Mapping[str, float] = field(default_factory=dict)  # operator → second of a single crash

    def crash_rate_of(self, operator: str) -> float:
        return self.crash_rates.get(operator, self.crash_rate)

    def sdc_rate_of(self, operator: str) -> float:
        return self.sdc_rates.get(operator, self.sdc_rate)

    @property
    def any_crash(self) -> bool:
        rates = (self.crash_rate, *self.crash_rates.values(), *(host.crash_rate for host in self.hosts))
        return any(rates) or bool(self.forced)

    @property
    def any_sdc(self) -> bool:
        return any((self.sdc_rate, *self.sdc_rates.values()))


NO_FAULTS = Faults()


def check(faults: Faults, application: Application) -> None:
    """Say which fault cannot be."""
    for what, rates in (
        ("crash", faults.crash_rates),
        ("corruption", faults.sdc_rates),
        ("forced crash", faults.forced),
    ):
        application.named(rates, f"a {what} rate" if what != "forced crash" else "a forced crash")
        for name, rate in rates.items():
            if not rate >= 0:
                raise UsageError(f"the {what} rate of {name} is {rate:g}; it must be 0 or more")
    for what, rate in (("crash", faults.crash_rate), ("corruption", faults.sdc_rate)):
        if not rate >= 0:
            raise UsageError(f"the {what} rate is {rate:g}; it must be 0 or more per second")
    if not faults.recovery > 0:
        raise UsageError(f"a recovery of {faults.recovery:g} s cannot be; it must be positive")
    if not 0 <= faults.state_share <= 1:
        raise UsageError(f"the share of corruptions that hit state is {faults.state_share:g}; it must be from 0 to 1")
    for host in faults.hosts:
        application.named(host.operators, f"host {host.name}")
        if not host.crash_rate >= 0:
            raise UsageError(f"host {host.name} has crash rate {host.crash_rate:g}; it must be 0 or more")
