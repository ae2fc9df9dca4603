"""How the input of a source is divided over its shards: in stripes of rows, in turns.

Row r of the input belongs to shard (r // STRIPE) % shards. Positions and `_seq` stay those of the whole input, so the
merge of the shards' rows by key gives the rows of the one source that they stand for, in its order.
"""

STRIPE = 4096  # rows; at most a batch, so that shards are about equally far


def own(first: int, rows: int, shard: int, shards: int, stripe: int = STRIPE) -> list[tuple[int, int]]:
    """Of rows from position `first` on, those of a shard: stretches of positions, from and to."""
    if shards == 1:
        return [(first, first + rows)] if rows else []
    found = []
    turn = stripe * shards
    begin = (first // turn) * turn + shard * stripe
    while begin < first + rows:
        low, high = max(begin, first), min(begin + stripe, first + rows)
        if low < high:
            found.append((low, high))
        begin += turn
    return found


def below(position: int, shard: int, shards: int, stripe: int = STRIPE) -> int:
    """How many rows of a shard lie before a position."""
    if shards == 1:
        return position
    turns, rest = divmod(position, stripe * shards)
    return turns * stripe + min(max(rest - shard * stripe, 0), stripe)
