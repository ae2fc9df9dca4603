"""Text files of others: bounded whatever they are, refused with a sentence."""

import os
import threading

import pytest

from riprap.base import documents
from riprap.base.documents import read_json, read_text
from riprap.base.errors import DataError


def test_a_device_has_no_end(monkeypatch):
    monkeypatch.setattr(documents, "LARGEST", 1 << 20)
    with pytest.raises(DataError, match="larger than 1 MiB"):
        read_text("/dev/zero", "plan")


def test_a_pipe_is_read_once_and_whole(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=lambda: (tmp_path / "pipe").write_text('{"a": 1}'))
    writer.start()
    assert read_json(tmp_path / "pipe") == {"a": 1}
    writer.join()


def test_a_file_that_is_too_large(monkeypatch, tmp_path):
    monkeypatch.setattr(documents, "LARGEST", 8)
    (tmp_path / "large").write_text("123456789")
    with pytest.raises(DataError, match="larger than 0 MiB"):
        read_text(tmp_path / "large")
    (tmp_path / "fits").write_text("12345678")
    assert read_text(tmp_path / "fits") == "12345678"
