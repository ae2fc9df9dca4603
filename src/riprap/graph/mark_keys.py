"""The meaning of a punctuation's order key. Only this module defines it.

A punctuation (mark) is between two tuples and has no order key. It borrows the key of the tuple before it, its
*trigger*, and passes right after it; a punctuation that is made before a tuple has the key just below that tuple's key,
which no tuple has. This has consequences:

    time        when it passes, all time boundaries before its key have passed (`before_mark`)
    windows     output that a time window emits at the boundary that caused the mark comes first, under a key with that
                window's number of the boundary: the mark passes after it (`behind_boundary`)
    triggers    output that it causes has its trigger, so a row with that key does not mean that the trigger is complete
                (`still_open`); `behind_trigger` sorts after the whole trigger. A mark that is made before a tuple sorts
                after the whole previous trigger, in a merge on all ports (`is_behind_trigger`)
    rows        the last row of a batch may be the trigger of a mark that has not arrived (`watermark_of_row`)
    promises    an element that drops by key must not receive a watermark at a key while a mark with that key may follow
                (`promised`)
    ranks       its rank may differ from that of the tuples around it, if a time window upstream assigned new keys to
                them; then no `_seq` orders it (`KeyShape.marks`, `own_marks`, `marked_alike`)
"""

from dataclasses import replace

from riprap.graph.order_keys import END_KEY, START_KEY, TIMER, KeyShape, OrderKey, just_before


def before_mark(mark: OrderKey) -> OrderKey:
    """The watermark when a punctuation with this key passes."""
    return just_before(mark)


def before_tuple(key: OrderKey) -> OrderKey:
    """The key of a punctuation before the tuple with `key`."""
    return just_before(key)


def watermark_of_row(last: OrderKey) -> OrderKey:
    """The watermark that follows from a stream's rows alone, the last of which has this key."""
    return just_before(last)


def behind_trigger(mark: OrderKey) -> OrderKey:
    """The greatest key with the same trigger."""
    return mark._replace(n=END_KEY.n)


def is_behind_trigger(mark: OrderKey) -> bool:
    """Whether a punctuation sorts after everything with its trigger, on all ports."""
    return mark.n == END_KEY.n


def behind_boundary(mark: OrderKey, number: int, n: int = 0) -> OrderKey:
    """The key with which a punctuation passes a time window whose boundary at this time has this `number`, and which
    emits up to `n` there.
    """
    return max(mark, OrderKey(mark.ts, TIMER, number, n)) if mark.src == TIMER else mark


def still_open(key: OrderKey) -> OrderKey:
    """The output watermark of an operator that emits at punctuations, when its input watermark is `key`: a punctuation
    may still follow the tuple with that key, and the output that it causes has the tuple's key.
    """
    return key._replace(n=-1)


def promised(reached: OrderKey) -> OrderKey:
    """The watermark that may be announced to elements that drop by key, when the operators have reached this key: the
    key itself only if it sorts after everything that its trigger causes, or is not a tuple's key.
    """
    return just_before(reached) if 0 <= reached.n < END_KEY.n and reached != START_KEY else reached


# Shapes ---------------------------------------------------------------------------------------------------------------


def own_marks(shape: KeyShape) -> frozenset[int | None]:
    """The ranks of punctuations that have keys of a stream's tuples."""
    return frozenset((shape.src,)) if shape.src is not None else shape.origins | {None}


def marked_alike(shape: KeyShape) -> bool:
    """Whether the punctuations of a stream have keys that its tuples could have."""
    return shape.marks <= {shape.src}


def caused_shape(shape: KeyShape) -> KeyShape:
    """The shape of output that a stream's punctuations or tuples cause. Their ranks may differ, if the tuples come from
    a time window upstream and the punctuations passed it.
    """
    ranks = frozenset(rank for rank in shape.marks if rank is not None)
    return replace(shape, src=shape.src if marked_alike(shape) else None, n=True, origins=shape.origins | ranks)
