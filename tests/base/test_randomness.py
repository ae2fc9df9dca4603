import numpy as np

from riprap.base.randomness import derived_seed, generator


def test_same_names_same_numbers():
    assert np.array_equal(generator(7, "stream", 3).random(5), generator(7, "stream", 3).random(5))


def test_names_and_types_separate():
    assert len({derived_seed(7, "a", "b"), derived_seed(7, "ab"), derived_seed(7, 1), derived_seed(7, "1")}) == 4
