"""The configurations of the published study, and the readings of the second one.

The figure with the two groups of configuration 2 is lost, and the text leaves open how standby replicas
count. It states: QuoteFilter (Filter 4) needs a restart only; the groups of the re-deployed application are
those of Source and TradeQuote, and of TradeFilter, Aggregator and VWAP (section 4.5.4); when the operators that are not
replicated fail, no output is produced (5.6.4), which is true only of Filter 4 and the join.
"""

from dataclasses import dataclass

from riprap.san.streaming.deployment import GroupInterpretation
from riprap.san.streaming.failures import Faults
from riprap.san.streaming.scenario import ModelProtection, ModelScenario
from riprap_papers.san.published_apps import bargain_discovery

HOUR = 3600.0
CHECKPOINT = "checkpoint"

_TRADES = ("Filter 2", "Aggregate", "Filter 3")


@dataclass(frozen=True)
class Configuration:
    """One reading of configuration 2; the join is checkpointed in all of them."""

    name: str
    groups: tuple[tuple[str, ...], ...]
    reading: GroupInterpretation


QUOTES_GROUPED = Configuration(
    "Filter 2–3 and Filter 4, every replica counts", (_TRADES, ("Filter 4",)), GroupInterpretation(standby_counts=True)
)
STANDBY_COUNTS = Configuration(
    "Source–Filter 1 and Filter 2–3, every replica counts",
    (("Source", "Filter 1"), _TRADES),
    GroupInterpretation(standby_counts=True),
)
ACTIVE_COUNTS = Configuration(
    "Source–Filter 1 and Filter 2–3, the active replica counts",
    (("Source", "Filter 1"), _TRADES),
    GroupInterpretation(),
)
REFILL_TAINTED = Configuration(
    "the same, and a refilling replica emits wrong tuples",
    (("Source", "Filter 1"), _TRADES),
    GroupInterpretation(refill_tainted=True),
)
CONFIGURATIONS = (QUOTES_GROUPED, STANDBY_COUNTS, ACTIVE_COUNTS, REFILL_TAINTED)
TAKEN = ACTIVE_COUNTS  # fits most statements: `riprap reproduce san` shows it


def checkpointing(rate: float, faults: Faults, horizon: float = 2 * HOUR) -> ModelScenario:
    """Configuration 1: both stateful operators checkpointed."""
    protections = (ModelProtection("checkpoint", ("Aggregate", "Join")),)
    return ModelScenario(bargain_discovery(rate), protections, faults, horizon)


def ha_groups(rate: float, faults: Faults, horizon: float = 2 * HOUR, how: Configuration = TAKEN) -> ModelScenario:
    """Configuration 2."""
    protections = (
        ModelProtection("checkpoint", ("Join",)),
        *(ModelProtection("ha-group", group) for group in how.groups),
    )
    return ModelScenario(bargain_discovery(rate), protections, faults, horizon, how.reading)


def full_replication(rate: float, faults: Faults, horizon: float = 2 * HOUR) -> ModelScenario:
    """Configuration 3."""
    application = bargain_discovery(rate)
    protections = (ModelProtection("full-replication", tuple(application.by_name)),)
    return ModelScenario(application, protections, faults, horizon)
