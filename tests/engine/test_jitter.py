"""Arrival jitter is a pure function of seed, stream and key, keeps order, and stays within its bound."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from riprap.engine.jitter import Jitter
from riprap.operators.columns import Keys


def keys(seq):
    seq = np.array(seq, np.int64)
    return Keys(seq * 7, np.zeros(1, np.int64), seq, np.zeros(1, np.int64))


@given(
    st.lists(st.integers(0, 500), min_size=1, max_size=80, unique=True).map(sorted),
    st.integers(0, 200),
    st.integers(0, 5),
    st.booleans(),
    st.randoms(),
)
def test_arrivals_follow_from_the_key_alone(seqs, bound, seed, by_time, random):
    jitter = Jitter(seed, time=bound) if by_time else Jitter(seed, tuples=bound)
    all_keys = keys(seqs)
    due = all_keys.ts if by_time else all_keys.seq
    arrivals = jitter.arrivals("A→B", all_keys)
    assert (arrivals >= due).all()
    assert (arrivals <= due + bound).all()
    assert (np.diff(arrivals) >= 0).all()
    kept = [i for i in range(len(seqs)) if random.random() < 0.5] or [0]
    alone = jitter.arrivals("A→B", keys([seqs[i] for i in kept]))
    assert alone.tolist() == arrivals[kept].tolist()


def test_seeds_and_streams_differ():
    many = keys(range(1000))
    base = Jitter(1, tuples=10).arrivals("A→B", many)
    assert (base != Jitter(2, tuples=10).arrivals("A→B", many)).any()
    assert (base != Jitter(1, tuples=10).arrivals("C→B", many)).any()
