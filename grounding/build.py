"""Building a value index into an empty folder (see `index.py` for what is in it)."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from grounding.embed import Encoder
from grounding.grounded import GroundingConfig
from grounding.io import atomic_write_text, file_sha256
from grounding.schema import Database
from grounding.text import fold, is_number_like
from grounding.values import StoredValue, stored_values

FORMAT = 1  # raise when the files change their meaning: older folders are then left aside
_TABLES = """
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
CREATE TABLE string (id INTEGER PRIMARY KEY, folded TEXT NOT NULL);
CREATE TABLE cell (string INTEGER NOT NULL, tbl TEXT NOT NULL, col TEXT NOT NULL, text TEXT NOT NULL, count INTEGER);
CREATE VIRTUAL TABLE trigram USING fts5(folded, content='', detail='none', tokenize='trigram');
"""
_LOOKUPS = """
CREATE UNIQUE INDEX string_folded ON string (folded);
CREATE INDEX cell_string ON cell (string);
CREATE INDEX cell_column ON cell (tbl, col, count DESC);
"""


@dataclass
class _String:
    """A distinct folded text while the index is built."""

    text: str
    cells: list[StoredValue] = field(default_factory=list)


def build_index(
    folder: Path, database: Database, encoder: Encoder | None, config: GroundingConfig, identity: dict
) -> None:
    """Writes `values.sqlite`, `dense.faiss` (where there is something to embed) and `manifest.json`."""
    strings: dict[str, _String] = {}
    for value in stored_values(database, config.max_values_per_column, config.max_value_chars):
        strings.setdefault(fold(value.text), _String(value.text)).cells.append(value)
    # Strings to be embedded are numbered first, so that a FAISS row is a string's id.
    ordered = sorted(strings, key=is_number_like)
    dense = [strings[folded].text for folded in ordered if not is_number_like(folded)] if encoder else []
    _write_values(folder / "values.sqlite", [(folded, strings[folded].cells) for folded in ordered])
    if dense:
        _write_dense(folder / "dense.faiss", encoder.encode(dense))
    files = sorted(path.name for path in folder.iterdir())
    manifest = {
        "identity": identity,
        "db_id": database.db_id,
        "counts": {
            "strings": len(ordered),
            "cells": sum(len(string.cells) for string in strings.values()),
            "dense": len(dense),
        },
        "files": {name: file_sha256(folder / name) for name in files},
    }
    atomic_write_text(folder / "manifest.json", json.dumps(manifest, indent=2))


def _write_values(path: Path, strings: Sequence[tuple[str, list[StoredValue]]]) -> None:
    connection = sqlite3.connect(path)
    try:
        connection.executescript(_TABLES)
        connection.executemany("INSERT INTO string VALUES (?, ?)", ((i, s[0]) for i, s in enumerate(strings)))
        connection.executemany(
            "INSERT INTO trigram (rowid, folded) VALUES (?, ?)", ((i, s[0]) for i, s in enumerate(strings))
        )
        connection.executemany(
            "INSERT INTO cell VALUES (?, ?, ?, ?, ?)",
            ((i, v.table, v.column, v.text, v.count) for i, (_, cells) in enumerate(strings) for v in cells),
        )
        connection.executescript(_LOOKUPS)
        connection.commit()
    finally:
        connection.close()


def _write_dense(path: Path, vectors: np.ndarray) -> None:
    import faiss

    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(vectors)
    faiss.write_index(index, str(path))
