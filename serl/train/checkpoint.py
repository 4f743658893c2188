"""Checkpoints: a Hugging Face folder that `transformers` opens directly, plus `state.pt` to resume.

    checkpoints/step_000008    the weights after 8 steps, and everything else that step 9 depends on
    checkpoints/best           a link to the checkpoint that answered best so far (`train.keep_best`)

Of a model with adapters only these are written, as peft does it; `serl.model.load` finds the weights beside them.

What of the state is another one on each of several ranks (a part of the optimizer) is in `state_rank_N.pt` beside it;
the folder must be one that all of them see.

A checkpoint is written into a hidden folder, synced, and renamed into place: a folder named `step_000010` is
complete. The last `keep` stay, and the best one, without its state once it is older than these: it is evaluated, and
never gone on from. The link is what the newest state says, so that a kill between the two leaves nothing to repair.
"""

import os
import pickle
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from serl import lora
from serl.errors import InputError, WorkFailed, first_line
from serl.parallel import ALONE, Ranks

STATE, OF_RANK, BEST = "state.pt", "state_rank_{}.pt", "best"
_NAME = re.compile(r"step_(\d{6})")


def save(folder: Path, step: int, model, tokenizer, state: dict, keep: int, best: int | None = None,
         ranks: Ranks = ALONE, apart: Sequence[str] = ()) -> Path:
    """Write `folder/step_NNNNNN` atomically, then remove all but the newest `keep` and that of step `best`.

    Every rank calls it; rank 0 writes, and each of them what it has under the names `apart`. WorkFailed, with
    everything as it was, if it cannot be written.
    """
    from safetensors import SafetensorError

    final, partial = _path(folder, step), folder / f".step_{step:06d}.partial"
    if ranks.leads:
        for stale in folder.glob(".step_*"):  # left by a run that was killed
            shutil.rmtree(stale)
    try:
        if ranks.leads:
            partial.mkdir(parents=True)
        save_model(partial, model, tokenizer, ranks.leads)
        if apart:
            ranks.wait()  # for the folder
            own = partial / OF_RANK.format(ranks.rank)
            _write_state(own, {name: state[name] for name in apart})
            _sync_one(own)
            ranks.wait()  # for everyone's file
        if ranks.leads:
            _write_state(partial / STATE, _shared(state, ranks, apart))
            _sync(partial)
    except (OSError, RuntimeError, SafetensorError) as error:
        if ranks.leads:
            shutil.rmtree(partial, ignore_errors=True)
        raise _unwritten(final, error) from error
    if ranks.leads:
        if final.exists():  # replayed by a run whose newer checkpoints somebody deleted
            _remove(final)
        partial.rename(final)
        _sync_one(folder)
        prune(folder, keep, best)
    ranks.wait()  # for the checkpoint
    return final


def save_state(folder: Path, step: int, state: dict, keep: int, best: int | None = None, ranks: Ranks = ALONE,
               apart: Sequence[str] = ()) -> Path:
    """Replace the state in `folder/step_NNNNNN`, which has the same weights and the same `apart`; else as `save`."""
    final = _path(folder, step)
    if ranks.leads:
        partial = final / f".{STATE}.partial"
        try:
            _write_state(partial, _shared(state, ranks, apart))
            _sync_one(partial)
        except (OSError, RuntimeError) as error:
            partial.unlink(missing_ok=True)
            raise _unwritten(final, error) from error
        partial.rename(final / STATE)
        _sync_one(final)
        prune(folder, keep, best)
    ranks.wait()  # for the checkpoint
    return final


def prune(folder: Path, keep: int, best: int | None) -> None:
    """Point `best` to the checkpoint of that step, if there is one, and remove what need not stay."""
    chosen = None if best is None else _path(folder, best)
    if chosen is not None and chosen.is_dir():
        link = folder / f".{BEST}.partial"
        link.unlink(missing_ok=True)
        link.symlink_to(chosen.name)
        link.rename(folder / BEST)
    for old in complete(folder)[:-keep]:
        if old == chosen:
            for path in sorted(old.glob("state*.pt")):  # STATE first: without it there is nothing to go on from
                path.unlink()
        else:
            _remove(old)


