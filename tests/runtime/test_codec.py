"""Messages keep their content as frames, whatever their columns; and no bytes whatever are worse than a `DataError`."""

import datetime
import resource
import struct

import numpy as np
import pyarrow as pa
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from riprap.base.errors import DataError
from riprap.base.randomness import generator
from riprap.expressions.type_names import SCALARS
from riprap.graph.order_keys import OrderKey
from riprap.operators.views import Views
from riprap.protocols.channels import ChannelId
from riprap.runtime.messages import Message, MessageKind
from riprap.runtime.transport import codec
from riprap.runtime.transport.codec import Decoder, Encoder, frames
from riprap.runtime.transport.opening import Handshake, Opening, read_opening
from riprap.runtime.transport.wire_frame import HEADER_SIZE, FrameKind, WireHeader, pack, unpack

UNSIGNED = st.integers(0, 2**63 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
KEYS = st.builds(OrderKey, INT64, st.integers(-(2**31), 2**31 - 1), INT64, INT64)
TYPES = sorted((type_ for type_ in set(SCALARS.values()) if not pa.types.is_decimal(type_)), key=str)
TEXT = st.sampled_from(["", "a", "ünï", "日本", "long " * 9, "b", "c"])


def values_of(type_):
    if pa.types.is_boolean(type_):
        return st.booleans()
    if pa.types.is_integer(type_):
        signed = pa.types.is_signed_integer(type_)
        width = type_.bit_width - signed
        return st.integers(-(2**width) if signed else 0, 2**width - 1)
    if pa.types.is_floating(type_):
        return st.floats(width=type_.bit_width, allow_nan=False)
    if pa.types.is_date32(type_):
        return st.dates(datetime.date(1900, 1, 1))
    if pa.types.is_timestamp(type_):
        return st.datetimes(datetime.datetime(1900, 1, 1)).map(lambda t: t.replace(tzinfo=datetime.UTC))
    return TEXT.map(str.encode) if pa.types.is_binary(type_) else TEXT


@st.composite
def columns(draw, type_, rows):
    """A column of any form that an operator may give: plain, a slice, a dictionary with any codes, with NULLs."""
    before, behind = draw(st.integers(0, 11)), draw(st.integers(0, 3))
    values = st.none() | values_of(type_) if draw(st.booleans()) else values_of(type_)
    column = pa.array(draw(st.lists(values, min_size=before + rows + behind, max_size=before + rows + behind)), type_)
    if pa.types.is_string(type_) or pa.types.is_binary(type_):
        how = draw(st.sampled_from(["plain", "large", "int32", "int8", "pool", "null"]))
        if how == "large":
            column = column.cast(pa.large_string() if pa.types.is_string(type_) else pa.large_binary())
        elif how != "plain":
            column = column.dictionary_encode(null_encoding="encode" if how == "null" else "mask")
            if how == "int8":
                column = column.cast(pa.dictionary(pa.int8(), type_))
            elif how == "pool":
                unused = pa.array([f"unused {n}" for n in range(2_000)]).cast(type_)
                pool = pa.concat_arrays([unused, column.dictionary])
                codes = pa.array(
                    [None if code is None else code + 2_000 for code in column.indices.to_pylist()], pa.int16()
                )
                column = pa.DictionaryArray.from_arrays(codes, pool)
    return column.slice(before, rows)


@st.composite
def channels(draw):
    """A schema, and messages of it in the order in which a connection has them."""
    types = draw(st.lists(st.sampled_from(TYPES), min_size=1, max_size=5))
    schema = pa.schema([(f"c{at}", type_) for at, type_ in enumerate(types)])
    messages = []
    for kind in draw(
        st.lists(st.sampled_from([MessageKind.ROWS, MessageKind.ROWS, *MessageKind]), min_size=1, max_size=5)
    ):
        batch = None
        if kind is MessageKind.ROWS:
            rows = draw(st.integers(1, 20))
            batch = Views.of(
                pa.RecordBatch.from_arrays([draw(columns(type_, rows)) for type_ in types], names=schema.names)
            )
        messages.append(
            Message(
                kind,
                draw(UNSIGNED),
                draw(UNSIGNED),
                batch,
                draw(KEYS) if kind is MessageKind.PUNCTUATION else None,
                draw(st.none() | KEYS),
                draw(UNSIGNED),
                draw(st.binary(max_size=40) | st.binary(max_size=40).map(lambda rest: b"\x00late" + rest)),
                draw(st.none() | KEYS),
            )
        )
    return schema, messages


def bytes_of(schema, messages, **options):
    encoder = Encoder(schema, **options)
    return [b"".join(encoder.encode(message)) for message in messages]


def decoded(schema, data):
    decoder = Decoder(schema)
    messages = [decoder.decode(header, body) for header, body in frames(memoryview(data))]
    return [message for message in messages if message is not None]


def same(one, other):
    assert one.batch is None or one.batch.batch().to_pydict() == other.batch.batch().to_pydict()
    fields = ("kind", "epoch", "number", "punctuation", "watermark", "born", "header", "at", "items")
    assert [getattr(one, name) for name in fields] == [getattr(other, name) for name in fields]


@settings(max_examples=150, deadline=None)
@given(channels(), st.booleans())
def test_messages_come_back_as_they_were(channel, checked):
    schema, messages = channel
    back = decoded(schema, b"".join(bytes_of(schema, messages, checked=checked)))
    for one, other in zip(messages, back, strict=True):
        same(one, other)
        if other.batch is not None:
            other.batch.batch().validate(full=True)


def text_batch(column):
    return Message(MessageKind.ROWS, 1, 0, Views.of(pa.RecordBatch.from_arrays([column], names=["k"])))


TEXT_SCHEMA = pa.schema([("k", pa.string())])


def dictionary_frames(encoder, message):
    return dictionary_sizes(b"".join(encoder.encode(message)))


def dictionary_sizes(sent):
    """What was there before, and how many values more."""
    return [(h.epoch, h.rows) for h, _ in frames(memoryview(sent)) if h.kind is FrameKind.DICTIONARY]


def coded(codes, dictionary):
    return text_batch(pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), dictionary))


