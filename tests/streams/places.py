"""Where files are cut, or bytes of them flipped: a share of the places in every run, all of them in long ones."""

import pytest

# How far apart the places are. Sums and lengths guard all bytes alike, but for those where a frame begins or ends.
FAR_APART = [3, pytest.param(1, marks=pytest.mark.soak)]


def places(data: bytes, ends: list[int], step: int) -> list[int]:
    """Every `step`-th byte, and all around the beginnings and ends of frames."""
    near = {end + by for end in (0, *ends, len(data)) for by in range(-12, 13)}
    return sorted({*range(0, len(data), step), *near} & set(range(len(data))))
