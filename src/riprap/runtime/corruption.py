"""Silent corruption on request: `Aggregator@10s`, or whenever somebody asks.

A request is a file in the run's directory, `corruptions/PE`, that the element finds within some milliseconds, takes
away and carries out (`element/wrong_bits.py`): one tuple that comes to the operator next, or one in its state. What was
done is a line of `corruptions/done.jsonl`. So the driver can ask, and whoever else knows the directory; a request to an
element that is down waits until it is back.

    {"operator": NAME, "what": "tuple" or "state", "chance": a random number}
    {"pe": ID, "operator", "what", "column": the attribute, null if nothing could be altered, "at": µs, wall clock}
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast
from urllib.parse import quote

from riprap.base import files
from riprap.base.errors import UsageError, known
from riprap.base.quantities import Duration
from riprap.base.randomness import derived_seed
from riprap.runtime.kills import listed, parse_timed
from riprap.runtime.layout import Layout

What = Literal["tuple", "state"]
_FOLDER, _DONE = "corruptions", "done.jsonl"


class Corruption(NamedTuple):
    """Of an operator, in one of these elements: of copies, in the first that speaks."""

    at: Duration  # after the run is running
    operator: str
    pes: tuple[str, ...]
    what: What
    chance: int
    text: str = ""  # as it was given


def parse_corruptions(text: str | None, layout: Layout, seed: int = 1) -> tuple[Corruption, ...]:
    """In the order of their times. Of one tuple or of the state, half and half, as the seed says."""
    parts = enumerate(listed(text, "--corrupt"))
    return tuple(sorted(_corruption(part, layout, derived_seed(seed, f"{n} {part}")) for n, part in parts))


def _corruption(part: str, layout: Layout, chance: int) -> Corruption:
    name, at = parse_timed(part, "--corrupt", "OPERATOR")
    for pe in layout.pes:
        if pe.id == name:
            return Corruption(at, pe.fragment.name, (pe.id,), "state" if chance & 1 else "tuple", chance >> 1, part)
    names = [spec.name for spec in layout.graph.operators]
    if name not in names:
        raise UsageError(f"--corrupt {part!r}: no operator or element is called {name}; there are {known(names, name)}")
    pes = tuple(pe.id for pe in layout.hosting(name))
    return Corruption(at, name, pes, "state" if chance & 1 else "tuple", chance >> 1, part)


def ask(directory: Path, pe: str, what: What, *, operator: str = "", chance: int = 0) -> None:
    """Have an element corrupt something; `operator`: of its operators, without one the first that can be struck."""
    folder = directory / _FOLDER
    files.make(folder)
    unnamed = folder / f".{quote(pe, safe='')}"
    files.write_text(unnamed, json.dumps({"operator": operator, "what": what, "chance": chance}))
    files.rename(unnamed, folder / quote(pe, safe=""))


class CorruptionRequest(NamedTuple):
    operator: str
    what: What
    chance: int


def asked(directory: Path, pe: str) -> CorruptionRequest | None:
    """What this element is to do, once."""
    path = directory / _FOLDER / quote(pe, safe="")
    try:
        found = json.loads(files.read_text(path))
    except FileNotFoundError:
        return None
    files.unlink(path)
    return CorruptionRequest(found["operator"], cast(What, found["what"]), found["chance"])


def done(directory: Path, pe: str, request: CorruptionRequest, column: str | None, at: int) -> None:
    line = {"pe": pe, "operator": request.operator, "what": request.what, "column": column, "at": at}
    with files.open_file(directory / _FOLDER / _DONE, "a") as file:
        file.write(json.dumps(line) + "\n")


def what_was_done(directory: Path) -> list[dict[str, Any]]:
    path = directory / _FOLDER / _DONE
    return [json.loads(line) for line in files.read_text(path).splitlines()] if files.exists(path) else []


def not_done(
    asked_for: Sequence[tuple[Corruption, str]],
    never: Iterable[Corruption],
    done: Iterable[Mapping[str, Any]],
    ran: float,
) -> list[dict[str, str]]:
    """What was asked of which element, or never came due, and did not happen in a run of so many seconds; and why."""
    left = list(done)
    found = [(one, f"the run was over after {ran:.1f} s") for one in never]
    for one, pe in asked_for:
        wanted = (pe, one.operator, one.what)
        line = next((line for line in left if (line["pe"], line["operator"], line["what"]) == wanted), None)
        if line is None:
            found.append((one, f"the run was over before anything came to {pe} that could be altered"))
            continue
        left.remove(line)
        if line["column"] is None:
            found.append((one, f"there was nothing in {pe} that could be altered"))
    return [{"fault": f"--corrupt {one.text}", "why": why} for one, why in found]
