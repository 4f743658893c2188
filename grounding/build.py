"""Building a value index into a folder of its own (see `index.py` for what is in it).

In two steps, each of which is either finished or not there: the texts and their trigrams, then the vectors. A build
that was stopped goes on with the step it was in; the strings that it had embedded are in the vectors' cache. The
manifest comes last, and holds a hash of itself.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from grounding.embed import Encoder
from grounding.grounded import GroundingConfig
from grounding.io import atomic_write_text, file_sha256
from grounding.schema import Database

FORMAT = 3  # raise when the files change their meaning: older folders are then left aside
FILES = ("values.sqlite", "dense.faiss")
PASSING = ("texts.sqlite", "columns.json")  # from the first step to the manifest


def build_index(
    folder: Path,
    database: Database,
    encoder: Encoder | None,
    config: GroundingConfig,
    identify: Callable[[], dict],
    progress: bool,
) -> None:
    """Writes `values.sqlite`, `dense.faiss` (where there is something to embed) and `manifest.json`.

    `folder` may hold what an earlier build left. `identify` says what was built from what; it is asked at the end, so
    that an index of a database that changed meanwhile is not taken for that of either state.
    """
    from grounding.dense import WINDOW, write_dense
    from grounding.lexical import count_kinds, read_texts, write_values

    if not all((folder / name).exists() for name in ("values.sqlite", *PASSING)):
        write_values(folder, database, config, progress)
    strings, cells, texts, embeddable = count_kinds(folder)
    dense = embeddable if encoder else 0
    about_dense: dict = {"kind": "none"}
    if dense:
        about_dense = write_dense(folder, partial(read_texts, folder, dense, WINDOW), dense, encoder, progress)
    manifest = {
        "identity": identify(),
        "db_id": database.db_id,
        "counts": {"strings": strings, "cells": cells, "dense": dense},
        "trigram": {"texts": texts},
        "dense": about_dense,
        "warnings": [*database.warnings, *misses(about_dense)],
        "columns": json.loads((folder / "columns.json").read_text(encoding="utf-8")),
        "files": describe_files(folder / name for name in FILES if (folder / name).exists()),
    }
    manifest["sha256"] = manifest_sha256(manifest)
    atomic_write_text(folder / "manifest.json", json.dumps(manifest, indent=1, ensure_ascii=False))


def manifest_sha256(manifest: dict) -> str:
    """Hex SHA-256 of what a manifest says, apart from this hash."""
    said = {name: value for name, value in manifest.items() if name != "sha256"}
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


def misses(about_dense: dict) -> list[str]:
    """What to say of a graph that misses more than it should."""
    if about_dense.get("target_reached", True):
        return []
    widest = about_dense["measured"][-1]
    return [f"the dense channel finds {widest['recall@10']:.3f} of the 10 nearest texts at its widest search"]


def describe_files(paths: Iterable[Path]) -> dict[str, dict]:
    """Size, time of change and hash of an index's files, as its manifest keeps them."""
    described = {}
    for path in paths:
        stat = path.stat()
        described[path.name] = {"size": stat.st_size, "mtime_ns": stat.st_mtime_ns, "sha256": file_sha256(path)}
    return described