def test_a_dictionary_is_sent_once_and_of_one_that_grew_what_is_new():
    values = pa.array([f"t{n}" for n in range(10)])
    encoder = Encoder(TEXT_SCHEMA)
    assert dictionary_frames(encoder, coded([0, 3], values)) == [(0, 10)]
    assert dictionary_frames(encoder, coded([9], values)) == []
    assert dictionary_frames(encoder, coded([9], pa.array(values.to_pylist()))) == [], "equal at another address"
    longer = pa.array([*values.to_pylist(), "new", "newer"])
    assert dictionary_frames(encoder, coded([11], longer)) == [(10, 2)]
    assert dictionary_frames(encoder, coded([0], pa.array(["other"]))) == [(12, 1)], "what the other end has stays"


def test_plain_text_that_repeats_is_sent_once():
    encoder = Encoder(TEXT_SCHEMA)
    assert dictionary_frames(encoder, text_batch(pa.array(["a", "b", "a"]))) == [(0, 2)]
    assert dictionary_frames(encoder, text_batch(pa.array(["b", None, "c"]))) == [(2, 1)]
    assert dictionary_frames(encoder, text_batch(pa.array(["c", "a"]))) == []


def test_a_dictionary_larger_than_its_batch_is_cut_until_it_comes_again():
    pool = pa.array([f"text {n}" for n in range(5_000)])
    encoder = Encoder(TEXT_SCHEMA)
    assert dictionary_frames(encoder, coded([7, None, 7], pool)) == [(0, 1)]
    assert dictionary_frames(encoder, coded([7], pool)) == [(0, 5_000)]
    assert dictionary_frames(encoder, coded([8], pool)) == []


@pytest.mark.parametrize("rows", [5_000, 20])
def test_values_that_the_other_end_has_in_another_order_are_not_sent_again(rows):
    """As the row groups of a file have them."""
    values, random = [f"text {n}" for n in range(3_000)], np.random.default_rng(7)
    encoder, decoder, known = Encoder(TEXT_SCHEMA), Decoder(TEXT_SCHEMA), []
    for group in range(6):
        ordered = [*values[group:], f"new {group}"]
        random.shuffle(ordered)
        dictionary = pa.array(ordered)
        for _ in range(3):
            codes = random.integers(0, len(ordered), rows).tolist()
            codes[5] = None
            message = coded(codes, dictionary)
            sent = b"".join(encoder.encode(message))
            if group:
                assert sum(count for _, count in dictionary_sizes(sent)) <= 1, "nothing but what is new"
                assert all(before for before, _ in dictionary_sizes(sent)), "behind what is there"
            for header, body in frames(memoryview(sent)):
                if (back := decoder.decode(header, body)) is not None:
                    assert back.batch.batch().to_pydict() == message.batch.batch().to_pydict()
                    known.append(back.batch.columns[0].dictionary)
    assert len({id(dictionary) for dictionary in known}) <= 2 + 6


