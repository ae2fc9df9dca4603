"""An input that brings nothing is idle after a while; whatever it said then, another life says again."""

from random import Random

import pyarrow as pa
import pytest

from riprap.api.run import run
from riprap.base.errors import UsageError
from riprap.graph.builder import App
from riprap.graph.order_keys import START_KEY, OrderKey
from riprap.runtime.feed import Feed
from riprap.runtime.idle import IdleFeed, IdleLog
from riprap.streams import PersistentStream

IDLE = 1_000_000  # microseconds


class Wall:
    """A clock that goes when it is told to."""

    time = 10 * IDLE

    def now(self):
        return self.time


def rows(positions, times):
    columns = [pa.array(positions, pa.int64()), pa.array(times, pa.timestamp("us", "UTC"))]
    return pa.RecordBatch.from_arrays([*columns, columns[0]], names=["at", "_ts", "_seq"])


@pytest.fixture
def source():
    app = App("idle")
    app.source("S", "at long").sink("Out")
    return app.build().sources[0]


def life(tmp_path, source, clock, position=0, *, own=True):
    log = IdleLog(tmp_path / "idle" / "S", own=own)
    return IdleFeed(Feed(tmp_path / "s", source, position=position, follow=True), 0, log, IDLE, clock, own=own)


def test_it_is_said_again_and_late_rows_stay_out(tmp_path, source):
    clock, stream = Wall(), PersistentStream.create(tmp_path / "s", rows([], []).schema, stability="async")
    with stream.writer() as writer:
        writer.append(rows([0, 1], [1, 2])).result()
        feed = life(tmp_path, source, clock)
        assert feed.next(10).num_rows == 2
        assert feed.next(10) is None
        assert feed.watermark is None  # it has only begun to wait
        clock.time += IDLE
        assert feed.next(10) is None
        said = clock.time - IDLE
        assert OrderKey(said, 0, 10**9) < feed.watermark < OrderKey(said + 1, 0, 0)
        writer.append(rows([2, 3, 4], [said - 1, said, said + 1])).result()
        for own in (None, True, False):
            each = feed if own is None else life(tmp_path, source, clock, 2, own=own)
            assert each.next(10).column("at").to_pylist() == [4]
            assert (each.position, each.late) == (5, 2)
        assert life(tmp_path, source, clock, 1).next(10).column("at").to_pylist() == [1]


def test_a_life_that_died_in_the_middle_of_an_entry_has_not_said_it(tmp_path, source):
    clock, stream = Wall(), PersistentStream.create(tmp_path / "s", rows([], []).schema, stability="async")
    with stream.writer() as writer:
        writer.append(rows([0], [1])).result()
        feed = life(tmp_path, source, clock)
        feed.next(10), feed.next(10)
        for _ in range(2):
            clock.time += IDLE
            feed.next(10)
        written = (tmp_path / "idle" / "S").read_bytes()
        for cut in range(len(written) + 1):
            (tmp_path / "idle" / "S").write_bytes(written[:cut])
            assert len(IdleLog(tmp_path / "idle" / "S", own=False).entries) == cut // (len(written) // 2)
            IdleLog(tmp_path / "idle" / "S", own=True).close()
            assert (tmp_path / "idle" / "S").stat().st_size % (len(written) // 2) == 0


@pytest.mark.parametrize("seed", range(30))
def test_lives_agree(tmp_path, source, seed):
    """Rows that come sooner or later than they should, lives that go back anywhere: what is given out is one thing."""
    random, clock = Random(seed), Wall()
    stream = PersistentStream.create(tmp_path / "s", rows([], []).schema, stability="async")
    given: dict[int, OrderKey] = {}  # by position of a row, its time
    left_out: set[int] = set()
    reached, written, last = START_KEY, 0, 0

    def take():
        nonlocal reached
        before, batch = feed.position, feed.next(random.choice([1, 3, 100]))
        columns = [batch.column(n).cast(pa.int64()).to_pylist() for n in ("at", "_ts")] if batch else [[], []]
        got = dict(zip(*columns, strict=True))
        for at, time in got.items():
            assert at not in left_out
            assert at in given or OrderKey(time, 0, at) > reached
            given[at] = time
        missed = {*range(before, feed.position)} - {*got}
        assert not missed & {*given}
        left_out.update(missed)
        if batch is None and feed.watermark is not None:
            reached = max(reached, feed.watermark)
        return bool(got)

    with stream.writer() as writer:
        feed = life(tmp_path, source, clock)
        for _ in range(80):
            step = random.random()
            if step < 0.3:
                last = max(last, clock.time - random.choice([0, IDLE // 2, 2 * IDLE]))
                size = random.randint(1, 5)
                times = sorted(random.randint(last, max(last, clock.time)) for _ in range(size))
                writer.append(rows([*range(written, written + size)], times)).result()
                written, last = written + size, times[-1]
            elif step < 0.5:
                clock.time += random.choice([1000, IDLE // 3, 2 * IDLE])
            elif step < 0.6:
                feed.close()
                feed = life(tmp_path, source, clock, random.randint(0, feed.position))
            else:
                take()
        while take():
            pass
    assert feed.late == len(left_out)
    assert {*given} | left_out == {*range(written)}


def test_what_cannot_be_is_refused(tmp_path):
    app = App("late")
    app.source("S", "x long", lateness="1s").sink("Out")
    with pytest.raises(UsageError, match="give `follow` too"):
        run(app, {}, out=tmp_path / "a", idle="1s")
    with pytest.raises(UsageError, match="source S has a lateness"):
        run(app, {}, out=tmp_path / "a", idle="1s", follow=True)
    with pytest.raises(UsageError, match="`idle=0s`: write the longest time"):
        run(app, {}, out=tmp_path / "a", idle="0s", follow=True)
