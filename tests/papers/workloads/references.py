"""What the workloads should give, computed another way: tuple by tuple in plain Python, from the definitions.

Each takes the input tables and gives the rows of the sink as a list of tuples, in the order of the output.
Windows that hop are multiples of their step since 1970. Nothing here is shared with the operators.
"""

import heapq
from collections import defaultdict


def rows(table):
    """(time in µs, sequence number, row), in order."""
    ts = table["_ts"].cast("int64").to_pylist()
    return list(zip(ts, table["_seq"].to_pylist(), table.drop_columns(["_ts", "_seq"]).to_pylist(), strict=True))


def merged(*tables):
    """Rows of several sources in the order of their keys, each with the number of its source."""
    return sorted((t, rank, seq, row) for rank, table in enumerate(tables) for t, seq, row in rows(table))


def selection(inputs):
    return [(r["auction"], r["price"]) for _, _, r in rows(inputs["Bid"]) if r["auction"] % 2 == 0]


def local_items(inputs, window):
    """A pair is found when its later one comes, if the earlier one came less than `window` before."""
    found, people, auctions = [], defaultdict(list), defaultdict(list)
    everything = sorted(
        [(t, 0, s, r) for t, s, r in rows(inputs["Person"])] + [(t, 1, s, r) for t, s, r in rows(inputs["Auction"])],
        key=lambda item: item[:3],
    )
    for t, source, _, row in everything:
        if source == 0 and row["state"] in ("OR", "ID", "CA"):
            mine = [(row["name"], row["city"], row["state"], a) for at, a in auctions[row["id"]] if at > t - window]
            people[row["id"]].append((t, row))
            found += mine
        elif source == 1 and row["category"] == 10:
            auctions[row["seller"]].append((t, row["id"]))
            for at, person in people[row["seller"]]:
                if at > t - window:
                    found.append((person["name"], person["city"], person["state"], row["id"]))
    return found


def hot_items(inputs, window, slide=1_000_000):
    """At each whole second, the bids of the window before it; of an auction only what is above all before."""
    bids = [(t, r["auction"]) for t, _, r in rows(inputs["Bid"])]
    highest, found = defaultdict(int), []
    boundary = (bids[0][0] // slide + 1) * slide
    while boundary - window <= bids[-1][0]:
        counts = defaultdict(int)
        for t, auction in bids:
            if boundary - window <= t < boundary:
                counts[auction] += 1
        for auction, count in counts.items():
            if count > highest[auction]:
                highest[auction] = count
                found.append((boundary, auction, count))
        boundary += slide
    return found


def selling_prices(inputs, window, tumbling):
    opened = {r["id"]: (t, r["seller"]) for t, _, r in rows(inputs["Auction"])}
    best = defaultdict(int)
    for t, _, bid in rows(inputs["Bid"]):
        if bid["auction"] in opened:
            at, seller = opened[bid["auction"]]
            if at <= t < at + window:
                end = (t // tumbling + 1) * tumbling
                best[(end, seller, bid["auction"])] = max(best[(end, seller, bid["auction"])], bid["price"])
    sums = defaultdict(list)
    for (end, seller, _), price in best.items():
        sums[(end + tumbling, seller)].append(price)
    return [(end, seller, sum(prices) / len(prices), len(prices)) for (end, seller), prices in sums.items()]


def word_counts(inputs, window):
    counts, totals = defaultdict(int), defaultdict(int)
    for t, _, row in rows(inputs["Line"]):
        for word in row["line"].split():
            counts[((t // window + 1) * window, word)] += 1
    found = []
    for (end, word), count in sorted(counts.items()):
        totals[word] += count
        found.append((end, word, count, totals[word]))
    return found


def neighbours(inputs, hops, remembered, delay):
    """Tuple by tuple: edges, and paths that come back, in the order of their times."""
    known, found = defaultdict(list), []
    heap = [(t, 1, seq, (r["from_id"], r["to_id"])) for t, seq, r in rows(inputs["Edge"])]
    heapq.heapify(heap)
    while heap:
        t, port, seq, what = heapq.heappop(heap)
        if port == 0:
            known[what[1]].append((t, what[0], what[2]))
            continue
        begin, end = what
        made = [(begin, end, 1)]
        made += [(origin, end, length + 1) for at, origin, length in known[begin] if at > t - remembered]
        for path in made:
            if path[2] <= hops and path[0] != path[1]:
                found.append((t, *path))
                if path[2] < hops:
                    heapq.heappush(heap, (t + delay, 0, seq, path))
    return found
