"""What the key of a punctuation means: the one place that says it.

A punctuation is a mark between two tuples and has no place of its own in the order of keys. It has the key of the tuple
before it, its *trigger*, and passes right behind it; one that is made before a tuple has the key just below that one's,
under which there is no tuple. From this follows what everybody has to heed:

    time        boundaries of windows that lie before its key have come when it passes (`just_before_it`)
    windows     what a window of time gives out at the very boundary that caused it came first, under a key that counts
                boundaries as that window does: it passes behind that (`behind_boundary`)
    triggers    what it causes has its trigger, so a row with that key does not say that all of the trigger has come
                (`still_open`); behind all of it is `behind_trigger`, and one that is made before a tuple is behind all
                of the trigger before that: where ports are merged, on all of them (`is_behind_trigger`)
    rows        the last row of a batch may be the trigger of one that has not come (`told_by_row`)
    promises    who drops by key must not be told that a key has passed while a punctuation with it may follow
                (`promised`)
    ranks       it may have the rank of another stream than the tuples around it, which a window of time on the way has
                keyed anew; then no `_seq` says where it belongs (`KeyShape.marks`, `own_marks`, `marked_alike`)
"""

from dataclasses import replace

from riprap.graph.order_keys import END_KEY, START_KEY, TIMER, KeyShape, OrderKey, just_before


def just_before_it(mark: OrderKey) -> OrderKey:
    """How far time has come when a punctuation with this key passes."""
    return just_before(mark)


def before_tuple(key: OrderKey) -> OrderKey:
    """The key of a punctuation in front of the tuple with `key`."""
    return just_before(key)


def told_by_row(last: OrderKey) -> OrderKey:
    """How far a stream has come that is known by its rows alone, the last of which has this key."""
    return just_before(last)


def behind_trigger(mark: OrderKey) -> OrderKey:
    """The greatest key of what has the same trigger."""
    return mark._replace(n=END_KEY.n)


def is_behind_trigger(mark: OrderKey) -> bool:
    """Whether a punctuation is behind all that has its trigger, wherever that is."""
    return mark.n == END_KEY.n


def behind_boundary(mark: OrderKey, number: int, n: int = 0) -> OrderKey:
    """The key under which a punctuation passes a window of time that counts the boundary at its time as `number`, and
    gives out up to `n` there.
    """
    return max(mark, OrderKey(mark.ts, TIMER, number, n)) if mark.src == TIMER else mark


def still_open(key: OrderKey) -> OrderKey:
    """How far the output of an operator has come that gives out when it is punctuated, and whose input has come to
    `key`: a punctuation may still follow the tuple with that key, and what it causes has the tuple's key.
    """
    return key._replace(n=-1)


def promised(reached: OrderKey) -> OrderKey:
    """What those may be told who drop by key, when operators have come so far: the key itself only where that is behind
    all that its trigger causes, or no tuple's.
    """
    return just_before(reached) if 0 <= reached.n < END_KEY.n and reached != START_KEY else reached


# Shapes ---------------------------------------------------------------------------------------------------------------


def own_marks(shape: KeyShape) -> frozenset[int | None]:
    """Ranks of punctuations under the keys of a stream's tuples."""
    return frozenset((shape.src,)) if shape.src is not None else shape.origins | {None}


def marked_alike(shape: KeyShape) -> bool:
    """Whether punctuations of a stream come under keys that its tuples could have."""
    return shape.marks <= {shape.src}


def caused_shape(shape: KeyShape) -> KeyShape:
    """The shape of what punctuations of a stream cause, or its tuples. The two may have other ranks: what a window of
    time on the way gave out, and the punctuations that passed it.
    """
    ranks = frozenset(rank for rank in shape.marks if rank is not None)
    return replace(shape, src=shape.src if marked_alike(shape) else None, n=True, origins=shape.origins | ranks)
