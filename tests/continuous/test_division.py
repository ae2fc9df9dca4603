"""Old shards die at cuts of their own; other ones, more or fewer, take over from the records of all of them."""

from random import Random

import pytest
from tests.continuous.lives import SCHEMA, Life, Written, any_items, any_pace, batch, content, go_on, taken
from tests.continuous.test_recovery import logical

from riprap.graph.builder import App
from riprap.graph.order_keys import START_KEY
from riprap.graph.windows import count, time
from riprap.operators.build import make_operator
from riprap.operators.contract import merge_states, split_state
from riprap.operators.groups import GroupTable
from riprap.operators.ownership import Owner
from riprap.operators.strings import StringPool
from riprap.records.division import TakeoverEngine, founding_record, gather, share
from riprap.records.recorder import Recorder
from riprap.records.recovery import recover


def divided_graph(random: Random):
    """One operator that can have shards: by group."""
    app = App("windows")
    stream = app.source("S", SCHEMA)
    if random.random() < 0.4:
        other = app.source("R", SCHEMA).rename({"x": "y"}, name="Renamed")
        windows = [random.choice([count(1), count(3), count(20), time("40us"), time("500us")]) for _ in range(2)]
        stream.join(other, on="k", left_window=windows[0], right_window=windows[1], per_group=True, name="Op").sink(
            "Sink"
        )
        return app.build()
    window = random.choice([count(1), count(2), count(5), count(40), time("30us"), time("400us")])
    every = random.choice([None, None, count(1), count(3), time("20us"), time("30us")])
    stream.aggregate("sum(x) AS total", "count(*) AS n", window=window, every=every, by="k", name="Op").sink("Sink")
    return app.build()


class Owners:
    """Which shard a row belongs to, told in another way than by who is tested."""

    def __init__(self, items: list[tuple]) -> None:
        words = sorted({item[2] for item in items if len(item) == 4}, key=str)
        rows = batch([(0, items[0][-1] if len(items[0]) == 1 else items[0][1], word, 0) for word in words], 0)
        table = GroupTable([SCHEMA.field("k").type], StringPool())
        groups = table.groups([rows.column("k")])
        self._hash = dict(zip(words, table.hashes[groups].tolist(), strict=True))

    def of(self, word, shards: int) -> int:
        return self._hash[word] % shards

    def own(self, items: list[tuple], shard: int, shards: int) -> list[tuple[int, tuple]]:
        """What a shard is given, and where that is among all items."""
        return [
            (at, item) for at, item in enumerate(items) if len(item) < 4 or self.of(item[2], shards) == shard
        ]  # fmt: skip


def feed(heir: TakeoverEngine, items: list[tuple], random: Random) -> list:
    """Items to an heir, one after the other, or some rows of a port together."""
    out, streams = [], [stream.id for stream in heir.graph.inputs("Op")]
    while items:
        count = 1
        while len(items[0]) == 4 and count < len(items) and items[count][0] == items[0][0] and random.random() < 0.5:
            count += 1
        some, items = items[:count], items[count:]
        if len(some[0]) == 1:
            out += [event for stream in streams for event in given(heir.advance(stream, some[0][0]))]
        else:
            out += given(heir.push(streams[some[0][0]], batch(some, some[0][0])))
    return out


def given(outputs) -> list:
    return [tuple(row.values()) for _, views in outputs for row in views.batch().to_pylist()]


