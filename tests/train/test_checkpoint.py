"""Checkpoints are whole or not there: disks that are full, kills, rewritten states, and what is left of old ones."""

import os
import resource
import shutil
from contextlib import contextmanager

import pytest
import torch

from serl import model as models
from serl.errors import InputError, WorkFailed
from serl.train import checkpoint
from tests.models import tiny_model, tiny_tokenizer
from tests.ranks import in_threads


@pytest.fixture(scope="module")
def tokenizer():
    return tiny_tokenizer()


@pytest.fixture(scope="module")
def model(tokenizer):
    return tiny_model(len(tokenizer))


@contextmanager
def full_at(size: int):
    """No file may grow beyond so many bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


STATE = {"values": torch.arange(1 << 16)}  # 512 KiB, larger than the model


@pytest.mark.parametrize("size", [50_000, 400_000], ids=["the weights", "the state"])
def test_a_full_disk_leaves_the_checkpoint_before_and_nothing_else(size, model, tokenizer, tmp_path):
    first = checkpoint.save(tmp_path, 1, model, tokenizer, STATE, keep=1)
    assert 50_000 < (first / "model.safetensors").stat().st_size < 400_000 < (first / "state.pt").stat().st_size
    with full_at(size), pytest.raises(WorkFailed, match="step_000002: this checkpoint cannot be written .*File too"):
        checkpoint.save(tmp_path, 2, model, tokenizer, STATE, keep=1)
    assert [path.name for path in tmp_path.iterdir()] == ["step_000001"]
    assert torch.equal(checkpoint.load_state(first)["values"], STATE["values"])
    models.load(str(first), "float32")


def test_a_first_checkpoint_whose_folder_cannot_be_made_says_so(model, tokenizer, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(WorkFailed, match="step_000001: this checkpoint cannot be written .*GB are free"):
        checkpoint.save(tmp_path / "file" / "checkpoints", 1, model, tokenizer, STATE, keep=1)


@pytest.mark.parametrize("damage", [lambda data: data[: len(data) // 2], lambda data: b"", lambda data: b"\xb7" * 999],
                         ids=["cut", "empty", "other"])
def test_a_damaged_state_is_named_in_one_line(damage, model, tokenizer, tmp_path):
    path = checkpoint.save(tmp_path, 1, model, tokenizer, STATE, keep=1) / "state.pt"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(InputError) as found:
        checkpoint.load_state(path.parent)
    assert str(found.value).startswith(f"{path}: cannot be read (it is damaged, or no state); delete this folder")
    assert "\n" not in str(found.value)


def test_a_state_is_replaced_whole_or_not_at_all(model, tokenizer, tmp_path):
    folder = checkpoint.save(tmp_path, 1, model, tokenizer, STATE, keep=1)
    weights = (folder / "model.safetensors").stat()
    with full_at(400_000), pytest.raises(WorkFailed):
        checkpoint.save_state(tmp_path, 1, {"values": torch.arange(1 << 17)}, keep=1)
    assert len(checkpoint.load_state(folder)["values"]) == 1 << 16
    assert checkpoint.save_state(tmp_path, 1, {"values": 3}, keep=1) == folder
    assert checkpoint.load_state(folder) == {"values": 3}
    assert (folder / "model.safetensors").stat().st_mtime_ns == weights.st_mtime_ns
    assert not [path for path in folder.iterdir() if path.name.startswith(".")]


def test_what_a_kill_left_is_cleared_and_never_taken_for_a_checkpoint(model, tokenizer, tmp_path):
    for name in (".step_000003.partial", ".step_000001.removed"):
        (tmp_path / name / "inner").mkdir(parents=True)
        (tmp_path / name / "state.pt").write_bytes(b"half")
    assert checkpoint.latest(tmp_path) is None
    checkpoint.save(tmp_path, 3, model, tokenizer, STATE, keep=1)
    assert [path.name for path in tmp_path.iterdir()] == ["step_000003"]


def test_every_file_and_folder_is_synced_before_the_rename_and_its_parent_after(model, tokenizer, tmp_path,
                                                                                monkeypatch):
    events: list[str] = []
    sync, rename = os.fsync, os.rename

    def synced(handle: int) -> None:
        events.append(os.readlink(f"/proc/self/fd/{handle}"))
        sync(handle)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(checkpoint, "save_model", lambda folder, *_: (
        (folder / "original").mkdir(), (folder / "original" / "weights").write_bytes(b"w")))
    monkeypatch.setattr(os, "rename", lambda *names: (events.append("rename"), rename(*names)))
    final = checkpoint.save(tmp_path / "checkpoints", 1, model, tokenizer, {}, keep=1)
    partial = str(final.with_name(".step_000001.partial"))
    place = events.index("rename")
    assert set(events[:place]) >= {partial, f"{partial}/original", f"{partial}/original/weights", f"{partial}/state.pt"}
    assert events[place + 1:] == [str(final.parent)]


def test_the_best_stays_without_its_state_and_what_is_resumed_from_is_the_newest(model, tokenizer, tmp_path):
    for step in range(1, 6):
        checkpoint.save(tmp_path, step, model, tokenizer, STATE, keep=2, best=min(step, 2))
        assert (tmp_path / "best").resolve() == tmp_path / f"step_{min(step, 2):06d}"
    assert [path.name for path in checkpoint.complete(tmp_path)] == ["step_000002", "step_000004", "step_000005"]
    assert not (tmp_path / "step_000002" / "state.pt").exists()
    shutil.rmtree(tmp_path / "step_000005"), shutil.rmtree(tmp_path / "step_000004")
    assert checkpoint.latest(tmp_path) is None, "a best without its state is not gone on from"
    models.load(str(tmp_path / "best"), "float32")


def test_ranks_with_parts_of_a_state_each_write_theirs_and_a_replaced_state_leaves_them(model, tokenizer, tmp_path):
    def save(ranks) -> dict:
        options = {"keep": 1, "best": 1, "ranks": ranks, "apart": ["engine"]}
        state = {"engine": ranks.rank, "unfinished": "yes"}
        folder = checkpoint.save(tmp_path, 1, model, tokenizer, state, **options)
        checkpoint.save_state(tmp_path, 1, {"engine": None, "unfinished": None}, **options)
        found = checkpoint.load_state(folder, ranks)
        ranks.wait()
        checkpoint.save(tmp_path, 2, model, tokenizer, state, **options)
        return found

    assert in_threads(2, save) == [{"engine": 0, "unfinished": None}, {"engine": 1, "unfinished": None}]
    assert [path.name for path in checkpoint.complete(tmp_path)] == ["step_000001", "step_000002"]
    assert not list((tmp_path / "step_000001").glob("state*")), "the best is not gone on from"
    assert len(list((tmp_path / "step_000002").glob("state*"))) == 3
    with pytest.raises(InputError, match="2 processes wrote it"):
        checkpoint.load_state(tmp_path / "step_000002")


def test_a_best_that_somebody_deleted_is_not_pointed_to(model, tokenizer, tmp_path):
    checkpoint.save(tmp_path, 1, model, tokenizer, STATE, keep=1)
    checkpoint.prune(tmp_path, 1, best=7)
    assert not os.path.lexists(tmp_path / "best")
