"""Checkpoints: a Hugging Face folder that `transformers` opens directly, plus `state.pt` to resume.

Of a model with adapters only these are written, as peft does it; `serl.model.load` finds the weights beside them.

What of the state is another one on each of several ranks (a part of the optimizer) is in `state_rank_N.pt` beside it;
the folder must be one that all of them see.

A checkpoint is written into a hidden folder, synced, and renamed into place: a folder named `step_000010` is
complete. The last `keep` stay.
"""

import os
import pickle
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from serl import lora
from serl.errors import InputError
from serl.parallel import ALONE, Ranks

STATE, OF_RANK = "state.pt", "state_rank_{}.pt"
_NAME = re.compile(r"step_(\d{6})")


def save(folder: Path, step: int, model, tokenizer, state: dict, keep: int, ranks: Ranks = ALONE,
         apart: Sequence[str] = ()) -> Path:
    """Write `folder/step_NNNNNN` atomically, then remove all but the newest `keep`.

    Every rank calls it; rank 0 writes, and each of them what it has under the names `apart`.
    """
    import torch

    final, partial = folder / f"step_{step:06d}", folder / f".step_{step:06d}.partial"
    if ranks.leads:
        for stale in (partial, final):  # left by a run that was killed, or replayed after a resume
            shutil.rmtree(stale, ignore_errors=True)
        partial.mkdir(parents=True)
    save_model(partial, model, tokenizer, ranks.leads)
    if apart:
        ranks.wait()  # for the folder
        torch.save({name: state[name] for name in apart}, partial / OF_RANK.format(ranks.rank))
        _sync([partial / OF_RANK.format(ranks.rank)])
        state = {name: value for name, value in state.items() if name not in apart} | {"ranks": ranks.size}
        ranks.wait()  # for everyone's file
    if ranks.leads:
        torch.save(state, partial / STATE)
        _sync(partial.iterdir())
        partial.rename(final)
        _sync([folder])
        for old in complete(folder)[:-keep]:
            shutil.rmtree(old)
    ranks.wait()  # for the checkpoint
    return final


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
        raise InputError(f"{checkpoint / name}: cannot be read ({error}); delete this folder to resume from "
                         "the one before it") from error


def _sync(paths: Iterable[Path]) -> None:
    for path in paths:
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
