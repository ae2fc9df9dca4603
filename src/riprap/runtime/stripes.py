"""How the input of a source is partitioned over its shards: in stripes of rows, round-robin.

Row r of the input belongs to shard (r // STRIPE) % shards. Positions and `_seq` refer to the whole input, so merging
the shards' rows by key yields the rows of the whole input, in order.
"""

STRIPE = 4096  # rows; at most a batch, so that shards progress about equally


def own(first: int, rows: int, shard: int, shards: int, stripe: int = STRIPE) -> list[tuple[int, int]]:
    """Which of the `rows` rows from position `first` on belong to a shard: ranges of positions, [from, to)."""
    if shards == 1:
        return [(first, first + rows)] if rows else []
    ranges = []
    turn = stripe * shards
    begin = (first // turn) * turn + shard * stripe
    while begin < first + rows:
        low, high = max(begin, first), min(begin + stripe, first + rows)
        if low < high:
            ranges.append((low, high))
        begin += turn
    return ranges


def below(position: int, shard: int, shards: int, stripe: int = STRIPE) -> int:
    """How many rows of a shard lie before a position."""
    if shards == 1:
        return position
    turns, rest = divmod(position, stripe * shards)
    return turns * stripe + min(max(rest - shard * stripe, 0), stripe)
