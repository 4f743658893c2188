"""The value index of one database: exact, trigram and dense look-ups over its stored values.

A folder `DB_ID-KEY/` holds `values.sqlite` (texts, the cells they stand in, trigrams), `dense.faiss` (unit vectors)
and `manifest.json`. KEY is a hash of everything that the content depends on: the database file, the encoder, the
options. A changed database therefore gets another folder. It is hashed when its size, its times of change or its
inode are not those noted when it was hashed last (`cache/hashes/`).

At each opening the manifest must be as it was written and name the same KEY, and every file must have the size and the
time of change that the manifest gives; where the time differs (the folder was copied) the file must have the manifest's
hash. Anything else is built again. Bytes that rotted on the disk keep their file's time: `verify` (`grounding build
--verify`) hashes every file.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

import numpy as np

from grounding.build import FORMAT, PASSING, build_index, manifest_sha256
from grounding.embed import Encoder
from grounding.errors import InputError
from grounding.grounded import GroundingConfig
from grounding.io import LOCK, content_sha256, exclusive, file_sha256
from grounding.lexical import STORED
from grounding.schema import Database
from grounding.sqlite import content_files, in_parts
from grounding.trigram import TrigramSearch

TRIGRAM_CANDIDATES = 10
MAPPED_BYTES = 1 << 31  # of values.sqlite that SQLite may map into memory, its own upper limit


@dataclass(frozen=True)
class Cell:
    """A distinct value in one column."""

    table: str
    column: str
    text: str
    folded: str
    count: int
    stored: str = "text"
    """text, integer or real."""


class ValueIndex:
    """An opened index. A string id names a distinct folded text of the database."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
        self._values = sqlite3.connect(
            f"{(folder / 'values.sqlite').resolve().as_uri()}?mode=ro&immutable=1", uri=True, check_same_thread=False
        )
        self._values.execute(f"PRAGMA mmap_size = {MAPPED_BYTES}")
        self._trigrams = TrigramSearch(self._values)
        self._dense = None

    @classmethod
    def open(
        cls,
        database: Database,
        cache_dir: Path,
        encoder: Encoder | None,
        config: GroundingConfig,
        progress: bool = False,
        verify: bool = False,
    ) -> ValueIndex:
        """Opens the database's index under `cache_dir`; builds it where it is missing, stale or damaged.

        Raises InputError where the database cannot be read to its end, or the index cannot be written.
        """
        try:
            identify = partial(index_identity, database.path, encoder, config, cache_dir)
            identity = identify()
            key = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:12]
            folder = cache_dir / f"{database.db_id}-{key}"
            if not is_intact(folder, identity, verify):
                _build(folder, database, encoder, config, identity, identify, progress, verify)
            return cls(folder)
        except (OSError, sqlite3.Error) as error:
            what = f"the index of {database.path} cannot be written or read ({error})"
            raise InputError(f"{cache_dir}: {what}; see its place and rights, or name another folder") from error

    def close(self) -> None:
        """Closes the files; they are also closed as soon as nothing refers to the index any more."""
        self._values.close()
        self._dense = None

    def __del__(self) -> None:
        # A connection refers to itself: left alone it would stay open until the next collection of garbage.
        if hasattr(self, "_values"):
            self._values.close()

    @property
    def dense_count(self) -> int:
        return self.manifest["counts"]["dense"]

    def exact(self, folded: Sequence[str]) -> dict[str, int]:
        """String ids of the folded texts that are stored just so."""
        found: dict[str, int] = {}
        for marks, part in in_parts(folded):
            found.update(self._values.execute(f"SELECT folded, id FROM string WHERE folded IN ({marks})", part))
        return found

    def trigram(self, grams: Iterable[str]) -> list[tuple[int, str, float]]:
        """(string id, folded text, Dice coefficient of trigrams) of the likest texts, likest first."""
        return self._trigrams.nearest(frozenset(grams), TRIGRAM_CANDIDATES)

    def dense(self, vectors: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Cosines and string ids [mentions, k] of the nearest texts to unit vectors [mentions, dimension].

        A large index is approximate: an id of −1 fills a row for which it found fewer.
        """
        if self._dense is None:
            from grounding.dense import load_dense

            self._dense = load_dense(self.folder)
        return self._dense.search(np.ascontiguousarray(vectors), min(k, self.dense_count))

    def cells(self, string_ids: Sequence[int]) -> list[tuple[int, Cell]]:
        """The columns that hold these strings, as (string id, cell), frequent spellings first."""
        rows = []
        for marks, part in in_parts([int(string_id) for string_id in string_ids]):
            rows += self._values.execute(
                "SELECT -count, cell.rowid, string, tbl, col.name, coalesce(text, folded), folded, count, stored"
                " FROM cell JOIN string ON string.id = string JOIN col ON col.id = col"
                f" WHERE string IN ({marks})",
                part,
            )
        return [(string, Cell(*rest, STORED[stored])) for _, _, string, *rest, stored in sorted(rows)]

    def samples(self, table: str, column: str, k: int) -> tuple[str, ...]:
        """The k most frequent texts of a column; of one without text, its numbers."""
        first, cells = self._cells_of.get((table, column), (0, 0))
        rows = self._values.execute(
            # A column's cells are neighbours, most frequent first. CROSS: SQLite would not keep this order.
            "SELECT coalesce(text, folded) FROM cell CROSS JOIN string ON string.id = string"
            " WHERE cell.rowid >= ? AND cell.rowid < ? ORDER BY cell.rowid",
            (first, first + min(k, cells)),
        )
        return tuple(text for (text,) in rows)

    @cached_property
    def _cells_of(self) -> dict[tuple[str, str], tuple[int, int]]:
        """The first cell of each column that has any, and how many there are."""
        rows = self._values.execute("SELECT tbl, name, first, cells FROM col WHERE cells > 0")
        return {(table, column): (first, cells) for table, column, first, cells in rows}


def index_identity(path: Path, encoder: Encoder | None, config: GroundingConfig, cache_dir: Path) -> dict:
    """Everything that an index's content depends on."""
    return {
        "format": FORMAT,
        "database_sha256": content_sha256(content_files(path), cache_dir / "hashes"),
        "encoder": encoder.name if encoder else None,
        "max_values_per_column": config.max_values_per_column,
        "max_embedded_per_column": config.max_embedded_per_column,
        "max_value_chars": config.max_value_chars,
        "numbers": config.numbers,
    }


def is_intact(folder: Path, identity: dict, verify: bool = False) -> bool:
    """Whether a folder holds the whole index that `identity` describes; `verify` reads every byte of it."""
    try:
        manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
        is_whole = manifest["sha256"] == manifest_sha256(manifest)
        return is_whole and manifest["identity"] == identity and all(
            _is_as_written(folder / name, written, verify) for name, written in manifest["files"].items()
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def _is_as_written(path: Path, written: dict, verify: bool) -> bool:
    stat = path.stat()
    if stat.st_size != written["size"]:
        return False
    is_untouched = stat.st_mtime_ns == written["mtime_ns"] and not verify
    return is_untouched or file_sha256(path) == written["sha256"]


def _build(
    folder: Path, database: Database, encoder: Encoder | None, config: GroundingConfig, identity: dict,
    identify: Callable[[], dict], progress: bool, verify: bool,
) -> None:  # fmt: skip
    """Builds beside the folder's place, one process at a time, and moves the whole index there.

    A build that was killed is gone on with; one that failed leaves nothing.
    """
    staging = folder.with_name(f".building-{folder.name}")
    with exclusive(staging):
        try:
            if not is_intact(folder, identity, verify):  # another process may have been first
                if not is_intact(staging, identity):  # a build that was killed just before its end
                    build_index(staging, database, encoder, config, identify, progress)
                for name in PASSING:
                    (staging / name).unlink(missing_ok=True)
                if folder.exists():
                    os.rename(folder, staging / "damaged")
                os.rename(staging, folder)
                shutil.rmtree(folder / "damaged", ignore_errors=True)
                (folder / LOCK).unlink()  # last: who waits for it looks for it in the place where it was
                return  # what is in that place by now is another's
        except Exception:
            shutil.rmtree(staging, ignore_errors=True)
            raise
        # Who comes while it is removed puts a lock of its own into it, and removes it in turn.
        shutil.rmtree(staging, ignore_errors=True)
