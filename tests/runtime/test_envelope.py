"""Messages keep their content through an envelope, through being joined, and through the form of a connection."""

from collections import deque

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from wiring import SCHEMA, rows

from riprap.base.errors import DataError
from riprap.graph.keys import OrderKey
from riprap.runtime.envelope import Answer, AnswerKind, decode, decode_answer, encode, encode_answer
from riprap.runtime.form import OPTIONS, Form
from riprap.runtime.messages import Kind, Message
from riprap.runtime.transport.joining import take_joined

INT64 = st.integers(-(2**63), 2**63 - 1)
KEYS = st.builds(OrderKey, INT64, st.integers(-(2**31), 2**31 - 1), INT64, INT64)
BATCH = rows(0, 3).batch


@st.composite
def messages(draw):
    kind = draw(st.sampled_from(Kind))
    return Message(
        kind,
        draw(INT64),
        draw(INT64),
        batch=BATCH if kind is Kind.ROWS else None,
        punctuation=draw(KEYS) if kind is Kind.PUNCTUATION else None,
        progress=draw(st.none() | KEYS),
        born=draw(INT64),
        header=draw(st.binary(max_size=40)),
    )


@given(messages())
def test_an_envelope_comes_back_as_it_was(message):
    assert decode(encode(message), message.batch) == message


@given(messages(), st.data())
def test_a_damaged_envelope_is_an_error_and_no_other_message_of_the_same_kind(message, data):
    whole = encode(message)
    fixed = len(whole) - len(message.header)
    with pytest.raises(DataError):
        decode(whole[: data.draw(st.integers(0, fixed - 1))], message.batch)
    with pytest.raises(DataError, match="version 9"):
        decode(b"\x09" + whole[1:], message.batch)
    with pytest.raises(DataError):
        decode(whole, None if message.batch is not None else BATCH)


@given(st.builds(Answer, st.sampled_from(AnswerKind), INT64, INT64))
def test_an_answer_comes_back_as_it_was(answer):
    assert decode_answer(encode_answer(answer)) == answer
    with pytest.raises(DataError):
        decode_answer(encode_answer(answer)[:-1])


@st.composite
def channels(draw):
    """Messages as a channel has them: numbers rise, with holes where something was lost; so does progress."""
    number, reached, result = draw(st.integers(0, 5)), 0, []
    for kind in draw(st.lists(st.sampled_from([Kind.ROWS, Kind.ROWS, Kind.PROGRESS, Kind.PUNCTUATION]), max_size=20)):
        number += draw(st.sampled_from([0, 0, 0, 3]))
        reached += draw(st.integers(0, 2))
        key = OrderKey(reached, 0, reached)
        fields = {
            "epoch": draw(st.sampled_from([1, 1, 1, 2])),
            "progress": key if kind is not Kind.ROWS else draw(st.sampled_from([None, key])),
            "born": draw(st.integers(0, 5)),
            "header": draw(st.sampled_from([b"", b"", b"", b"cut"])),
        }
        if kind is Kind.ROWS:
            made = rows(number, draw(st.integers(1, 6)), encoded=draw(st.booleans()), **fields)
        else:
            made = Message(kind, number=number, punctuation=key if kind is Kind.PUNCTUATION else None, **fields)
        result.append(made)
        number += made.items
    return result


def facts(sent):
    """What a consumer learns item by item, however the items are cut into messages."""
    items, reached = [], None
    for message in sent:
        if message.batch is not None:
            for at, row in enumerate(message.batch.to_pylist()):
                items.append((message.number + at, row["x"], row["k"], message.header, message.epoch))
        elif message.kind is Kind.PUNCTUATION:
            items.append((message.number, message.punctuation, message.header, message.epoch))
        reached = message.progress or reached
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
        assert {part.epoch for part in group} == {message.epoch}
        reached = [part.progress for part in group if part.progress is not None]
        assert message.progress == (reached[-1] if reached else None)
    assert taken == len(sent)
    assert facts(joined) == facts(sent)


def test_what_follows_is_joined():
    queue = deque([rows(0, 3), Message(Kind.PROGRESS, 1, 3, progress=OrderKey(1, 0, 1)), rows(3, 4)])
    message, _ = take_joined(queue, 100)
    assert (message.number, message.items, message.progress) == (0, 7, OrderKey(1, 0, 1))
    assert not queue


TEXTS = st.lists(st.none() | st.sampled_from(["a", "b", "cc", ""]), min_size=1, max_size=8)


@given(st.lists(st.tuples(TEXTS, st.sampled_from(["plain", "int32", "int8", "pool"])), min_size=1, max_size=6))
def test_the_form_of_a_connection_changes_no_value_and_survives_the_wire(batches):
    pool = pa.array([f"unused {n}" for n in range(2_000)] + ["a", "b", "cc", ""])

    def column(texts, how):
        plain = pa.array(texts, pa.string())
        if how == "plain":
            return plain
        if how == "pool":
            indices = [None if text is None else 2_000 + ["a", "b", "cc", ""].index(text) for text in texts]
            return pa.DictionaryArray.from_arrays(pa.array(indices, pa.int16()), pool)
        encoded = plain.dictionary_encode()
        return encoded if how == "int32" else encoded.cast(pa.dictionary(pa.int8(), pa.string()))

    schema = pa.schema([("k", pa.string())])
    given_ = [pa.RecordBatch.from_arrays([column(*batch)], names=["k"]) for batch in batches]
    form = Form(schema, given_[0])
    assert pa.types.is_dictionary(form.schema.field("k").type) == (batches[0][1] != "plain")
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, form.schema, options=OPTIONS) as writer:
        for batch in given_:
            writer.write_batch(form.give(batch))
    back = pa.ipc.open_stream(sink.getvalue()).read_all().column("k").to_pylist()
    assert back == [text for texts, _ in batches for text in texts]


def test_a_dictionary_larger_than_its_batch_is_cut_until_it_comes_again():
    pool = pa.array([f"text {n}" for n in range(5_000)])
    batch = pa.RecordBatch.from_arrays([pa.DictionaryArray.from_arrays(pa.array([7], pa.int32()), pool)], names=["k"])
    form = Form(pa.schema([("k", pa.string())]), batch)
    assert [len(form.give(batch).column(0).dictionary) for _ in range(3)] == [1, 5_000, 5_000]


def test_the_columns_of_a_stream_keep_their_order():
    sent = rows(0, 4, encoded=True).batch
    assert Form(SCHEMA, sent).give(sent).to_pydict() == sent.to_pydict()
