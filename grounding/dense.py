"""`dense.faiss`: the nearest stored texts to a sentence vector, by inner product of unit vectors.

Up to FLAT_VECTORS vectors the index is flat, in float16, which is how the vectors are cached: exact. Above, it is a
graph (HNSW, Malkov & Yashunin 2018) over vectors in 8 bits a dimension. How wide the graph must be searched is
measured on the database's own texts: some are misspelt, and their 10 nearest by the graph are compared with the
10 nearest of all vectors; the width (`efSearch`) is doubled until 98 of 100 are found, or a question's mentions would
take too long. The manifest keeps the numbers.

Vectors pass through in windows, so that memory holds the index and no second copy of it. A graph of many vectors is
saved as it grows; a build that was stopped takes its vectors from the cache and its graph from there.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from grounding.embed import Encoder
from grounding.io import finish

FLAT_VECTORS = 10_000  # 32 mentions against as many: some 15 ms of one core
LINKS = 32  # of a node of the graph; level 0 has twice as many, 4 bytes each
BUILD_WIDTH = 160  # efConstruction; a graph of half the width must be searched four times as widely
WIDTHS = (32, 64, 128)  # efSearch; of 2,000,000 vectors, 128 takes 1 ms a mention, and a question has some 20
TARGET = 0.98
NEIGHBOURS = 10
MEASURED = 200  # misspelt texts
TRAINED_ON = 8192  # texts, evenly spread, whose vectors give each dimension's range
WINDOW = 16_384
SAVE_EVERY = 262_144  # vectors between two saves of a growing graph: minutes of work

Windows = Callable[[], Iterator[list[str]]]
"""The texts in the order of their ids, WINDOW at a time."""


def write_dense(folder: Path, windows: Windows, count: int, encoder: Encoder, progress: bool) -> dict[str, Any]:
    """Writes `dense.faiss`; returns what the manifest says of it."""
    with tqdm(total=count, unit="text", desc="embedding", leave=False, disable=not progress) as bar:
        if count <= FLAT_VECTORS:
            index, report = _flat(windows, encoder, bar)
        else:
            index, report = _graph(folder / "dense.growing", windows, count, encoder, bar)
    _save(index, folder / "dense.partial", folder / "dense.faiss")
    (folder / "dense.growing").unlink(missing_ok=True)
    return {**report, "vectors": index.ntotal, "dimension": index.d}


def load_dense(folder: Path) -> Any:
    """The FAISS index, its vectors mapped from the file."""
    import faiss

    return faiss.read_index(str(folder / "dense.faiss"), faiss.IO_FLAG_MMAP_IFC)


def misspell(text: str, chance: random.Random) -> str:
    """The text with two neighbours swapped, or a character lost or doubled."""
    at = chance.randrange(max(1, len(text) - 1))
    here, there = text[at : at + 1], text[at + 1 : at + 2]
    return text[:at] + chance.choice((there + here, there, here + here + there)) + text[at + 2 :]


def _flat(windows: Windows, encoder: Encoder, bar: tqdm) -> tuple[Any, dict]:
    import faiss

    index = None
    for texts in windows():
        vectors_WD = encoder.encode(texts)
        if index is None:
            kind = faiss.ScalarQuantizer.QT_fp16
            index = faiss.IndexScalarQuantizer(vectors_WD.shape[1], kind, faiss.METRIC_INNER_PRODUCT)
        index.add(vectors_WD)
        bar.update(len(texts))
    return index, {"kind": "flat, float16"}


def _graph(growing: Path, windows: Windows, count: int, encoder: Encoder, bar: tqdm) -> tuple[Any, dict]:
    import faiss

    chance = random.Random(0)
    queries_QD = encoder.encode([misspell(text, chance) for text in _spread(windows, count, MEASURED)])
    if growing.exists():
        index = faiss.read_index(str(growing))
    else:
        kind = faiss.ScalarQuantizer.QT_8bit
        index = faiss.IndexHNSWSQ(queries_QD.shape[1], kind, LINKS, faiss.METRIC_INNER_PRODUCT)
        index.hnsw.efConstruction = BUILD_WIDTH
        index.train(encoder.encode(_spread(windows, count, TRAINED_ON)))
    nearest = _Nearest(queries_QD)
    done, saved = 0, index.ntotal
    for texts in windows():
        vectors_WD = encoder.encode(texts)
        nearest.see(vectors_WD)
        done += len(texts)
        if done > index.ntotal:
            index.add(vectors_WD)
        if index.ntotal - saved >= SAVE_EVERY:
            _save(index, growing.with_suffix(".saving"), growing)
            saved = index.ntotal
        bar.update(len(texts))
    return index, {"kind": "HNSW, 8 bit", "links": LINKS, **_widen(index, queries_QD, nearest.ids_QK)}


def _save(index: Any, partial: Path, path: Path) -> None:
    import faiss

    try:
        faiss.write_index(index, str(partial))
    except RuntimeError as error:  # what FAISS raises where the disk is full
        raise OSError(f"{partial}: {' '.join(str(error).split())}") from error
    finish(partial, path)


def _widen(index: Any, queries_QD: np.ndarray, exact_QK: np.ndarray) -> dict[str, Any]:
    """Sets the least width that reaches the target, or the greatest of all; returns what was measured."""
    measured = []
    for width in WIDTHS:
        index.hnsw.efSearch = width
        start = time.perf_counter()
        _, found_QK = index.search(queries_QD, NEIGHBOURS)
        milliseconds = 1000 * (time.perf_counter() - start) / len(queries_QD)
        recall = float(np.mean([len(set(found) & set(exact)) for found, exact in zip(found_QK, exact_QK)])) / NEIGHBOURS
        measured.append({"efSearch": width, "recall@10": round(recall, 4), "ms_a_query": round(milliseconds, 3)})
        if recall >= TARGET:
            break
    return {"efSearch": width, "target": TARGET, "target_reached": recall >= TARGET, "measured": measured}


def _spread(windows: Windows, count: int, wanted: int) -> list[str]:
    """At most `wanted` texts at even distances."""
    step = -(-count // wanted)
    chosen, start = [], 0
    for texts in windows():
        chosen += texts[-start % step :: step]
        start += len(texts)
    return chosen


class _Nearest:
    """The exact nearest neighbours of some queries among vectors that pass by in windows."""

    def __init__(self, queries_QD: np.ndarray):
        self._queries_QD = queries_QD
        self._scores_QK = np.full((len(queries_QD), 0), -np.inf, dtype=np.float32)
        self.ids_QK = np.zeros((len(queries_QD), 0), dtype=np.int64)
        self._seen = 0

    def see(self, vectors_WD: np.ndarray) -> None:
        scores = np.concatenate([self._scores_QK, self._queries_QD @ vectors_WD.T], axis=1)
        passing = np.broadcast_to(np.arange(self._seen, self._seen + len(vectors_WD)), (len(scores), len(vectors_WD)))
        ids = np.concatenate([self.ids_QK, passing], axis=1)
        best = np.argpartition(-scores, NEIGHBOURS - 1, axis=1)[:, :NEIGHBOURS]
        self._scores_QK = np.take_along_axis(scores, best, axis=1)
        self.ids_QK = np.take_along_axis(ids, best, axis=1)
        self._seen += len(vectors_WD)
