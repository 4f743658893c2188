"""Checkpoints: a Hugging Face folder that `transformers` opens directly, plus `state.pt` to resume.

Of a model with adapters only these are written, as peft does it; `serl.model.load` finds the weights beside them.

A checkpoint is written into a hidden folder, synced, and renamed into place: a folder named `step_000010` is
complete. The last `keep` stay.
"""

import os
import pickle
import re
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

from serl import lora
from serl.errors import InputError

STATE = "state.pt"
_NAME = re.compile(r"step_(\d{6})")


def save(folder: Path, step: int, model, tokenizer, state: dict, keep: int) -> Path:
    """Write `folder/step_NNNNNN` atomically, then remove all but the newest `keep`."""
    import torch

    final, partial = folder / f"step_{step:06d}", folder / f".step_{step:06d}.partial"
    for stale in (partial, final):  # left by a run that was killed, or replayed after a resume
        shutil.rmtree(stale, ignore_errors=True)
    partial.mkdir(parents=True)
    save_model(partial, model, tokenizer)
    torch.save(state, partial / STATE)
    _sync(partial.iterdir())
    partial.rename(final)
    _sync([folder])
    for old in complete(folder)[:-keep]:
        shutil.rmtree(old)
    return final


def save_model(folder: Path, model, tokenizer) -> None:
    """Weights, config and tokenizer as `from_pretrained` reads them; of a model with adapters, only these."""
    if lora.has_adapter(model):
        lora.save(model, folder)
    else:
        model.save_pretrained(folder)
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


def load_state(checkpoint: Path) -> dict:
    """The resume state of a checkpoint."""
    import torch

    try:
        return torch.load(checkpoint / STATE, map_location="cpu", weights_only=True)
    except (OSError, RuntimeError, EOFError, pickle.UnpicklingError) as error:
        raise InputError(f"{checkpoint / STATE}: cannot be read ({error}); delete this folder to resume from "
                         "the one before it") from error


def _sync(paths: Iterable[Path]) -> None:
    for path in paths:
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
