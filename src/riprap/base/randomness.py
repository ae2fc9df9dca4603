"""Seeded randomness. Every random choice depends only on a seed and the names of what is chosen: not on the order of
calls, the number of tasks, or the process."""

import secrets
from hashlib import blake2b

import numpy as np


def derived_seed(seed: int, *names: object) -> int:
    """A 64-bit seed derived from `seed` and `names`: equal arguments give an equal seed, on any machine."""
    text = "\x1f".join([str(int(seed)), *(f"{type(name).__name__}:{name}" for name in names)])
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")


def generator(seed: int, *names: object) -> np.random.Generator:
    """An independent generator for `names` under `seed`."""
    return np.random.Generator(np.random.Philox(key=derived_seed(seed, *names)))


def secret_token() -> str:
    """A secret that cannot be guessed. It must not depend on a seed."""
    return secrets.token_urlsafe(32)


def nonce() -> bytes:
    """32 fresh random bytes for one challenge."""
    return secrets.token_bytes(32)
