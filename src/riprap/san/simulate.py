"""Input and result of a run of a network."""

from dataclasses import dataclass

import numpy as np

from riprap.san.resolved import NetworkError, Resolved

LOOP_LIMIT = 100_000  # instantaneous completions at one time that count as an endless loop
RING = 64  # number of the last instantaneous completions that are recorded, to name the loop


@dataclass(frozen=True)
class SimulatedSpan:
    """Simulated seconds: the run starts at 0, rewards count from `start`, and it ends at `horizon`."""

    horizon: float
    start: float = 0.0


@dataclass(frozen=True)
class Trajectory:
    """Results of one replication. `times` and `activities`: its completions in order, as far as they were traced."""

    rewards: np.ndarray  # in the order of the network's rewards
    marking: np.ndarray  # at the end, in the order of the network's places
    events: int  # completions, timed and instantaneous
    times: np.ndarray
    activities: np.ndarray


class Trouble:
    """Exit codes of a run."""

    NONE = 0
    LOOP = 1
    NEGATIVE = 2
    PROBABILITIES = 3
    INVARIANT = 4
    DELAY = 5


def error_of(network: Resolved, trouble: int, detail: int, ring: np.ndarray, moment: float) -> NetworkError:
    """The error for a run that ended with `trouble`; `detail` is an activity, or an invariant."""
    if trouble == Trouble.INVARIANT:
        name, code = network.invariants[detail]
        return NetworkError(f"invariant {name} ({code.text}) of {network.name} does not hold at {moment:g} s")
    activity = network.activities[detail].name
    if trouble == Trouble.LOOP:
        names = ", ".join(sorted({network.activities[number].name for number in ring if number >= 0}))
        return NetworkError(
            f"instantaneous activities of {network.name} complete without end at {moment:g} s: {names}; "
            "give at least one of them a delay or an input arc"
        )
    if trouble == Trouble.NEGATIVE:
        return NetworkError(
            f"activity {activity} left a place of {network.name} with fewer than 0 tokens at {moment:g} s"
        )
    if trouble == Trouble.PROBABILITIES:
        return NetworkError(f"the probabilities of the cases of activity {activity} do not sum to 1 at {moment:g} s")
    return NetworkError(f"activity {activity} has a negative rate or delay at {moment:g} s; it must be 0 or more")
