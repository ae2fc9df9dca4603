"""What an element has counted, in memory that outlives its process.

A ledger is a file of signed 64-bit numbers, mapped into memory: a number is stored with one instruction and is still
there after `kill -9`, because the page belongs to the kernel. (It may not survive a crash of the machine, and then
counts of the last moments are too low; nothing else depends on it but where a source without checkpoint goes on.)
Each life of an element has a file of its own, `ledgers/PE/EPOCH`, and begins with the numbers of the life before: one
that was replaced without knowing it cannot spoil the counts.

    0    8 bytes  RPRPLEDG
    8    u64      how many numbers follow
    16   i64 …    the numbers, in the order of `names`

Names: `in:CHANNEL:next` and so on, see `IN`, `OUT` and `SOURCE`. Keys: `out:CHANNEL`, up to which a channel was
promised to bring nothing more; `at:OPERATOR`, up to which an operator that other elements feed has had its input.
"""

import mmap
import struct
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from riprap.base.disk import when_room
from riprap.base.errors import DataError
from riprap.graph.keys import START_KEY, OrderKey
from riprap.protocols.channels import ChannelId
from riprap.runtime.layout import Layout, Pe

MAGIC = b"RPRPLEDG"
_HEAD = struct.Struct("<8sQ")

IN = (
    "next",  # number of the first item that the operators have not had and may still get
    "missed",  # items below it that they never had: lost. The others were received, and one store counts them
    "repeated",  # items that they were given again after a crash, unless all that they did before was undone
)
OUT = (
    "number",  # of the next item
    "discarded",  # items that nobody was there for
)
KEY = ("ts", "src", "seq", "n")  # of `out:CHANNEL` and `at:OPERATOR`, see `Ledger.key`
SOURCE = (
    "position",  # rows taken from its input
    "started_at",  # wall clock, microseconds, when its first row was due; 0: not known yet
)


def ledger_names(layout: Layout, pe: Pe) -> list[str]:
    names = [f"in:{channel}:{name}" for channel in layout.inputs(pe) for name in IN]
    names += [f"out:{channel}:{name}" for channel in outlets_of(layout, pe) for name in OUT + KEY]
    names += [f"at:{operator}:{name}" for operator in entered(layout, pe) for name in KEY]
    sources = [s.name for s in layout.graph.sources if s.name in pe.fragment.members]
    return names + [f"source:{source}:{name}" for source in sources for name in SOURCE]


def entered(layout: Layout, pe: Pe) -> list[str]:
    """The operators of an element that streams of other elements lead to."""
    return list(dict.fromkeys(link.stream.target for link in layout.links if link.target == pe.fragment))


def sink_channel(sink: str) -> ChannelId:
    """What a sink writes is a channel too, with the world as its consumer."""
    return ChannelId(f"{sink}→")


def outlets_of(layout: Layout, pe: Pe) -> tuple[ChannelId, ...]:
    """Channels that lead out of an element: to other elements, and out of its sinks."""
    sinks = tuple(sink_channel(s.name) for s in layout.graph.sinks if s.name in pe.fragment.members)
    return layout.outputs(pe) + sinks


class Ledger:
    """Named numbers over a buffer."""

    def __init__(self, names: Sequence[str], numbers: np.ndarray) -> None:
        self._at = {name: at for at, name in enumerate(names)}
        self._numbers = numbers

    def slot(self, name: str) -> int:
        return self._at[name]

    def __getitem__(self, name: str) -> int:
        return int(self._numbers[self._at[name]])

    def __setitem__(self, name: str, value: int) -> None:
        self._numbers[self._at[name]] = value

    def add(self, name: str, value: int) -> None:
        self._numbers[self._at[name]] += value

    def key(self, name: str) -> OrderKey:
        """An order key; before it was set, one below all others."""
        key = OrderKey(*(self[f"{name}:{part}"] for part in KEY))
        return key if any(key) else START_KEY

    def set_key(self, name: str, key: OrderKey) -> None:
        at = self._at[f"{name}:{KEY[0]}"]
        self._numbers[at : at + len(KEY)] = key

    def values(self) -> dict[str, int]:
        return {name: int(self._numbers[at]) for name, at in self._at.items()}


def memory_ledger(names: Sequence[str], before: "Ledger | None" = None) -> Ledger:
    """For the simulated host: it outlives a simulated crash."""
    numbers = np.zeros(len(names), np.int64)
    ledger = Ledger(names, numbers)
    if before is not None:
        for name, value in before.values().items():
            ledger[name] = value
    return ledger


def open_ledger(directory: Path, epoch: int, names: Sequence[str]) -> Ledger:
    """The ledger of a new life, going on from the newest before it."""
    before = read_ledger(directory, names, below=epoch)
    directory.mkdir(parents=True, exist_ok=True)
    # Whole before it has its name: a life that is killed right here must not leave a ledger that has forgotten.
    unnamed = directory / f"new-{epoch:08d}"
    content = _HEAD.pack(MAGIC, len(names)) + np.array([before[name] for name in names], np.int64).tobytes()
    when_room(lambda: unnamed.write_bytes(content), unnamed)
    path = unnamed.replace(directory / f"{epoch:08d}")
    with open(path, "r+b") as file:
        mapped = mmap.mmap(file.fileno(), 0)
    return Ledger(names, np.frombuffer(mapped, np.int64, len(names), _HEAD.size))


def read_ledger(directory: Path, names: Sequence[str], below: int | None = None) -> dict[str, int]:
    """The numbers of the newest life (before epoch `below`), all 0 if there was none."""
    found = sorted(path for path in directory.iterdir() if path.name.isdecimal()) if directory.is_dir() else []
    lives = [path for path in found if below is None or int(path.name) < below]
    if not lives:
        return dict.fromkeys(names, 0)
    try:
        data = lives[-1].read_bytes()
    except IsADirectoryError:
        raise DataError(f"{lives[-1]} is a directory, and a ledger was written there: remove it") from None
    if len(data) != _HEAD.size + 8 * len(names) or _HEAD.unpack_from(data) != (MAGIC, len(names)):
        raise DataError(
            f"{lives[-1]} is the ledger of another layout: resume with the plan, --fuse and --parallelism of before"
        )
    return dict(zip(names, np.frombuffer(data, np.int64, len(names), _HEAD.size).tolist(), strict=True))
