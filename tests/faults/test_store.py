"""What tasks share comes back from disk as it was, runs nothing, and is not used when it is damaged."""

import pickle
import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.engine.graphs import apps, inputs
from tests.faults.graphs import as_multiset, bench_of, divided_apps, faults, jitters, readers_of, recorded, targets_of

from riprap.apps import market, market_files
from riprap.engine.identity import content_digest
from riprap.faults import golden, sealed, store, trials
from riprap.faults.campaign_settings import CampaignSettings, Target, TargetProfile
from riprap.faults.divided import dividing_columns, runs_by_key
from riprap.faults.seeds import golden_outputs
from riprap.faults.trials import TrialContext, replay


@pytest.fixture(autouse=True, scope="module")
def _many_checks():
    kept = golden.FIRST_CHECK, golden.STRIDE, trials.CHEAPER_THAN_CHECKS
    golden.FIRST_CHECK, golden.STRIDE, trials.CHEAPER_THAN_CHECKS = 2, 2, 0
    yield
    golden.FIRST_CHECK, golden.STRIDE, trials.CHEAPER_THAN_CHECKS = kept


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("shared")


@settings(max_examples=40)
@given(st.data(), st.one_of(divided_apps(), apps()))
def test_a_trial_from_disk_is_the_trial(folder, data, graph):
    recording = recorded(graph, data.draw(inputs(graph, 30)), dividing_columns(graph))
    fault, begin = data.draw(faults(recording))
    jitter, targets = data.draw(jitters(graph)), data.draw(targets_of(graph, fault))
    bench = bench_of(graph, recording, jitter, begin, fault.kind)
    store.save_golden(folder, 0, bench.golden, dict(bench.by_part))
    assert sealed.sound(folder / "golden-0")
    kept, index = store.load_golden(folder, 0, list(bench.golden.rows))
    again = TrialContext(graph, recording, bench.readers, jitter, kept, bench.divided)
    again.__dict__["by_part"] = index
    before, after = replay(bench, targets, fault), replay(again, targets, fault)
    assert kept.emitted == bench.golden.emitted
    for sink, rows in bench.golden.rows.items():
        assert as_multiset(after[sink], rows) == as_multiset(before[sink], rows)


@settings(max_examples=30)
@given(st.data(), st.one_of(divided_apps(), apps()))
def test_outputs_of_all_seeds_from_disk(folder, data, graph):
    recording = recorded(graph, data.draw(inputs(graph, 30)), dividing_columns(graph))
    readers, jitter = readers_of(graph, recording), data.draw(jitters(graph))
    outputs = golden_outputs(graph, recording, readers, 6, divided=runs_by_key(graph, "loss"))
    store.save_outputs(folder, outputs)
    again = store.load_outputs(folder)
    assert (again.members, list(again.inputs), again.positions is None) == (
        outputs.members, list(outputs.inputs), outputs.positions is None,
    )  # fmt: skip
    for own, other in (
        (outputs.settled, again.settled),
        *[[o.unsettled(graph, readers, jitter) for o in (outputs, again)]],
    ):
        for sink, rows in own.items():
            for left, right in zip(rows, other[sink], strict=True):
                np.testing.assert_array_equal(left, right)


# Damage ---------------------------------------------------------------------------------------------------------------


@pytest.fixture
def profile(tmp_path):
    profiles = [TargetProfile(Target(("A",)), np.arange(50, dtype=np.int32), 1.5, 3.0)]
    store.save_profiles(tmp_path, profiles)
    return tmp_path / "profile"


def test_a_change_of_any_byte_is_noticed(profile):
    [found] = store.load_profiles(profile.parent, CampaignSettings((Target(("A",)),), (0,), {}))
    assert (found.average, found.peak, found.inputs.tolist()) == (1.5, 3.0, list(range(50)))
    for path in sorted(profile.iterdir()):
        whole = path.read_bytes()
        for at in range(len(whole)):
            path.write_bytes(whole[:at])
            assert not sealed.sound(profile), f"{path.name} cut at {at}"
            path.write_bytes(whole[:at] + bytes([whole[at] ^ (1 + at % 255)]) + whole[at + 1 :])
            assert not sealed.sound(profile), f"{path.name} changed at {at}"
        path.write_bytes(whole)
    assert sealed.sound(profile)


def test_files_that_are_gone_or_new_are_noticed(profile):
    (profile / "9.npy").write_bytes(b"")
    assert not sealed.sound(profile)
    (profile / "9.npy").unlink()
    (profile / "0.npy").unlink()
    assert not sealed.sound(profile)
    assert not sealed.sound(profile / "nowhere")
    for sums in (
        b"",
        b"[]",
        b"null",
        b"\xff",
        b"[" * 100_000,
        b'{"0.npy": 3}',
        b'{"0.npy": [1]}',
        b'{"/dev/zero": []}',
    ):
        (profile / sealed.SUMS).write_bytes(sums)
        assert not sealed.sound(profile), sums[:20]


class Evil:
    """Unpickling one makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def test_arrays_that_are_pickles_are_refused(tmp_path):
    mark = tmp_path / "ran"
    planted = tmp_path / "planted.npy"
    planted.write_bytes(pickle.dumps(Evil(mark)))
    for attempt in (sealed.mapped, sealed.load_batches):
        with pytest.raises((ValueError, OSError)):
            attempt(planted)
    np.save(planted, np.array([Evil(mark)], object), allow_pickle=True)
    with pytest.raises(ValueError, match="Python objects"):
        sealed.mapped(planted)
    assert not mark.exists()
    pickle.loads(pickle.dumps(Evil(mark)))
    assert mark.exists(), "it would have run"


# Inputs ---------------------------------------------------------------------------------------------------------------


def test_a_digest_tells_files_of_equal_size_apart(tmp_path, monkeypatch):
    path = tmp_path / "market.arrow"
    market_files.write(market.generate(2_000, 1), path)
    first, size = content_digest(path), path.stat().st_size
    market_files.write(market.generate(2_000, 1), path, overwrite=True)
    assert content_digest(path) == first, "made again, but equal"
    moved = path.rename(tmp_path / "other.arrow")
    assert content_digest(moved) == first, "moved"
    content = bytearray(moved.read_bytes())
    for at in random.Random(1).sample(range(size), 50):
        content[at] ^= 1
        moved.write_bytes(content)
        assert content_digest(moved) != first
        content[at] ^= 1
    moved.write_bytes(content)
    assert content_digest(tmp_path) == first, "a directory of one file"
    (tmp_path / "second").write_bytes(b"")
    assert content_digest(tmp_path) != first
    monkeypatch.setattr("riprap.engine.identity.WHOLE", 100)
    sampled = content_digest(moved)
    content[-20] ^= 1
    moved.write_bytes(content)
    assert content_digest(moved) != sampled


def test_large_files_by_footer_samples_and_time(tmp_path, monkeypatch):
    monkeypatch.setattr("riprap.engine.identity.WHOLE", 100)
    path = tmp_path / "large"
    path.write_bytes(bytes(40_000_000))
    before = content_digest(path)
    assert content_digest(path) == before
    path.write_bytes(bytes(40_000_000))  # made again
    assert content_digest(path) != before
