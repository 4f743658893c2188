"""Data sets: one reader per format, all returning Examples."""

from __future__ import annotations

from pathlib import Path

from serl.data.balance import WHOLE, Sample
from serl.data.bird import load_bird
from serl.data.dialogue import load_cosql, load_interactions, load_sparc
from serl.data.example import Example
from serl.data.interaction import Interaction
from serl.data.spider import load_spider
from serl.data.synsql import load_synsql
from serl.errors import InputError

__all__ = ["FORMATS", "SAMPLED", "Example", "Interaction", "Sample", "load", "load_interactions"]

_READERS = {"bird": load_bird, "spider": load_spider, "sparc": load_sparc, "cosql": load_cosql}
SAMPLED = {"synsql": load_synsql}  # read as a stream, of which a sample is kept
FORMATS = (*_READERS, *SAMPLED)


def load(format: str, root: Path | str, split: str, sample: Sample = WHOLE) -> list[Example]:
    """The questions of `split` under `root`, which is laid out as `format` (one of FORMATS) has it."""
    if format in SAMPLED:
        return SAMPLED[format](root, split, sample)
    if sample != WHOLE:
        raise InputError(f"data format {format} is read whole; samples of levels are for: {', '.join(SAMPLED)}")
    if format not in _READERS:
        raise InputError(f"unknown data format {format!r}, should be one of: {', '.join(FORMATS)}")
    return _READERS[format](root, split)
