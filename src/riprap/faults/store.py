"""Where a campaign keeps what its tasks share. All of it is written once, by the task that makes it, and mapped by
others.

    golden-K/        golden run K, for repetitions: SINK.COLUMN.npy (an array each), run.pickle (states and marks)
    outputs.pickle   what golden runs of all seeds need (`seeds.py`)
    profile-T.npy    positions of the tuples that reach target T
    profile.json     rates of each target

A file or directory is complete once it has its final name: it is written under another one and renamed.
"""

import json
import pickle
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from riprap.faults.campaign import Settings, TargetProfile
from riprap.faults.golden import Golden
from riprap.faults.outputs import OutputRows
from riprap.faults.recording import mapped
from riprap.faults.seeds import GoldenOutputs


def save_golden(path: Path, run: int, golden: Golden, index: dict[str, tuple[np.ndarray, np.ndarray]]) -> None:
    """`index` is each sink's rows by part, as `Bench.by_part`."""
    final = path / f"golden-{run}"
    work = _fresh(path / f"golden-{run}.part")
    for sink, rows in golden.rows.items():
        for name, column in zip(OutputRows._fields, rows, strict=True):
            np.save(work / f"{sink}.{name}.npy", column)
        np.save(work / f"{sink}.order.npy", index[sink][0])
        np.save(work / f"{sink}.begins.npy", index[sink][1])
    (work / "run.pickle").write_bytes(pickle.dumps((golden.emitted, golden.states, golden.marks), protocol=5))
    shutil.rmtree(final, ignore_errors=True)
    work.rename(final)


def load_golden(path: Path, run: int, sinks: Sequence[str]) -> tuple[Golden, dict[str, tuple[np.ndarray, np.ndarray]]]:
    folder = path / f"golden-{run}"
    rows, index = {}, {}
    for sink in sinks:
        rows[sink] = OutputRows(*(mapped(folder / f"{sink}.{name}.npy") for name in OutputRows._fields))
        index[sink] = (mapped(folder / f"{sink}.order.npy"), mapped(folder / f"{sink}.begins.npy"))
    emitted, states, marks = pickle.loads((folder / "run.pickle").read_bytes())
    return Golden(rows, emitted, states, marks), index


def save_outputs(path: Path, outputs: GoldenOutputs) -> None:
    _write(path / "outputs.pickle", pickle.dumps(outputs, protocol=5))


def load_outputs(path: Path) -> GoldenOutputs:
    outputs: GoldenOutputs = pickle.loads((path / "outputs.pickle").read_bytes())
    return outputs


def save_profiles(path: Path, profiles: Sequence[TargetProfile]) -> None:
    for number, profile in enumerate(profiles):
        np.save(path / f"profile-{number}.npy", profile.inputs)
    rates = [(profile.average, profile.peak) for profile in profiles]
    _write(path / "profile.json", json.dumps(rates).encode())


def load_profiles(path: Path, settings: Settings) -> list[TargetProfile]:
    rates = json.loads((path / "profile.json").read_text())
    return [
        TargetProfile(target, mapped(path / f"profile-{number}.npy"), *rates[number])
        for number, target in enumerate(settings.targets)
    ]


def _fresh(path: Path) -> Path:
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    return path


def _write(path: Path, content: bytes) -> None:
    work = path.with_suffix(".part")
    work.write_bytes(content)
    work.rename(path)
