"""The dense channel alone: cosines of sentence vectors, TopK over values of the maximum over keywords.

    score(v) = max_{k ∈ K_q} cos(E(k), E(v))

Flat search over one float32 vector for each distinct text. Of the columns that hold a text, those that come first in
the schema come first.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from experiments.bench.grounding_baselines.cells import Cells, Strings, best, keywords, read_cells
from grounding.embed import Encoder
from grounding.evaluate.value_task import Found


@dataclass(frozen=True)
class Index:
    cells: Cells
    strings: Strings
    vectors_SD: np.ndarray


class Dense:
    def __init__(self, encoder: Encoder):
        self.encoder = encoder

    def build(self, database: Path) -> Index:
        cells = read_cells(database)
        strings = Strings.of(cells)
        # By length, so that a batch is padded little.
        order = sorted(range(len(strings.texts)), key=lambda string: len(strings.texts[string]))
        vectors = self.encoder.encode([strings.texts[string] for string in order]) if order else np.zeros((0, 1))
        vectors_SD = np.empty(vectors.shape, dtype=np.float32)
        vectors_SD[order] = vectors
        return Index(cells, strings, vectors_SD)

    def search(self, index: Index, question: str, evidence: str, k: int) -> list[Found]:
        words = keywords(question, evidence)
        if not words or not index.strings.texts:
            return []
        scores_S = (index.vectors_SD @ self.encoder.encode(words).T).max(1)
        # Every string stands in at least one cell, so k strings are enough for k cells.
        return index.cells.found(index.strings.cells_of(best(scores_S, k))[:k])