def save_model(folder: Path, model, tokenizer, leads: bool = True) -> None:
    """Weights, config and tokenizer as `from_pretrained` reads them; of a model with adapters, only these.

    Of a partitioned model every rank calls it, and the one that leads writes.
    """
    from serl.partition import is_partitioned, whole_state

    adapter = lora.has_adapter(model)
    state = whole_state(model, leads, lora.is_own if adapter else None) if is_partitioned(model) else None
    if not leads:
        return
    if adapter:
        lora.save(model, folder, state)
    else:
        model.save_pretrained(folder, state_dict=state)
    tokenizer.save_pretrained(folder)


def replace_model(out: Path, model, tokenizer, texts: Mapping[str, str]) -> None:
    """Write a model folder, with `texts` by file name, beside `out` and swap: a killed command leaves a whole one."""
    partial = out.with_name(f".{out.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    save_model(partial, model, tokenizer)
    for name, text in texts.items():
        (partial / name).write_text(text, encoding="utf-8")
    shutil.rmtree(out, ignore_errors=True)
    os.replace(partial, out)


def complete(folder: Path) -> list[Path]:
    """Complete checkpoints, oldest first."""
    found = folder.iterdir() if folder.is_dir() else ()
    return sorted(path for path in found if _NAME.fullmatch(path.name))


def latest(folder: Path) -> Path | None:
    """The newest complete checkpoint that can be resumed from."""
    resumable = [path for path in complete(folder) if (path / STATE).is_file()]
    return resumable[-1] if resumable else None


def load_state(checkpoint: Path, ranks: Ranks = ALONE) -> dict:
    """The resume state of a checkpoint, with this rank's own part."""
    state = _read(checkpoint, STATE)
    size = state.pop("ranks", None)
    if size is None:
        return state
    if size != ranks.size:
        raise InputError(f"{checkpoint}: {size} processes wrote it, each its part of the optimizer, and this run has "
                         f"{ranks.size}; resume with {size}, or begin a new run from its weights by --model.path "
                         f"{checkpoint}")
    return state | _read(checkpoint, OF_RANK.format(ranks.rank))


def _read(checkpoint: Path, name: str) -> dict:
    import torch

    try:
        return torch.load(checkpoint / name, map_location="cpu", weights_only=True)
    except (OSError, RuntimeError, EOFError, pickle.UnpicklingError) as error:
        # What torch says of a damaged file is long, and advises to trust it.
        reason = error.strerror if isinstance(error, OSError) else "it is damaged, or no state"
        raise InputError(f"{checkpoint / name}: cannot be read ({reason}); delete this folder to resume from the one "
                         "before it, or from the start if there is none") from error


def _path(folder: Path, step: int) -> Path:
    return folder / f"step_{step:06d}"


def _shared(state: dict, ranks: Ranks, apart: Sequence[str]) -> dict:
    """What of a state is the same on all ranks, and how many of them have a part of their own."""
    if not apart:
        return state
    return {name: value for name, value in state.items() if name not in apart} | {"ranks": ranks.size}


def _write_state(path: Path, state: dict) -> None:
    import torch

    with open(path, "wb") as file:  # Python's: it says why it cannot write, which PyTorch's own does not
        torch.save(state, file)


def _remove(checkpoint: Path) -> None:
    """Half-removed, it is no checkpoint either: it is renamed first."""
    hidden = checkpoint.with_name(f".{checkpoint.name}.removed")
    checkpoint.rename(hidden)
    shutil.rmtree(hidden)


def _sync(folder: Path) -> None:
    """All files and folders in `folder`, and itself, to the disk."""
    for path in (*folder.rglob("*"), folder):
        _sync_one(path)


def _sync_one(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _unwritten(checkpoint: Path, error: BaseException) -> WorkFailed:
    # PyTorch answers the system's error with one of its own about what it could not finish.
    while error.__context__ is not None and not isinstance(error, OSError):
        error = error.__context__
    there = next(folder for folder in checkpoint.parents if folder.is_dir())  # the first one makes its folder
    free = shutil.disk_usage(there).free / 1e9
    return WorkFailed(f"{checkpoint}: this checkpoint cannot be written ({first_line(error)}; {free:.3g} GB are free "
                      "there), and those before it are whole; make room, or let fewer stay by train.keep")
