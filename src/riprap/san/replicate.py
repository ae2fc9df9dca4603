"""Replications: runs jobs in pieces, anywhere, until their estimates are precise enough.

Replication r of a job depends only on the seed and r, the pieces do not depend on where they run, and waves end at
fixed numbers. So the result does not depend on the number of threads, tasks or machines.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np

from riprap.san.compiled import Compiled, compile_network
from riprap.san.formalism import Network
from riprap.san.generator import keys
from riprap.san.simulate import SimulatedSpan
from riprap.san.statistics import Estimate, Precision, enough, estimate, next_wave


class ReplicationJob(Protocol):
    """A simulation to replicate. It is sent to where it runs, so it is plain data."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the rewards."""

    @property
    def piece(self) -> int:
        """Replications per piece: enough to be worth sending."""

    def rows(self, first: int, count: int) -> np.ndarray:
        """Rewards of replications `first` … `first + count - 1`, one row each."""


@dataclass(frozen=True)
class NetworkJob:
    """Replications of a network, compiled where they run."""

    network: Network
    span: SimulatedSpan
    seed: int = 1
    piece: int = 4

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(reward.name for reward in self.network.rewards)

    def rows(self, first: int, count: int) -> np.ndarray:
        return self.compiled.run_many(keys(self.seed, first, count), self.span).rewards

    @property
    def compiled(self) -> Compiled:
        return _compiled(_Identity(self.network))


@dataclass(frozen=True)
class _Identity:
    """A network as a cache key, by identity, since its mappings are not hashable."""

    network: Network

    def __hash__(self) -> int:
        return id(self.network)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identity) and other.network is self.network


@lru_cache(maxsize=16)
def _compiled(identity: _Identity) -> Compiled:
    return compile_network(identity.network)


@dataclass(frozen=True)
class ReplicationShare:
    job: int  # index of the job
    first: int
    count: int


# Runs pieces of jobs anywhere and returns their rows in the order of the pieces.
Runner = Callable[[Sequence[ReplicationJob], Sequence[ReplicationShare]], list[np.ndarray]]


@dataclass(frozen=True)
class Replications:
    """All replications of one job, and their estimates by name."""

    rows: np.ndarray
    estimates: dict[str, Estimate]

    def column(self, name: str) -> np.ndarray:
        return self.rows[:, list(self.estimates).index(name)]


def in_threads(threads: int = 2) -> Runner:
    """Runs pieces in threads of this process. The simulators release the GIL, so threads run in parallel."""

    def run(jobs: Sequence[ReplicationJob], pieces: Sequence[ReplicationShare]) -> list[np.ndarray]:
        with ThreadPoolExecutor(threads) as pool:
            return list(pool.map(lambda piece: jobs[piece.job].rows(piece.first, piece.count), pieces))

    return run


def replicate(jobs: Sequence[ReplicationJob], precision: Precision, runner: Runner) -> list[Replications]:
    """Replicates each job until its estimates are precise enough. All unfinished jobs run together, in waves."""
    rows = [np.zeros((0, len(job.names))) for job in jobs]
    while True:
        pieces = []
        for index, job in enumerate(jobs):
            if not enough(rows[index], precision):
                done = len(rows[index])
                pieces += cut(index, done, next_wave(done, precision), job.piece)
        if not pieces:
            break
        for piece, result in zip(pieces, runner(jobs, pieces), strict=True):
            rows[piece.job] = np.concatenate([rows[piece.job], result])
    return [
        Replications(table, {name: estimate(table[:, k], precision.confidence) for k, name in enumerate(job.names)})
        for job, table in zip(jobs, rows, strict=True)
    ]


def cut(job: int, first: int, count: int, size: int) -> list[ReplicationShare]:
    """Pieces of at most `size` replications."""
    return [
        ReplicationShare(job, start, min(size, first + count - start)) for start in range(first, first + count, size)
    ]
