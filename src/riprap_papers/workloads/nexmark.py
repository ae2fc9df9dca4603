"""Generated NEXMark streams: people who register, auctions that they open, and bids on them.

The rules are those of the public generator, computed a column at a time. Of every 50 events, in this order, one is a
person, three are auctions and 46 are bids. Ids count from 1000. An event refers to

    a *hot* one: the latest whose id is a multiple of 100 (a bidder: one after it), in 1 of 2 cases for a bid's auction,
                 in 3 of 4 for an auction's seller and a bid's bidder;
    any other:   one of the last 100 auctions or 1,000 people, or one of the next 10, which will follow.

With a skew, Zipf's law replaces hot ones: the rank of an auction or person, counted back from the latest
multiple of 100, has a probability as 1 / rank**skew; so the same keys stay hot for 100 auctions or people.

Equal arguments give equal data. Every quantity has its own random generator.
"""

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from riprap.base.randomness import generator
from riprap_papers.workloads.workload import moments, ranks, table

PERSONS, AUCTIONS, BIDS = 1, 3, 46  # of every 50 events, in this order
CYCLE = PERSONS + AUCTIONS + BIDS
FIRST_PERSON = FIRST_AUCTION = 1000
FIRST_CATEGORY, CATEGORIES = 10, 5
IN_FLIGHT_AUCTIONS = 100  # with bids
ACTIVE_PEOPLE = 1000  # who bid and sell
LEAD = 10  # ids ahead of the latest that may already be referenced
HOT_AUCTION, HOT_SELLER, HOT_BIDDER = 2, 4, 4  # n: hot in n - 1 of n cases
HOT_EVERY = 100  # one of this many ids is hot
STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")
CITIES = (
    "Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland", "Bend", "Redmond", "Seattle", "Kent", "Cheyenne",
)  # fmt: skip
FIRST_NAMES = ("Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter")
LAST_NAMES = ("Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris")

SOURCES = {
    "Person": "id long not null, name string not null, city string not null, state string not null",
    "Auction": (
        "id long not null, seller long not null, category long not null, initial_bid long not null, "
        "reserve long not null, expires long not null"
    ),
    "Bid": "auction long not null, bidder long not null, price long not null",
}
_SHARE = {"Person": PERSONS, "Auction": AUCTIONS, "Bid": BIDS}


