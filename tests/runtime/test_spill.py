"""What is held for a consumer and does not fit into memory comes back from disk, whole and in order."""

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from riprap.graph.keys import OrderKey, physical_schema, source_shape
from riprap.protocols.channels import ChannelId
from riprap.runtime.held import Held
from riprap.runtime.messages import Kind, Message
from riprap.runtime.spill import LogSpill

SCHEMA = physical_schema(pa.schema([("name", pa.string())]), source_shape(0))
CHANNEL = ChannelId("A→B")


def message(number: int, rows: int) -> Message:
    if rows == 0:
        return Message(Kind.PUNCTUATION, 1, number, punctuation=OrderKey(number, 0, number))
    numbers = list(range(number, number + rows))
    columns = [pa.array([f"n{n}" for n in numbers]), pa.array(numbers, SCHEMA.field("_ts").type), pa.array(numbers)]
    return Message(Kind.ROWS, 1, number, pa.RecordBatch.from_arrays(columns, schema=SCHEMA), born=7)


def items(messages: list[Message]) -> list[object]:
    """Each item by itself: a row's number, or a punctuation's key."""
    found: list[object] = []
    for m in messages:
        found += m.batch["_seq"].to_pylist() if m.batch is not None else [m.punctuation]
    return found


@settings(max_examples=25, deadline=None)
@given(
    sizes=st.lists(st.integers(0, 40), min_size=1, max_size=30),
    taken=st.integers(0, 600),
    limit=st.integers(0, 3000),
)
def test_what_is_held_comes_back_whole(tmp_path_factory, sizes, taken, limit):
    place = tmp_path_factory.mktemp("spill") / "log"
    held = Held(limit, lambda: LogSpill(place, CHANNEL, SCHEMA))
    number, kept = 0, []
    for rows in sizes:
        kept.append(message(number, rows))
        held.add(kept[-1])
        number += kept[-1].items
    taken = min(taken, number)
    held.release(taken)
    held.rewind(taken)
    again = []
    while (following := held.next()) is not None:
        again.append(following)
        held.sent()
        held.release(following.number + following.items)
    first = again[0].number if again else number
    assert items(again) == items(kept)[first:]
    assert first <= taken
    assert held.drained
    assert not place.exists(), "what was taken is not kept"
    held.add(message(number, 3))
    assert held.next() is not None, "and memory is used again"
