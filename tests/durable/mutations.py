"""Files as nobody wrote them: what a mutation does to the files of a directory, all of it from a seed.

Fault model: bytes change, are missing or are too many; files are empty, gone, replaced by others or by directories;
JSON texts keep their form and change their meaning. Checksums are not made to fit: whoever does that has written it.
"""

import json
import os
import pickle
import random
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from riprap.base.errors import RiprapError

NONSENSE = [None, True, -1, 0, 2**70, 1e400, "", "x", "\ud800", [], {}, [[]], {"a": 1}, "NaN"]
PATIENCE = 60  # seconds that one attempt may take; it takes milliseconds


class Ran:
    """Unpickling one leaves a file behind."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def mutate(directory: Path, chance: random.Random, ran: Path) -> str:
    """Change one to three files below a directory; returns what was done, for whoever has to repeat it."""
    done = []
    for _ in range(chance.choice([1, 1, 1, 2, 3])):
        files = sorted(path for path in directory.rglob("*") if path.is_file())
        if not files:
            break
        victim = chance.choice(files)
        name = chance.choice(sorted(WAYS))
        WAYS[name](victim, chance, files, ran)
        done.append(f"{name} {victim.relative_to(directory)}")
    return ", ".join(done)


def _bytes(change: Callable[[bytearray, random.Random], bytes | bytearray]):
    def way(path: Path, chance: random.Random, files: list[Path], ran: Path) -> None:
        path.write_bytes(change(bytearray(path.read_bytes()), chance))

    return way


def _flip(data: bytearray, chance: random.Random) -> bytearray:
    for _ in range(chance.choice([1, 1, 4, 64])):
        if data:
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    return data


def _overwrite(data: bytearray, chance: random.Random) -> bytearray:
    if data:
        at = chance.randrange(len(data))
        length = min(len(data) - at, chance.choice([1, 8, 64, 4096]))
        data[at : at + length] = chance.choice([bytes(length), b"\xff" * length, chance.randbytes(length)])
    return data


def _cut(data: bytearray, chance: random.Random) -> bytearray:
    return data[: chance.randrange(len(data) + 1)]


def _lengthen(data: bytearray, chance: random.Random) -> bytes:
    return bytes(data) + chance.choice([b"\0", chance.randbytes(50), bytes(data[-200:]), bytes(5000)])


def _take_out(data: bytearray, chance: random.Random) -> bytearray:
    at = chance.randrange(len(data) + 1)
    del data[at : at + chance.choice([1, 8, 100])]
    return data


def _nest(data: bytearray, chance: random.Random) -> bytes:
    return chance.choice([b"[", b'{"a":', b"{"]) * 50_000


def _no_text(data: bytearray, chance: random.Random) -> bytes:
    return chance.choice([b"", b"\xff\xfe", b"null", b"[]", b"{}", b"3", b'""', b"\0" * 64, b'{"check": 3}'])


def _json(data: bytearray, chance: random.Random) -> bytes:
    """Another value somewhere in the text, if it is JSON."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return bytes(_flip(data, chance))
    return json.dumps(_changed(value, chance)).encode()


def _changed(value, chance: random.Random):
    if isinstance(value, dict) and value and chance.random() < 0.8:
        key = chance.choice(sorted(value))
        if chance.random() < 0.2:
            return {other: each for other, each in value.items() if other != key}
        return value | {key: _changed(value[key], chance)}
    if isinstance(value, list) and value and chance.random() < 0.8:
        at = chance.randrange(len(value))
        return [*value[:at], _changed(value[at], chance), *value[at + 1 :]]
    return chance.choice(NONSENSE)


def _remove(path: Path, chance: random.Random, files: list[Path], ran: Path) -> None:
    path.unlink()


def _directory(path: Path, chance: random.Random, files: list[Path], ran: Path) -> None:
    path.unlink()
    path.mkdir()


def _other(path: Path, chance: random.Random, files: list[Path], ran: Path) -> None:
    content = chance.choice(files).read_bytes()
    path.write_bytes(content)


def _planted(path: Path, chance: random.Random, files: list[Path], ran: Path) -> None:
    path.write_bytes(pickle.dumps(Ran(ran)))


def _beside(path: Path, chance: random.Random, files: list[Path], ran: Path) -> None:
    name = chance.choice([f"{path.name}.tmp", f"x{path.name}", "9", "0x", "1.manifest", "00000099.arrow", "é\n"])
    if not (path.parent / name).exists():
        (path.parent / name).write_bytes(chance.choice([b"", path.read_bytes(), pickle.dumps(Ran(ran))]))


WAYS: dict[str, Callable[[Path, random.Random, list[Path], Path], None]] = {
    "flip": _bytes(_flip),
    "overwrite": _bytes(_overwrite),
    "cut": _bytes(_cut),
    "lengthen": _bytes(_lengthen),
    "take out of": _bytes(_take_out),
    "nest": _bytes(_nest),
    "empty": _bytes(_no_text),
    "change": _bytes(_json),
    "remove": _remove,
    "make a directory of": _directory,
    "replace": _other,
    "plant": _planted,
    "put beside": _beside,
}


# What may come of it --------------------------------------------------------------------------------------------------


class Hung(BaseException):
    """An attempt that does not end."""


@contextmanager
def patience() -> Iterator[None]:
    """Raise where the test is, rather than wait for ever."""

    def give_up(*_):
        raise Hung

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(PATIENCE)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def attempt(action: Callable[[], object]) -> str | None:
    """None if it went well, the sentence if it was refused; anything else that it raises is a bug of ours."""
    try:
        action()
    except RiprapError as error:
        if not 10 < len(str(error)) < 2000 or "Traceback" in str(error):
            raise AssertionError(f"no sentence: {error}") from error
        return str(error)
    return None


@dataclass(frozen=True)
class Case:
    """A kind of directory: how one is made, what is done with it, how many mutations `make test` tries, and whether
    every mutation is recovered from (else many are refused with a sentence).

    A failure names its seed; `Case.tried` repeats it.
    """

    make: Callable[[Path], None]
    actions: list[Callable[[Path], object]]
    mutations: int
    recovers: bool

    def sound(self, place: Path) -> None:
        """What was written is taken, by every action."""
        for action in self.actions:
            self.make(place / action.__name__)
            action(place / action.__name__)

    def share(self, place: Path) -> None:
        """The fixed share: the same mutations every time."""
        self.make(place / "sample")
        refused = sum(any(self.tried(place, seed)) for seed in range(self.mutations))
        assert refused == 0 if self.recovers else refused > self.mutations / 10

    def hours(self, place: Path) -> None:
        """New mutations in every run; RIPRAP_SOAK_HOURS for each kind."""
        self.make(place / "sample")
        seed, until = time.time_ns(), time.monotonic() + 3600 * float(os.environ.get("RIPRAP_SOAK_HOURS", "0.5"))
        while time.monotonic() < until:
            self.tried(place, seed)
            seed += 1

    def tried(self, place: Path, seed: int) -> list[str | None]:
        """Mutate a copy of the sample and do all that is done with such a directory."""
        chance, work, ran = random.Random(seed), place / "work", place / "ran"
        shutil.rmtree(work, ignore_errors=True)
        shutil.copytree(place / "sample", work)
        what = mutate(work, chance, ran)
        outcomes = []
        try:
            with patience():
                for action in self.actions:
                    outcomes.append(attempt(partial(action, work)))
        except BaseException as error:
            raise AssertionError(f"seed {seed}: {what}, then {action.__name__}") from error
        assert not ran.exists(), f"seed {seed}: {what}: something ran"
        return outcomes
