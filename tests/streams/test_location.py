"""A location that has neither append nor rename: finished segments are uploaded, the open one stays in the spool."""

import shutil

import pyarrow.fs
import pytest
from stream_data import SCHEMA, batch, batches, table, write

from riprap.base.errors import UsageError
from riprap.streams import PersistentStream
from riprap.streams.stream_files import RemoteFiles, files_at


class ObjectStore(pyarrow.fs.FileSystemHandler):
    """Whole-file writes, reads, listing, deletion. `torn` makes the next upload stop half-way and fail."""

    def __init__(self, directory):
        self.inner = pyarrow.fs.SubTreeFileSystem(str(directory), pyarrow.fs.LocalFileSystem())
        self.torn = False

    def get_type_name(self):
        return "object-store"

    def normalize_path(self, path):
        return path

    def get_file_info(self, paths):
        return self.inner.get_file_info(paths)

    def get_file_info_selector(self, selector):
        return self.inner.get_file_info(selector)

    def open_input_file(self, path):
        return self.inner.open_input_file(path)

    def open_input_stream(self, path):
        return self.inner.open_input_stream(path)

    def open_output_stream(self, path, metadata):
        if self.torn:
            self.torn = False
            self.inner.open_output_stream(path).write(b"ARROW1\0\0 and then the network went away")
            raise OSError("connection lost")
        return self.inner.open_output_stream(path)

    def create_dir(self, path, recursive):
        self.inner.create_dir(path, recursive=recursive)

    def delete_file(self, path):
        self.inner.delete_file(path)

    def _refuse(self, *_):
        raise NotImplementedError("an object store cannot do that")

    open_append_stream = move = copy_file = delete_dir = delete_dir_contents = delete_root_dir_contents = _refuse


@pytest.fixture
def store(tmp_path):
    (tmp_path / "store").mkdir()
    return ObjectStore(tmp_path / "store")


@pytest.fixture
def location(store):
    return RemoteFiles(pyarrow.fs.PyFileSystem(store), "streams/s")


def test_the_finished_is_remote_and_the_open_is_local(location, tmp_path):
    stream = PersistentStream.create(location, SCHEMA, spool=tmp_path / "spool", segment_bytes=2000)
    write(stream, batches([10] * 9))
    here = PersistentStream.open(location, spool=tmp_path / "spool")
    assert table(here.read()).equals(table([batch(0, 90)]))
    elsewhere = PersistentStream.open(location)  # on another machine
    seen = elsewhere.stable().position
    assert 0 < seen < 90
    assert table(elsewhere.read()).equals(table([batch(0, seen)]))
    assert table(elsewhere.read(from_ts=12_000, to_ts=15_000)).equals(table([batch(12, 3)]))
    assert [name for name in location.names() if name.endswith(".arrow")]
    with pytest.raises(UsageError, match="spool"):
        elsewhere.writer()


def test_it_goes_on_and_is_trimmed(location, tmp_path):
    stream = PersistentStream.create(location, SCHEMA, spool=tmp_path / "spool", segment_bytes=1)
    write(stream, batches([10] * 3), producer="p")
    with PersistentStream.open(location, spool=tmp_path / "spool").writer(producer="p", epoch=1) as writer:
        assert writer.last_sequence == 2
        writer.append(batch(30, 10))
    stream.register_reader("r", 20)
    stream.trim(before_position=40)
    assert table(stream.read()).equals(table([batch(20, 20)]))


def test_an_upload_that_is_torn_is_made_again(location, store, tmp_path):
    stream = PersistentStream.create(location, SCHEMA, spool=tmp_path / "spool", segment_bytes=1)
    write(stream, batches([10] * 3))
    store.torn = True
    with stream.writer() as writer:
        writer.append(batch(30, 10)).result()
        assert "connection lost" in str(writer.upload_failure), "and the append is stable nevertheless"
    assert table(PersistentStream.open(location).read()).equals(table([batch(0, 20)])), "the torn one counts as absent"
    assert table(stream.read()).equals(table([batch(0, 40)]))
    write(stream, batches([10, 10], first=40))
    assert table(stream.read()).equals(table([batch(0, 60)]))
    assert table(PersistentStream.open(location).read()).equals(table([batch(0, 50)]))


def test_a_machine_that_is_lost_takes_the_open_segment_with_it_and_no_more(location, tmp_path):
    stream = PersistentStream.create(location, SCHEMA, spool=tmp_path / "spool", segment_bytes=1)
    write(stream, batches([10] * 4))
    shutil.rmtree(tmp_path / "spool")
    with PersistentStream.open(location, spool=tmp_path / "new").writer() as writer:
        assert writer.position == 30
        writer.append(batch(30, 5))
    assert table(PersistentStream.open(location, spool=tmp_path / "new").read()).equals(table([batch(0, 35)]))


def test_uris(tmp_path):
    stream = PersistentStream.create(f"file://{tmp_path}/s", SCHEMA)
    write(stream, batches([3]))
    assert table(PersistentStream.open(tmp_path / "s").read()).equals(table([batch(0, 3)]))
    with pytest.raises(UsageError, match="no file system"):
        files_at("nonsense://x/y")
    with pytest.raises(UsageError, match="needs no spool"):
        PersistentStream.open(tmp_path / "s", spool=tmp_path / "x")
