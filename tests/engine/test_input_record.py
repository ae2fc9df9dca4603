"""Another file in the place of an input is noticed, whatever of it differs; what only got more behind it is not."""

import json
import os
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from riprap.base.errors import DataError
from riprap.engine.input_record import NOTED, Reading, check_same, identity, part_digest, read_noted
from riprap.engine.inputs import read_file

ROWS, GROUP = 1_000, 100


def table(rows=ROWS, change=None, names=("x", "text")):
    x = np.arange(rows)
    if change is not None:
        x[change] = x[change] ^ 1 if change not in (0, rows - 1) else x[change]
    return pa.table({names[0]: x, names[1]: [f"row {n % 7}" for n in x]})


def write(path, made, groups=GROUP):
    draft = path.with_name(f"new{path.suffix}")  # as somebody replaces a file: another inode
    if path.suffix == ".parquet":
        # Without statistics and compression the footer says nothing of values.
        pq.write_table(
            made, draft, row_group_size=groups, use_dictionary=False, compression="none", write_statistics=False
        )
    else:
        with pa.ipc.new_file(draft, made.schema) as writer:
            writer.write_table(made, max_chunksize=groups)
    draft.replace(path)


def read(directory, path, rows=ROWS, columns=("x", "text")):
    """As a source does, so many rows; returns what a run noted when it began."""
    noted, taken = identity(path), 0
    for batch in read_file(path, columns, note=Reading(directory, "In", "In").part):
        taken += batch.num_rows
        if taken >= rows:
            break
    return noted


@pytest.fixture(params=["parquet", "arrow"])
def path(request, tmp_path):
    made = tmp_path / f"in.{request.param}"
    write(made, table())
    return made


def refused(tmp_path, path, noted, what):
    with pytest.raises(DataError, match=f"the input of source In, .*, is not what this run has read: {what}; restore"):
        check_same(tmp_path, "In", path, noted)


def test_the_same_file_is_the_same_also_as_a_copy(tmp_path, path):
    noted = read(tmp_path, path)
    assert not check_same(tmp_path, "In", path, noted)
    copied = path.with_name("copy")
    shutil.copyfile(path, copied)
    copied.replace(path)
    assert path.stat().st_ino != noted["files"][0]["inode"]
    check_same(tmp_path, "In", path, noted)


@pytest.mark.parametrize("copy", [False, True])
def test_one_value_that_was_read_is_another(tmp_path, path, copy):
    """The file has the same length, rows and schema; its footer says nothing of it."""
    noted = read(tmp_path, path, 500)
    write(path, table(change=250))
    refused(tmp_path, path, noted, "row group 2 has other values")


def test_what_a_footer_says_is_held_to_also_of_what_was_not_read(tmp_path):
    path = tmp_path / "in.parquet"
    pq.write_table(table(), path, row_group_size=GROUP)
    noted = read(tmp_path, path, 100)
    changed = table(change=999 - 1)
    changed = changed.set_column(0, "x", pa.array([*range(ROWS - 1), 5_000]))
    pq.write_table(changed, tmp_path / "new.parquet", row_group_size=GROUP)
    (tmp_path / "new.parquet").replace(path)
    refused(tmp_path, path, noted, "row group 9 differs")


def test_a_shorter_file_is_another(tmp_path, path):
    noted = read(tmp_path, path, 100)
    write(path, table(900))
    refused(tmp_path, path, noted, "it has 900 rows, and had 1,000")


def test_other_columns_are_another_file(tmp_path, path):
    noted = read(tmp_path, path, 100)
    write(path, table(names=("y", "text")))
    refused(tmp_path, path, noted, "its columns differ")


def test_other_row_groups_are_another_file(tmp_path, path):
    noted = read(tmp_path, path, 100)
    write(path, table(), groups=200)
    refused(tmp_path, path, noted, "row group 0 differs")


def test_a_file_may_have_more_behind_what_was_noted(tmp_path, path):
    noted = read(tmp_path, path, 500)
    write(path, table(1_500))
    assert check_same(tmp_path, "In", path, noted)