def test_growing_dictionaries_leave_earlier_batches_as_they_were():
    encoder, decoder, kept = Encoder(TEXT_SCHEMA), Decoder(TEXT_SCHEMA), []
    values: list[str] = []
    for step in range(50):
        values += [f"v{step}-{n}" for n in range(step)] or ["first"]
        message = coded([len(values) - 1, 0], pa.array(values))
        for header, body in frames(memoryview(b"".join(encoder.encode(message)))):
            if (back := decoder.decode(header, body)) is not None:
                kept.append((back.batch.batch(), message.batch.batch().to_pydict()))
    for batch, expected in kept:
        assert batch.to_pydict() == expected


def test_a_message_that_is_too_long_for_a_frame_is_sent_in_pieces(monkeypatch):
    monkeypatch.setattr(codec, "MAX_HEADER", 100)
    monkeypatch.setattr(codec, "MAX_LENGTH", 2_000)
    schema = pa.schema([("x", pa.int64())])
    batch = pa.RecordBatch.from_arrays([pa.array(range(1_000))], names=["x"])
    key = OrderKey(5, 0, 5)
    back = decoded(
        schema, bytes_of(schema, [Message(MessageKind.ROWS, 1, 50, Views.of(batch), watermark=key, header=b"h")])[0]
    )
    assert len(back) > 5
    assert [value for part in back for value in part.batch.batch().column(0).to_pylist()] == list(range(1_000))
    assert [part.number for part in back] == [50 + part.batch.batch().column(0)[0].as_py() for part in back]
    assert [part.watermark for part in back] == [None] * (len(back) - 1) + [key]
    assert {part.header for part in back} == {b"h"}


def test_what_is_sent_of_a_slice_is_the_slice():
    schema = pa.schema([("x", pa.int64()), ("b", pa.bool_())])
    numbers = np.arange(100_000)
    batch = pa.RecordBatch.from_arrays([pa.array(numbers), pa.array(numbers % 3 == 0)], names=["x", "b"])
    (data,) = bytes_of(schema, [Message(MessageKind.ROWS, 1, 0, Views.of(batch.slice(50_003, 10)))])
    assert len(data) < 400
    assert decoded(schema, data)[0].batch.batch().to_pydict() == batch.slice(50_003, 10).to_pydict()


# What is wrong --------------------------------------------------------------------------------------------------------

SCHEMA = pa.schema([("k", pa.string()), ("x", pa.int64()), ("f", pa.bool_()), ("y", pa.float32()), ("z", pa.binary())])


def sample(rows=40):
    numbers = np.arange(rows)
    batch = pa.RecordBatch.from_arrays(
        [
            pa.array([None if n % 7 == 0 else f"k{n % 5}ü" for n in numbers.tolist()]),
            pa.array([None if n % 3 == 0 else n for n in numbers.tolist()], pa.int64()),
            pa.array(numbers % 2 == 0),
            pa.array(numbers, pa.float32()),
            pa.array([b"\xff" * (n % 4) for n in numbers.tolist()]),
        ],
        schema=SCHEMA,
    )
    key = OrderKey(1, 0, 1)
    return [
        Message(MessageKind.ROWS, 1, 0, Views.of(batch), watermark=key, header=b"vector"),
        Message(MessageKind.PUNCTUATION, 1, rows, punctuation=key),
        Message(MessageKind.MARKER, 1, rows + 1, header=b"round 7"),
        Message(MessageKind.END, 1, rows + 1),
    ]


def survive(data):
    """Decode what can be; whether that was all of it. Anything but a `DataError` fails the test."""
    try:
        for message in decoded(SCHEMA, data):
            if message.batch is not None:
                batch = message.batch.batch()
                batch.validate(full=True)  # whatever the values are now, Arrow can live with them
                batch.to_pydict()
    except DataError:
        return False
    return True


def resealed(data, at, **changes):
    """A frame with another header that has the right check."""
    header = unpack(memoryview(data), at)
    return data[:at] + pack(header._replace(**changes)) + data[at + HEADER_SIZE :]