def generate(
    kinds: Iterable[str], tuples: int, seed: int, rate: float, skew: float | None = None
) -> dict[str, pa.Table]:
    """About `tuples` rows of these streams together, at `rate` rows/s; other streams are omitted and take no time."""
    chosen = [kind for kind in SOURCES if kind in set(kinds)]
    share = sum(_SHARE[kind] for kind in chosen)
    events = max(1, -(-tuples // share)) * CYCLE
    number = np.arange(events)
    offset = number % CYCLE
    kind_of = np.where(offset < PERSONS, 0, np.where(offset < PERSONS + AUCTIONS, 1, 2))
    wanted = np.isin(kind_of, [list(SOURCES).index(kind) for kind in chosen])
    ts = np.zeros(events, np.int64)
    ts[wanted] = moments(int(wanted.sum()), rate)
    make = {"Person": _people, "Auction": _auctions, "Bid": _bids}
    found = {}
    for kind in chosen:
        own = number[kind_of == list(SOURCES).index(kind)]
        found[kind] = table(make[kind](own, ts[own], seed, skew), ts[own])
    return found


def _last_person(number: np.ndarray) -> np.ndarray:
    """The number of people at event `number`, less one."""
    return number // CYCLE * PERSONS + np.minimum(number % CYCLE, PERSONS - 1)


def _last_auction(number: np.ndarray) -> np.ndarray:
    """The number of auctions at event `number`, less one; -1: none."""
    offset = np.minimum(number % CYCLE - PERSONS, AUCTIONS - 1)
    return np.where(offset < 0, (number // CYCLE - 1) * AUCTIONS + AUCTIONS - 1, number // CYCLE * AUCTIONS + offset)


def _people(number: np.ndarray, ts: np.ndarray, seed: int, skew: float | None) -> dict[str, pa.Array | np.ndarray]:
    draws = generator(seed, "nexmark", "people")
    first, last = draws.integers(len(FIRST_NAMES), size=len(number)), draws.integers(len(LAST_NAMES), size=len(number))
    names = [f"{a} {b}" for a in FIRST_NAMES for b in LAST_NAMES]
    return {
        "id": FIRST_PERSON + _last_person(number),
        "name": _text(first * len(LAST_NAMES) + last, names),
        "city": _text(draws.integers(len(CITIES), size=len(number)), CITIES),
        "state": _text(draws.integers(len(STATES), size=len(number)), STATES),
    }


def _auctions(number: np.ndarray, ts: np.ndarray, seed: int, skew: float | None) -> dict[str, pa.Array | np.ndarray]:
    prices = generator(seed, "nexmark", "auction prices")
    initial = _prices(prices, len(number))
    # An auction lasts about until 100 younger ones have opened.
    apart = (int(ts[-1]) - int(ts[0])) // max(len(ts) - 1, 1)
    lasts = generator(seed, "nexmark", "lengths").integers(1, 2 * IN_FLIGHT_AUCTIONS * apart + 2, len(number))
    return {
        "id": FIRST_AUCTION + _last_auction(number),
        "seller": _person(number, seed, "seller", HOT_SELLER, 0, skew),
        "category": FIRST_CATEGORY + generator(seed, "nexmark", "categories").integers(0, CATEGORIES, len(number)),
        "initial_bid": initial,
        "reserve": initial + _prices(prices, len(number)),
        "expires": ts + lasts,  # microseconds since 1970
    }


def _bids(number: np.ndarray, ts: np.ndarray, seed: int, skew: float | None) -> dict[str, pa.Array | np.ndarray]:
    last = _last_auction(number)
    draws = generator(seed, "nexmark", "bid auctions")
    hot = last // HOT_EVERY * HOT_EVERY
    if skew is None:
        first = np.maximum(last - IN_FLIGHT_AUCTIONS, 0)
        any_one = first + (draws.random(len(number)) * (last - first + 1 + LEAD)).astype(np.int64)
        auction = np.where(draws.integers(0, HOT_AUCTION, len(number)) > 0, hot, any_one)
    else:
        auction = np.maximum(hot - ranks(draws, len(number), IN_FLIGHT_AUCTIONS, skew), 0)
    return {
        "auction": FIRST_AUCTION + auction,
        "bidder": _person(number, seed, "bidder", HOT_BIDDER, 1, skew),
        "price": _prices(generator(seed, "nexmark", "bid prices"), len(number)),
    }


def _person(number: np.ndarray, seed: int, role: str, ratio: int, beside: int, skew: float | None) -> np.ndarray:
    """The sellers or bidders. `beside`: hot bidders are not hot sellers."""
    draws = generator(seed, "nexmark", role)
    last = _last_person(number)
    hot = last // HOT_EVERY * HOT_EVERY + beside
    if skew is not None:
        return FIRST_PERSON + np.maximum(hot - ranks(draws, len(number), ACTIVE_PEOPLE, skew), 0)
    active = np.minimum(last + 1, ACTIVE_PEOPLE)
    any_one = last + 1 - active + (draws.random(len(number)) * (active + LEAD)).astype(np.int64)
    return FIRST_PERSON + np.where(draws.integers(0, ratio, len(number)) > 0, hot, any_one)


def _prices(draws: np.random.Generator, count: int) -> np.ndarray:
    """Prices in cents, log-uniform: as many from 1 to 10 dollars as from 100,000 to a million."""
    return np.round(10.0 ** (6.0 * draws.random(count)) * 100.0).astype(np.int64)


def _text(codes: np.ndarray, words: Iterable[str]) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), pa.array(list(words)))