def test_a_file_that_is_gone_or_none_is_said(tmp_path, path):
    noted = read(tmp_path, path, 100)
    path.write_bytes(b"no such file")
    with pytest.raises(DataError, match="cannot read"):
        check_same(tmp_path, "In", path, noted)


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "in"
    made.mkdir()
    for name in ("b", "c"):
        write(made / f"{name}.parquet", table())
    (made / "new.parquet").unlink(missing_ok=True)
    return made


def test_a_directory_may_get_files_behind_those_that_were_there(tmp_path, folder):
    noted = read(tmp_path, folder, 1_500)
    assert not check_same(tmp_path, "In", folder, noted)
    shutil.copy(folder / "b.parquet", folder / "d.parquet")
    assert check_same(tmp_path, "In", folder, noted)


def test_a_directory_whose_order_is_another_is_refused(tmp_path, folder):
    noted = read(tmp_path, folder, 100)
    shutil.copy(folder / "b.parquet", folder / "a.parquet")
    refused(tmp_path, folder, noted, "a.parquet sorts before others")


def test_a_file_of_a_directory_that_is_gone_or_another(tmp_path, folder):
    noted = read(tmp_path, folder, 1_500)
    write(folder / "c.parquet", table(change=350))
    refused(tmp_path, folder, noted, "row group 3 has other values")
    (folder / "b.parquet").unlink()
    refused(tmp_path, folder, noted, "b.parquet is missing")


def test_only_columns_that_were_read_are_held_to_their_bytes(tmp_path):
    path = tmp_path / "in.parquet"
    write(path, table())
    noted = read(tmp_path, path, 500, columns=("text",))
    other = table().set_column(0, "x", pa.array(np.arange(ROWS) * 3))
    write(path, other)
    assert part_digest(path, 0, ["text"]) == part_digest(path, 0, ["text"])
    assert check_same(tmp_path, "In", path, noted)


def test_a_line_that_a_crash_cut_is_none(tmp_path, path):
    noted = read(tmp_path, path, 500)
    [lines] = (tmp_path / "inputs" / "In").iterdir()
    os.truncate(lines, lines.stat().st_size - 5)
    read(tmp_path, path, 100)  # the next life notes behind it
    write(path, table(change=250))
    refused(tmp_path, path, noted, "row group 2 has other values")


@pytest.mark.parametrize("text", ["", "[]", '{"In": 3}', '{"In": {"files": [{"name": "a"}]}}', "\x00"])
def test_a_damaged_note_is_a_sentence(tmp_path, text):
    (tmp_path / NOTED).write_text(text)
    with pytest.raises(DataError, match=NOTED):
        read_noted(tmp_path)


def test_a_run_of_before_has_none(tmp_path, path):
    assert read_noted(tmp_path) == {}
    (tmp_path / NOTED).write_text(json.dumps({"In": identity(path), "Live": {"stream": "00"}}))
    assert set(read_noted(tmp_path)) == {"In", "Live"}


def test_statistics_that_python_cannot_represent(tmp_path):
    """Text that is not UTF-8 and times beyond year 9999: whatever reads the rows refuses them."""
    text = pa.Array.from_buffers(
        pa.string(), 2, [None, pa.array([0, 2, 4], pa.int32()).buffers()[1], pa.py_buffer(b"\xff\xfe\xfd\xfc")]
    )
    times = pa.array([-(2**63), 2**63 - 1], pa.timestamp("us", "UTC"))
    path = tmp_path / "in.parquet"
    pq.write_table(pa.table({"text": text, "at": times}), path)
    noted = identity(path)
    shutil.copy(path, tmp_path / "copy.parquet")
    (tmp_path / "copy.parquet").replace(path)
    check_same(tmp_path, "In", path, noted)
    pq.write_table(pa.table({"text": text, "at": times.take(pa.array([0, 0]))}), path)
    refused(tmp_path, path, noted, "row group 0 differs")
