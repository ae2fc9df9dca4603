"""Silent corruption on request: `Aggregator@10s`, or at any time by a file.

A request is a file in the run's directory, `corruptions/PE`. The element finds it within milliseconds, removes it and
carries it out (`element/wrong_bits.py`): it corrupts the next input tuple of the operator, or its state. Each result is
a line of `corruptions/done.jsonl`. So the driver, or any process that knows the directory, can make requests; a request
to an element that is down waits until it is up.

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
    """Of an operator, in one of these elements: of copies, in the first that sends."""

    at: Duration  # after the run is running
    operator: str
    pes: tuple[str, ...]
    what: What
    chance: int
    text: str = ""  # as specified by the user


def parse_corruptions(text: str | None, layout: Layout, seed: int = 1) -> tuple[Corruption, ...]:
    """In the order of their times. The seed chooses between a tuple and the state, with equal probability."""
    parts = enumerate(listed(text, "`corrupt`"))
    return tuple(sorted(_corruption(part, layout, derived_seed(seed, f"{n} {part}")) for n, part in parts))


def _corruption(part: str, layout: Layout, chance: int) -> Corruption:
    name, at = parse_timed(part, "`corrupt`", "OPERATOR")
    for pe in layout.pes:
        if pe.id == name:
            return Corruption(at, pe.fragment.name, (pe.id,), "state" if chance & 1 else "tuple", chance >> 1, part)
    names = [spec.name for spec in layout.graph.operators]
    if name not in names:
        raise UsageError(f"`corrupt={part}`: no operator or element is called {name}; there are {known(names, name)}")
    pes = tuple(pe.id for pe in layout.hosting(name))
    return Corruption(at, name, pes, "state" if chance & 1 else "tuple", chance >> 1, part)


def request_corruption(directory: Path, pe: str, what: What, *, operator: str = "", chance: int = 0) -> None:
    """Request a corruption of an element; `operator`: by default the first one that can be corrupted."""
    folder = directory / _FOLDER
    files.make(folder)
    unnamed = folder / f".{quote(pe, safe='')}"
    files.write_text(unnamed, json.dumps({"operator": operator, "what": what, "chance": chance}))
    files.rename(unnamed, folder / quote(pe, safe=""))


class CorruptionRequest(NamedTuple):
    operator: str
    what: What
    chance: int


def take_request(directory: Path, pe: str) -> CorruptionRequest | None:
    """The request to this element, once."""
    path = directory / _FOLDER / quote(pe, safe="")
    try:
        request = json.loads(files.read_text(path))
    except FileNotFoundError:
        return None
    files.unlink(path)
    return CorruptionRequest(request["operator"], cast(What, request["what"]), request["chance"])


def report_done(directory: Path, pe: str, request: CorruptionRequest, column: str | None, at: int) -> None:
    line = {"pe": pe, "operator": request.operator, "what": request.what, "column": column, "at": at}
    with files.open_file(directory / _FOLDER / _DONE, "a") as file:
        file.write(json.dumps(line) + "\n")


def corruptions_done(directory: Path) -> list[dict[str, Any]]:
    """The results of all requests so far."""
    path = directory / _FOLDER / _DONE
    return [json.loads(line) for line in files.read_text(path).splitlines()] if files.exists(path) else []


def not_done(
    requested: Sequence[tuple[Corruption, str]],
    never: Iterable[Corruption],
    done: Iterable[Mapping[str, Any]],
    ran: float,
) -> list[dict[str, str]]:
    """Corruptions that were requested, or never became due, and did not happen in a run of `ran` seconds; and why."""
    lines = list(done)
    failed = [(fault, f"the run was over after {ran:.1f} s") for fault in never]
    for fault, pe in requested:
        wanted = (pe, fault.operator, fault.what)
        line = next((line for line in lines if (line["pe"], line["operator"], line["what"]) == wanted), None)
        if line is None:
            failed.append((fault, f"the run was over before {pe} received anything that could be altered"))
            continue
        lines.remove(line)
        if line["column"] is None:
            failed.append((fault, f"there was nothing in {pe} that could be altered"))
    return [{"fault": f"corrupt {fault.text}", "why": why} for fault, why in failed]
