"""The faults of a model. Rates are per second, with exponential times between faults; all faults are independent.

- A crash discards an operator's queues and buffers; it runs again, with empty queues, `recovery` seconds later.
- A silent corruption affects an operator that is alive: the next tuple that it processes is tainted or, with
  probability `state_share` if it is stateful, its state is.
- A host failure crashes all operators on the host at once; each recovers separately.
- Sources fail like any other operator; `crash_rates` and `sdc_rates` override the rates of single operators.
- A forced crash happens once, at a given second.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from riprap.base.errors import UsageError
from riprap.san.streaming.application import Application


@dataclass(frozen=True)
class ModelHost:
    """Operators that share a machine. Of replicated operators it runs the first replicas; the second ones share
    another machine that fails as often, and so on."""

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
    hosts: tuple[ModelHost, ...] = ()
    forced: Mapping[str, float] = field(default_factory=dict)  # operator → second of a single crash

    def __post_init__(self) -> None:
        rates = {"the crash rate": self.crash_rate, "the corruption rate": self.sdc_rate}
        rates |= {f"the crash rate of {name}": rate for name, rate in self.crash_rates.items()}
        rates |= {f"the corruption rate of {name}": rate for name, rate in self.sdc_rates.items()}
        rates |= {f"the crash rate of host {host.name}": host.crash_rate for host in self.hosts}
        rates |= {f"the second of the forced crash of {name}": moment for name, moment in self.forced.items()}
        for what, rate in rates.items():
            if not rate >= 0:
                raise UsageError(f"{what} is {rate:g}; it must be 0 or more")
        if not self.recovery > 0:
            raise UsageError(f"a recovery of {self.recovery:g} s is impossible; it must be positive")
        if not 0 <= self.state_share <= 1:
            raise UsageError(f"the share of corruptions that hit state is {self.state_share:g}; it must be from 0 to 1")

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
    """Raises if a fault names an unknown operator."""
    application.named(faults.crash_rates, "a crash rate")
    application.named(faults.sdc_rates, "a corruption rate")
    application.named(faults.forced, "a forced crash")
    for host in faults.hosts:
        application.named(host.operators, f"host {host.name}")