def check(seed: int) -> None:
    random = Random(f"division {seed}")
    graph = divided_graph(random)
    ports = len(graph.inputs("Op"))
    # Punctuations go to all shards, and would be given out by all.
    items = sorted((item for item in any_items(random, ports) if len(item) != 2), key=lambda item: item[len(item) > 1])
    if not items:
        return
    items.append((items[-1][len(items[-1]) > 1],))  # how far time has come, for shards without rows at the end
    owners, old, new = Owners(items), random.choice([1, 2, 3]), random.choice([1, 2, 3])
    pace, found, heirs = any_pace(random), [], {shard: [] for shard in range(new)}
    cuts, mine = [0], []
    for shard in range(old):
        own = owners.own(items, shard, old)
        life = Life(graph, [item for _, item in own], random)
        life.operator.track()
        written = Written()
        go_on(life, Recorder(life.operator, pace), written, random, random.randint(0, len(own)), [])
        written.cut(random.randint(0, len(written.records)))
        found += [row for outputs in written.outputs for row in outputs]
        recovery = recover(reversed(written.records))
        begins = 0 if recovery is None else recovery.unsaved.numbers["item"]
        if recovery is not None and (at := recovery.cut.numbers["item"]):
            cuts.append(own[at - 1][0] + 1)
        mine.append((own, begins, recovery))
    until = random.randint(max(cuts), len(items))  # all that was in old shards' input
    golden = Life(graph, items, random)
    expected: list = []
    while golden.at < until:
        expected += golden.step(until)
    state = golden.operator.snapshot()
    for shard in range(new):
        for own, begins, recovery in mine:
            mine_now = [Owner(["k"], SCHEMA, shard, new)] * ports
            heir = TakeoverEngine(graph, "Op", mine_now, None if recovery is None else share(recovery, shard, new))
            found += feed(heir, [item for at, item in own[begins:] if at < until], random)
            heirs[shard].append(heir)
        if until:
            key = items[until - 1][0] if len(items[until - 1]) == 1 else items[until - 1][1]
            for heir in heirs[shard]:
                found += [row for stream in graph.inputs("Op") for row in given(heir.advance(stream.id, key))]
    if until:
        expected += taken(golden.operator.watermark(key))
        state = golden.operator.snapshot()
    lives = []
    for shard in range(new):
        whole = gather(heirs[shard])
        life = Life(graph, [item for at, item in owners.own(items, shard, new) if at >= until], random)
        recover([founding_record(graph, "Op", whole, START_KEY, {})]).into(life.operator, pace)
        assert content(life.operator)[0] == dict(whole.scalars)
        life.operator.restore_scalars({**whole.scalars, "now": state.scalars["now"]})  # of rows of other groups too
        assert by_key(content(life.operator)[1]) == by_key(restricted(state, graph, shard, new)), (shard, until)
        lives.append(life)
    for life in lives:
        while life.at < len(life.items):
            found += life.step()
    while golden.at < len(items):
        expected += golden.step()
    assert sorted(found, key=repr) == sorted(expected, key=repr)


def restricted(state, graph, shard: int, shards: int):
    """The state of an operator of all groups, without those of other shards."""
    operator = make_operator(graph, "Op")
    hashes = sorted({h for name, t in state.tables.items() if name.endswith(".keys") for h in t["_hash"].to_pylist()})
    every = split_state(state, [h for h in hashes if h])  # a state for each group, and one in front of them
    own = [part for part in every if any(h % shards == shard for h in part_hashes(part))]
    operator.restore([every[0] if not own else merge_states(own)])
    return content(operator)[1] if own else {name: t.slice(0, 0).to_pydict() for name, t in state.tables.items()}


def part_hashes(state):
    return {h for name, t in state.tables.items() if name.endswith(".keys") for h in t["_hash"].to_pylist()}


def by_key(tables):
    """By group, in the order of hashes: each group's rows as they are."""
    out = {}
    for name, keys in logical(tables).items():
        if not name.endswith(".keys"):
            continue
        rows, at = tables[name.removesuffix("keys") + "rows"], 0
        columns = [c for c in rows if c not in ("_head", "_tail")]
        for place, count_ in enumerate(keys["_rows"]):
            group = {c: v[place] for c, v in keys.items()}
            out[name, keys["_hash"][place]] = group, [[rows[c][r] for c in columns] for r in range(at, at + count_)]
            at += count_
    return out


@pytest.mark.parametrize("seeds", [range(at, at + 20) for at in (0, 20)], ids=str)
def test_shards_of_another_number_go_on_where_the_old_ones_were(seeds):
    for seed in seeds:
        try:
            check(seed)
        except Exception as error:
            raise AssertionError(f"check({seed}) of {__name__} repeats it") from error
