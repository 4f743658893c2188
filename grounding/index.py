"""The value index of one database: exact, trigram and dense look-ups over its stored texts.

A folder `DB_ID-KEY/` holds `values.sqlite` (texts, the cells they stand in, trigrams by FTS5), `dense.faiss` (inner
product over unit vectors) and `manifest.json`. KEY is a hash of everything that the content depends on: the database
file, the encoder, the options. A changed database therefore gets another folder, and a folder whose files do not have
the hashes its manifest gives is built again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from grounding.build import FORMAT, build_index
from grounding.embed import Encoder
from grounding.grounded import GroundingConfig
from grounding.io import file_sha256
from grounding.schema import Database

TRIGRAM_CANDIDATES = 10


@dataclass(frozen=True)
class Cell:
    """A distinct text in one column."""

    table: str
    column: str
    text: str
    folded: str
    count: int


class ValueIndex:
    """An opened index. A string id names a distinct folded text of the database."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
        self._values = sqlite3.connect(
            f"{(folder / 'values.sqlite').resolve().as_uri()}?mode=ro&immutable=1", uri=True, check_same_thread=False
        )
        self._dense = None

    @classmethod
    def open(cls, database: Database, cache_dir: Path, encoder: Encoder | None, config: GroundingConfig) -> ValueIndex:
        """Opens the database's index under `cache_dir`; builds it where it is missing, stale or damaged."""
        identity = index_identity(database.path, encoder, config)
        key = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:12]
        folder = cache_dir / f"{database.db_id}-{key}"
        if not is_intact(folder, identity):
            cache_dir.mkdir(parents=True, exist_ok=True)
            staging = Path(tempfile.mkdtemp(dir=cache_dir, prefix=f".building-{folder.name}-"))
            try:
                build_index(staging, database, encoder, config, identity)
                _move_into_place(staging, folder, identity)
            finally:
                shutil.rmtree(staging, ignore_errors=True)
        return cls(folder)

    @property
    def dense_count(self) -> int:
        return self.manifest["counts"]["dense"]

    def exact(self, folded: Sequence[str]) -> dict[str, int]:
        """String ids of the folded texts that are stored just so."""
        marks = ",".join("?" * len(folded))
        return dict(self._values.execute(f"SELECT folded, id FROM string WHERE folded IN ({marks})", folded))

    def trigram(self, grams: Iterable[str]) -> list[tuple[int, str]]:
        """(string id, folded text) of the texts that share trigrams, best BM25 first; empty without trigrams."""
        query = " OR ".join('"' + gram.replace('"', '""') + '"' for gram in sorted(grams))
        if not query:
            return []
        return self._values.execute(
            "SELECT id, folded FROM string JOIN (SELECT rowid AS hit, rank AS bm25 FROM trigram WHERE trigram MATCH ?"
            " ORDER BY rank LIMIT ?) ON id = hit ORDER BY bm25, id",
            (query, TRIGRAM_CANDIDATES),
        ).fetchall()

    def dense(self, vectors: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Cosines and string ids [mentions, k] of the nearest texts to unit vectors [mentions, dimension]."""
        if self._dense is None:
            import faiss

            self._dense = faiss.read_index(str(self.folder / "dense.faiss"))
        return self._dense.search(np.ascontiguousarray(vectors), min(k, self.dense_count))

    def cells(self, string_ids: Sequence[int]) -> list[tuple[int, Cell]]:
        """The columns that hold these strings, as (string id, cell), frequent spellings first."""
        marks = ",".join("?" * len(string_ids))
        rows = self._values.execute(
            "SELECT string, tbl, col, text, folded, count FROM cell JOIN string ON string.id = string"
            f" WHERE string IN ({marks}) ORDER BY count DESC, cell.rowid",
            [int(string_id) for string_id in string_ids],
        )
        return [(string, Cell(*rest)) for string, *rest in rows]

    def samples(self, table: str, column: str, k: int) -> tuple[str, ...]:
        """The k most frequent texts of a column."""
        rows = self._values.execute(
            "SELECT text FROM cell WHERE tbl = ? AND col = ? ORDER BY count DESC, rowid LIMIT ?", (table, column, k)
        )
        return tuple(text for (text,) in rows)


def index_identity(path: Path, encoder: Encoder | None, config: GroundingConfig) -> dict:
    """Everything that an index's content depends on."""
    return {
        "format": FORMAT,
        "database_sha256": file_sha256(path),
        "encoder": encoder.name if encoder else None,
        "max_values_per_column": config.max_values_per_column,
        "max_value_chars": config.max_value_chars,
    }


def is_intact(folder: Path, identity: dict) -> bool:
    """Whether a folder holds the whole index that `identity` describes, its files unharmed."""
    try:
        manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
        return manifest["identity"] == identity and all(
            file_sha256(folder / name) == digest for name, digest in manifest["files"].items()
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def _move_into_place(staging: Path, folder: Path, identity: dict) -> None:
    """Renames a finished build to its name; another process may have been first, or left a damaged folder."""
    while True:
        try:
            os.rename(staging, folder)
            return
        except OSError:
            if is_intact(folder, identity):
                return
        damaged = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".damaged-{folder.name}-"))
        with contextlib.suppress(FileNotFoundError):  # another process may move it away between the two looks
            os.rename(folder, damaged)
        shutil.rmtree(damaged, ignore_errors=True)
