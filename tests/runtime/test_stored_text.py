"""Text of a log: the same rows as without a dictionary that stays, which is the same as long as nothing new comes."""

import pyarrow as pa
import pytest

from riprap.base.randomness import generator
from riprap.operators.views import Views
from riprap.runtime import stored_text
from riprap.runtime.stored_text import StoredText

WORDS = ["", "a", "b", "aa", "ab", "ß", "a longer word than the others", "\0", "a\0"]


def batches(type_: pa.DataType, count: int, words: list[str], *, nulls: bool) -> list[pa.RecordBatch]:
    draws = generator(7, "stored text", str(type_))
    made = []
    for _ in range(count):
        chosen = [words[at] for at in draws.integers(0, len(words), int(draws.integers(0, 40)))]
        share = draws.choice([0.0, 0.3, 1.0]) if nulls else 0.0
        text = [None if draws.random() < share else word for word in chosen]
        values = pa.array(text, pa.string()).cast(type_)
        made.append(pa.record_batch({"word": values, "x": pa.array(range(len(text)), pa.int64())}))
    return [batch.slice(min(batch.num_rows, int(draws.integers(0, 3)))) for batch in made]


def rows(views: Views) -> list[list[object]]:
    return [column.array().to_pylist() for column in views.columns]


@pytest.mark.parametrize("nulls", [False, True])
@pytest.mark.parametrize("type_", [pa.string(), pa.binary(), pa.large_string()])
def test_rows_are_those_of_the_batch(type_, nulls):
    text = StoredText()
    kept = []
    for batch in batches(type_, 60, WORDS, nulls=nulls):
        views = text.views(batch)
        kept.append((views, batch))
        assert [column.type for column in views.columns] == [column.type for column in Views.of(batch).columns]
    for views, batch in kept:  # also behind all that came later
        assert rows(views) == [column.to_pylist() for column in batch.columns]
        column, plain = views.columns[0], Views.of(batch).columns[0]
        if plain.valid is not None:
            assert column.valid is not None
            assert column.valid.tolist() == plain.valid.tolist()
            assert not column.values[column.valid == 0].any()


def test_the_dictionary_stays_while_nothing_new_comes():
    text = StoredText()
    first, again, more = (
        text.views(pa.record_batch({"word": pa.array(words)}))
        for words in (["a", "b", "a"], ["b", "a"], ["c", "a", None])
    )
    assert again.columns[0].dictionary is first.columns[0].dictionary
    assert again.columns[0].values.tolist() == [1, 0]
    assert more.columns[0].dictionary.to_pylist() == ["a", "b", "c"]
    assert first.columns[0].dictionary.to_pylist() == ["a", "b"]


def test_a_column_of_many_strings_gets_a_dictionary_for_each_batch(monkeypatch):
    monkeypatch.setattr(stored_text, "_MOST", 5)
    text = StoredText()
    for first in range(0, 40, 4):
        batch = pa.record_batch({"word": pa.array([str(n) for n in range(first, first + 4)])})
        views = text.views(batch)
        assert rows(views) == [batch.column(0).to_pylist()]
    assert len(views.columns[0].dictionary) == 4
    long = StoredText()
    for _ in range(2):
        views = long.views(pa.record_batch({"word": pa.array(["x" * (2 << 20), "y"])}))
    assert [len(word) for word in views.columns[0].array().to_pylist()] == [2 << 20, 1]
    assert long.views(pa.record_batch({"word": pa.array(["z"])})).columns[0].dictionary.to_pylist() == ["z"]
