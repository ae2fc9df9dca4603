"""The story of an element: what is left of it after a kill, as entries and as lines, and what is refused."""

import os
import signal
import subprocess
import sys

import pytest

from riprap.base.errors import DataError, UsageError
from riprap.graph.order_keys import OrderKey
from riprap.protocols.channels import ChannelId
from riprap.protocols.events import Halt
from riprap.runtime.messages import Message, MessageKind
from riprap.runtime.story import DIRECTOR, Story, decode_story, line_of, read_story, story_path

IN = ChannelId("A→B", 1, 2)
WATERMARK = Message(MessageKind.WATERMARK, 4, 17, watermark=OrderKey(5, 0, 3, 0))


def test_what_was_recorded_is_read():
    story = Story("B/2", 3, (ChannelId("X→B"), IN))
    story.positions(10, {"inputs": [[IN, 17, 12]]})
    story.arrived(11, IN, WATERMARK)
    story.arrived(12, IN, Message(MessageKind.MARKER, 4, 17, header=b"\x01\x02"))
    story.event(13, "ConsumerDown", ChannelId("B→C"))
    story.ordered(14, Halt(True))
    story.failed(15, "ValueError: " + "ä" * 200)
    found = decode_story(story.cells)
    assert (found.name, found.epoch) == ("B/2", 3)
    assert [entry.at for entry in found.entries] == [10, 11, 12, 12, 13, 14, 15]
    arrived = found.entries[1]
    assert arrived.channel == IN
    assert arrived.message is not None
    assert arrived.message._asdict() == {
        "kind": MessageKind.WATERMARK, "epoch": 4, "number": 17, "items": 0, "watermark": OrderKey(5, 0, 3, 0),
        "late": False,
    }  # fmt: skip
    assert found.entries[3].text == '["Marker", "0102"]'
    assert found.entries[5].text == "Halt(halted=True)"
    assert found.entries[6].text == "ValueError: " + "ä" * 200  # over several slots
    line = line_of(arrived, 15)
    assert " ".join(line.split()) == "-0.000004 s arrived A→B[1→2] watermark 17 of epoch 4, watermark 5"


def test_the_ring_keeps_the_newest_and_positions_to_replay_from():
    story = Story("B", 1, (IN,))
    for at in range(10_000):
        if story.positions_due:
            story.positions(at, {"at": at})
        story.arrived(at, IN, WATERMARK)
    found = decode_story(story.cells)
    assert 4_000 < len(found.entries) <= 4_096
    assert found.entries[-1].at == 9_999
    replayable = found.replayable()
    assert replayable.entries[0].what == "positions"
    assert len(replayable.entries) >= 2_048


@pytest.mark.parametrize("way", ["empty", "cut", "kind", "text", "magic"])
def test_damaged_stories_are_refused(way):
    story = Story("B", 1, (IN,))
    story.arrived(1, IN, WATERMARK)
    data = bytearray(story.cells)
    at = len(data) - 64 * 4096  # the first slot
    damaged = {
        "empty": b"",
        "cut": data[:-1],
        "kind": data[: at + 8] + b"\x63" + data[at + 9 :],
        "text": data[:24] + b"[" + data[25:],
        "magic": b"?" + data[1:],
    }[way]
    with pytest.raises(DataError, match="is damaged"):
        decode_story(bytes(damaged))


def test_a_story_outlives_its_process_and_names_what_there_is(tmp_path):
    text = f"""
import os, signal
from pathlib import Path
from riprap.runtime.story import Story, story_path
from tests.runtime.test_story import IN, WATERMARK
story = Story("B/1", 7, (IN,), story_path(Path({str(tmp_path)!r}), "B/1", 7))
story.arrived(1, IN, WATERMARK)
story.event(2, "Read", "S", 0, 5)
os.kill(os.getpid(), signal.SIGKILL)
"""
    died = subprocess.run([sys.executable, "-c", text], cwd=os.getcwd(), check=False)
    assert died.returncode == -signal.SIGKILL
    assert [entry.what for entry in read_story(tmp_path, "B/1").entries] == ["arrived", "event"]
    assert read_story(tmp_path, "B/1@7").epoch == 7
    with pytest.raises(UsageError, match=r"it left 7"):
        read_story(tmp_path, "B/1@8")
    with pytest.raises(UsageError, match=r"no story of C.*there are those of B/1"):
        read_story(tmp_path, "C")


def test_old_stories_go_and_a_proper_end_leaves_none(tmp_path):
    for epoch in range(1, 9):
        Story("B", epoch, (), story_path(tmp_path, "B", epoch))
    kept = sorted(int(path.name) for path in (tmp_path / "stories" / "B").iterdir())
    assert kept == [4, 5, 6, 7, 8]
    Story(DIRECTOR, 1, path=story_path(tmp_path, DIRECTOR)).remove()
    assert story_path(tmp_path, DIRECTOR).name == "1"
