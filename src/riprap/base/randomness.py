"""Seeded randomness. Every random choice follows from a seed and the names of what is being chosen, and from
nothing else: not from the order of calls, the number of tasks, or the process."""

import secrets
from hashlib import blake2b

import numpy as np


def derived_seed(seed: int, *names: object) -> int:
    """A 64-bit seed for the thing called `names` under `seed`: equal arguments, equal seed, on any machine."""
    text = "\x1f".join([str(int(seed)), *(f"{type(name).__name__}:{name}" for name in names)])
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")


def generator(seed: int, *names: object) -> np.random.Generator:
    """An independent generator for the thing called `names` under `seed`."""
    return np.random.Generator(np.random.Philox(key=derived_seed(seed, *names)))


def secret_token() -> str:
    """The one thing that must not follow from a seed: what a stranger cannot guess."""
    return secrets.token_urlsafe(32)


def nonce() -> bytes:
    """32 bytes that nobody has seen before, for one challenge."""
    return secrets.token_bytes(32)