def test_thousands_of_damaged_frames_are_errors_and_nothing_worse():
    whole = b"".join(bytes_of(SCHEMA, sample()))
    checked = b"".join(bytes_of(SCHEMA, sample(), checked=True))
    random = generator(7, "damage")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert survive(whole)
    assert survive(checked)
    for at in range(0, len(whole), 3):
        survive(whole[:at])
    found = 0
    for _ in range(3_000):
        damaged = bytearray(whole)
        for _ in range(int(random.integers(1, 4))):
            damaged[int(random.integers(len(damaged)))] = int(random.integers(256))
        survive(bytes(damaged))
        damaged = bytearray(checked)
        damaged[int(random.integers(len(damaged)))] ^= 1 << int(random.integers(8))
        found += not survive(bytes(damaged))
    assert found == 3_000, "with checks no damage goes unseen"
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000, "kB: no claim was believed"


def test_headers_that_lie_with_a_right_check_are_errors():
    whole = b"".join(bytes_of(SCHEMA, sample()))
    random = generator(8, "lies")
    starts, at = [], 0
    while at < len(whole):
        starts.append(at)
        at += HEADER_SIZE + unpack(memoryview(whole), at).body
    numbers = [0, 1, 7, 8, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for at in starts:
        kind = unpack(memoryview(whole), at).kind
        for value in numbers:
            for name in ("rows", "header"):
                if value < 2**32:
                    survive(resealed(whole, at, **{name: value}))
            for name in ("epoch", "number"):
                survive(resealed(whole, at, **{name: value}))
            if value != unpack(memoryview(whole), at).body:
                assert not survive(resealed(whole, at, body=value if value < 2**60 else 2**60))
        for other in FrameKind:
            if other != kind and {other, kind} != {FrameKind.END, FrameKind.WATERMARK}:
                survive(resealed(whole, at, kind=other))
    for _ in range(1_000):
        raw = bytearray(whole)
        at = starts[int(random.integers(len(starts)))]
        for _ in range(2):
            raw[at + int(random.integers(HEADER_SIZE - 8))] = int(random.integers(256))
        survive(resealed_raw(bytes(raw), at))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000, "kB: no claim was believed"


def resealed_raw(data, at):
    check = struct.pack("<Q", xxhash.xxh3_64_intdigest(data[at : at + HEADER_SIZE - 8]))
    return data[: at + HEADER_SIZE - 8] + check + data[at + HEADER_SIZE :]


def text_frames(values, codes):
    """A dictionary and rows as somebody might write them who does not use the encoder."""
    offsets = np.array(values[0], np.int32).tobytes()
    body = offsets + bytes(-len(offsets) % 8) + values[1] + bytes(-len(values[1]) % 8)
    count = len(values[0]) - 1
    dictionary = pack(WireHeader(FrameKind.DICTIONARY, len(body), count)) + body
    rows = bytes(8) + np.array(codes, np.int32).tobytes()
    rows += bytes(-len(rows) % 8)
    return dictionary + pack(WireHeader(FrameKind.ROWS, len(rows), len(codes))) + rows


@pytest.mark.parametrize(
    ("values", "codes", "what"),
    [
        (([0, 1, 2], b"ab"), [0, 2], "not among the 2 values"),
        (([0, 1, 2], b"ab"), [-1], "not among the 2 values"),
        (([0, 2, 1], b"ab"), [0], "offsets do not fit"),
        (([1, 2], b"ab"), [0], "offsets do not fit"),
        (([0, 99], b"ab"), [0], "offsets do not fit"),
        (([0, -5], b"ab"), [0], "offsets do not fit"),
        (([0, 1], b"\xff"), [0], "not UTF-8"),
        (([0, 1, 2], "ü".encode()), [0], "within a character"),
    ],
)
def test_text_that_points_nowhere_or_is_no_text_is_an_error(values, codes, what):
    with pytest.raises(DataError, match=what):
        decoded(TEXT_SCHEMA, text_frames(values, codes))


def test_an_opening_comes_back_and_nonsense_does_not():
    opening = Opening(ChannelId("A→B", 1, 2), 7, [["k", "string"]], 3)
    frame = Handshake("secret", "unix://x", bytes(32)).opening(opening)
    header = unpack(memoryview(frame))
    assert read_opening(header, memoryview(frame[HEADER_SIZE:])) == opening
    for text in (
        b"",
        b"[]",
        b"{}",
        b'{"channel": [1, 2, 3], "columns": []}',
        b'{"channel": ["a", -1, 0]}',
        b"[" * 4_000,
    ):
        with pytest.raises(DataError, match="names no channel"):
            read_opening(header, memoryview(text))
