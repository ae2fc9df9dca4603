"""Files that the tasks of a campaign share. Each is written once, by one task, and memory-mapped by the others.

    golden-K/   golden run K, for repetitions
                  SINK.COLUMN.npy, SINK.order.npy, SINK.begins.npy   its output, and its rows by part
                  state-CUT                                          the engine at a start (`saved_states.py`)
                  mark-CUT.digests.npy, mark-CUT.waiting.npy         the state at a check
                  run.json                                           {"emitted": {CUT: {SINK: tuples}}, "states": [CUT],
                                                                     "marks": {CUT: hash, as hexadecimal digits}}
    outputs/    data for golden runs of all seeds (`seeds.py`)
                  input-N.arrow, SINK.COLUMN.npy, positions.npy      tuples to run again; outputs of all seeds; triggers
                  outputs.json                                       {"members", "inputs": streams by N, "sinks",
                                                                     "positions": whether there are any}
    profile/    the targets: N.npy, positions of the tuples that reach target N; rates.json, its name and rates

Each is sealed (`sealed.py`).
"""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from riprap.base import files
from riprap.faults.campaign_settings import CampaignSettings, TargetProfile
from riprap.faults.golden import Golden, StateMark
from riprap.faults.saved_states import decode_state, encode_state
from riprap.faults.sealed import finished, fresh, load_batches, mapped, save_array, save_batches, sound
from riprap.faults.seeds import GoldenOutputs
from riprap.faults.trial_outputs import OutputRows


def prepared(path: Path, settings: CampaignSettings) -> bool:
    """Whether all files that units share exist and are sound."""
    names = [*(f"golden-{run}" for run in range(settings.reps)), "outputs"]
    return all(sound(path / name) for name in names)


def profiled(path: Path) -> bool:
    """Whether the profiles of the targets exist and are sound."""
    return sound(path / "profile")


# Golden runs ----------------------------------------------------------------------------------------------------------


def save_golden(path: Path, run: int, golden: Golden, index: dict[str, tuple[np.ndarray, np.ndarray]]) -> None:
    """`index`: each sink's rows by part, as `TrialContext.by_part`."""
    work = fresh(path / f"golden-{run}")
    for sink, rows in golden.rows.items():
        _save_rows(work, sink, rows)
        save_array(work / f"{sink}.order.npy", index[sink][0])
        save_array(work / f"{sink}.begins.npy", index[sink][1])
    for cut, state in golden.states.items():
        files.write_bytes(work / f"state-{cut}", encode_state(state))
    for cut, mark in golden.marks.items():
        save_array(work / f"mark-{cut}.digests.npy", mark.digests)
        save_array(work / f"mark-{cut}.waiting.npy", mark.waiting)
    about = {
        "emitted": {cut: dict(counts) for cut, counts in golden.emitted.items()},
        "states": list(golden.states),
        "marks": {cut: mark.whole.hex() for cut, mark in golden.marks.items()},
    }
    files.write_text(work / "run.json", json.dumps(about))
    finished(work, path / f"golden-{run}")


def load_golden(path: Path, run: int, sinks: Sequence[str]) -> tuple[Golden, dict[str, tuple[np.ndarray, np.ndarray]]]:
    folder = path / f"golden-{run}"
    about = json.loads(files.read_text(folder / "run.json"))
    rows = {sink: _load_rows(folder, sink) for sink in sinks}
    index = {sink: (mapped(folder / f"{sink}.order.npy"), mapped(folder / f"{sink}.begins.npy")) for sink in sinks}
    emitted = {int(cut): counts for cut, counts in about["emitted"].items()}
    states = {cut: decode_state(files.read_bytes(folder / f"state-{cut}")) for cut in about["states"]}
    marks = {
        int(cut): StateMark(
            mapped(folder / f"mark-{cut}.digests.npy"), mapped(folder / f"mark-{cut}.waiting.npy"), bytes.fromhex(whole)
        )
        for cut, whole in about["marks"].items()
    }
    return Golden(rows, emitted, states, marks), index


# Outputs of all seeds -------------------------------------------------------------------------------------------------


def save_outputs(path: Path, outputs: GoldenOutputs) -> None:
    work = fresh(path / "outputs")
    for number, batches in enumerate(outputs.inputs.values()):
        save_batches(work / f"input-{number}.arrow", batches)
    for sink, rows in outputs.settled.items():
        _save_rows(work, sink, rows)
    if outputs.positions is not None:
        save_array(work / "positions.npy", outputs.positions)
    about = {
        "members": sorted(outputs.members),
        "inputs": list(outputs.inputs),
        "sinks": list(outputs.settled),
        "positions": outputs.positions is not None,
    }
    files.write_text(work / "outputs.json", json.dumps(about))
    finished(work, path / "outputs")


def load_outputs(path: Path) -> GoldenOutputs:
    folder = path / "outputs"
    about = json.loads(files.read_text(folder / "outputs.json"))
    return GoldenOutputs(
        frozenset(about["members"]),
        {stream: load_batches(folder / f"input-{number}.arrow") for number, stream in enumerate(about["inputs"])},
        {sink: _load_rows(folder, sink) for sink in about["sinks"]},
        mapped(folder / "positions.npy") if about["positions"] else None,
    )


# Targets --------------------------------------------------------------------------------------------------------------


def save_profiles(path: Path, profiles: Sequence[TargetProfile]) -> None:
    work = fresh(path / "profile")
    for number, profile in enumerate(profiles):
        save_array(work / f"{number}.npy", profile.inputs)
    rates = [(profile.target.name, profile.average, profile.peak) for profile in profiles]
    files.write_text(work / "rates.json", json.dumps(rates))
    finished(work, path / "profile")


def load_profiles(path: Path, settings: CampaignSettings) -> list[TargetProfile]:
    """Profiles of the settings' targets, which may be a subset of those on disk."""
    folder = path / "profile"
    known = {name: (n, rates) for n, (name, *rates) in enumerate(json.loads(files.read_text(folder / "rates.json")))}
    entries = [(target, *known[target.name]) for target in settings.targets]
    return [TargetProfile(target, mapped(folder / f"{number}.npy"), *rates) for target, number, rates in entries]


def _save_rows(folder: Path, sink: str, rows: OutputRows) -> None:
    for name, column in zip(OutputRows._fields, rows, strict=True):
        save_array(folder / f"{sink}.{name}.npy", column)


def _load_rows(folder: Path, sink: str) -> OutputRows:
    return OutputRows(*(mapped(folder / f"{sink}.{name}.npy") for name in OutputRows._fields))
