"""Joined messages say what their parts said."""

from collections import deque

from hypothesis import given
from hypothesis import strategies as st
from wiring import rows

from riprap.graph.order_keys import OrderKey
from riprap.runtime.messages import Message, MessageKind
from riprap.runtime.transport.joining import take_joined


@st.composite
def channels(draw):
    """Messages as a channel has them: numbers rise, with holes where something was lost; so does progress."""
    number, reached, result = draw(st.integers(0, 5)), 0, []
    for kind in draw(
        st.lists(
            st.sampled_from([MessageKind.ROWS, MessageKind.ROWS, MessageKind.WATERMARK, MessageKind.PUNCTUATION]),
            max_size=20,
        )
    ):
        number += draw(st.sampled_from([0, 0, 0, 3]))
        reached += draw(st.integers(0, 2))
        key = OrderKey(reached, 0, reached)
        fields = {
            "epoch": draw(st.sampled_from([1, 1, 1, 2])),
            "watermark": key if kind is not MessageKind.ROWS else draw(st.sampled_from([None, key])),
            "born": draw(st.integers(0, 5)),
            "header": draw(st.sampled_from([b"", b"", b"", b"cut"])),
            "at": draw(st.sampled_from([None, None, None, OrderKey(7)])),
        }
        if kind is MessageKind.ROWS:
            made = rows(number, draw(st.integers(1, 6)), encoded=draw(st.booleans()), **fields)
        else:
            made = Message(kind, number=number, punctuation=key if kind is MessageKind.PUNCTUATION else None, **fields)
        result.append(made)
        number += made.items
    return result


def facts(sent):
    """What a consumer learns item by item, however the items are cut into messages."""
    items, reached = [], None
    for message in sent:
        if message.batch is not None:
            for at, row in enumerate(message.batch.batch().to_pylist()):
                items.append((message.number + at, row["x"], row["k"], message.header, message.at, message.epoch))
        elif message.kind is MessageKind.PUNCTUATION:
            items.append((message.number, message.punctuation, message.header, message.at, message.epoch))
        reached = message.watermark or reached
    return items, reached, min((message.born for message in sent if message.born), default=0)


@given(channels(), st.integers(1, 30))
def test_joined_messages_say_the_same(sent, most):
    queue, joined, taken = deque(sent), [], 0
    while queue:
        message, count = take_joined(queue, most)
        group = sent[taken : taken + count]
        taken += count
        joined.append(message)
        assert message.items == sum(part.items for part in group)
        assert message.items <= most or len(group) == 1
        assert {part.header for part in group} == {message.header}
        assert len(group) == 1 or not any(part.at for part in group)
        assert {part.epoch for part in group} == {message.epoch}
        reached = [part.watermark for part in group if part.watermark is not None]
        assert message.watermark == (reached[-1] if reached else None)
    assert taken == len(sent)
    assert facts(joined) == facts(sent)


def test_what_follows_is_joined():
    queue = deque([rows(0, 3), Message(MessageKind.WATERMARK, 1, 3, watermark=OrderKey(1, 0, 1)), rows(3, 4)])
    message, _ = take_joined(queue, 100)
    assert (message.number, message.items, message.watermark) == (0, 7, OrderKey(1, 0, 1))
    assert not queue


def test_rows_are_joined_whatever_their_dictionaries_and_nothing_across_a_fence():
    parts = [rows(0, 3), rows(3, 4, encoded=True), rows(7, 2)]
    message, count = take_joined(deque(parts), 100)
    assert (count, message.number, message.items) == (3, 0, 9)
    assert message.batch.batch().column("x").to_pylist() == list(range(9))
    assert message.batch.batch().column("k").to_pylist() == [f"k{n % 5}" for n in range(9)]
    queue = deque(parts)
    assert [take_joined(queue, 100, {7})[0].items for _ in range(2)] == [7, 2]
    queue = deque([rows(0, 1), Message(MessageKind.MARKER, 1, 1, header=b"m"), rows(1, 1)])
    assert [take_joined(queue, 100)[0].kind for _ in range(3)] == [
        MessageKind.ROWS,
        MessageKind.MARKER,
        MessageKind.ROWS,
    ]
