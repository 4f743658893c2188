"""Value retrieval as CHESS does it (Talaei et al., arXiv 2405.16755): MinHash LSH, then edit and embedding similarity.

Offline every (table, column, value) is hashed: 100 permutations of its character 3-grams, LSH with threshold 0.01.
Online, for each keyword: the 10 nearest values by estimated Jaccard similarity; of these, those whose edit similarity
and cosine to the keyword reach a threshold; and of these the closest by edit distance in each column. The candidates
are embedded when the question is asked, the values are not.

With `filtered`, columns are left out as CHESS leaves them out: primary keys, names that hold `_id`, ` id`, `url`,
`email`, `web`, `time`, `phone`, `date` or `address` or end in `Id`, and columns of long texts (25 characters or more on
average, or 2 million in all; 5 million where the name holds `name`).

Departures and guesses:
- CHESS lets a language model name the keywords. Here they are the mentions that grounding itself looks up, which
  hold n-grams of one to three words; so keywords are not split at their spaces once more, as CHESS does.
- The thresholds (0.01 LSH, 0.3 edit similarity, 0.6 cosine) and the limits on lengths are its release's, not the
  paper's. Edit similarity is 1 − Levenshtein/longest, cosine is of MiniLM vectors (CHESS: a commercial embedding).
- CHESS gives a set, not a ranking. Here the set is ranked by edit similarity, then cosine.
- Texts are compared in lower case, a text of one or two characters is a 3-gram of its own, and columns count as text
  by what is stored in them, not by what they declare. All three are in its favour.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from experiments.bench.grounding_baselines.cells import Cells, best, folded, keywords, read_cells
from experiments.bench.grounding_baselines.edit_distance import edit_similarity
from experiments.bench.grounding_baselines.minhash import Bands, jaccard, signatures
from grounding.embed import Encoder
from grounding.evaluate.value_task import Found

THRESHOLD = 0.01
TOP = 10
LEAST_EDIT_SIMILARITY = 0.3
LEAST_COSINE = 0.6
SKIPPED_NAME = re.compile("_id| id|url|email|web|time|phone|date|address", re.IGNORECASE)
LONGEST_AVERAGE, LONGEST_TOTAL, LONGEST_TOTAL_OF_NAMES = 25, 2_000_000, 5_000_000


@dataclass(frozen=True)
class Index:
    cells: Cells
    signatures_CP: np.ndarray
    bands: Bands


@dataclass(frozen=True)
class Match:
    """A cell that a keyword may mean."""

    cell: int
    edit_similarity: float
    cosine: float


class MinHashLsh:
    def __init__(self, encoder: Encoder, filtered: bool):
        self.encoder, self.filtered = encoder, filtered

    def build(self, database: Path) -> Index:
        cells = read_cells(database)
        if self.filtered:
            cells = cells.only(kept_columns(cells))
        signatures_CP = signatures([folded(text) for text in cells.texts])
        return Index(cells, signatures_CP, Bands.of(signatures_CP, THRESHOLD))

    def search(self, index: Index, question: str, evidence: str, k: int) -> list[Found]:
        words = keywords(question, evidence)
        if not words:
            return []
        near = [[(cell, similarity) for cell in cells
                 if (similarity := edit_similarity(folded(word), folded(index.cells.texts[cell])))
                 >= LEAST_EDIT_SIMILARITY] for word, cells in zip(words, nearest(index, words))]
        best_of: dict[int, Match] = {}
        for matches in self._with_cosines(index, words, near):
            for match in closest_by_column(index, matches):
                known = best_of.get(match.cell, match)
                best_of[match.cell] = max(match, known, key=_closeness)
        ranked = sorted(best_of.values(), key=_closeness, reverse=True)
        return index.cells.found(match.cell for match in ranked[:k])

    def _with_cosines(self, index: Index, words: Sequence[str], near: Sequence[Sequence[tuple[int, float]]]
                      ) -> list[list[Match]]:
        """For each keyword, its candidates that mean something similar; all texts are embedded in one batch."""
        texts = dict.fromkeys(index.cells.texts[cell] for candidates in near for cell, _ in candidates)
        asked = [word for word, candidates in zip(words, near) if candidates]
        if not asked:
            return []
        places = {text: place for place, text in enumerate(dict.fromkeys((*asked, *texts)))}
        vectors = self.encoder.encode(list(places))
        out = []
        for word, candidates in zip(words, near):
            matches = [Match(cell, similarity, float(vectors[places[word]] @ vectors[places[index.cells.texts[cell]]]))
                       for cell, similarity in candidates]
            out.append([match for match in matches if match.cosine >= LEAST_COSINE])
        return out


def _closeness(match: Match) -> tuple[float, float]:
    return match.edit_similarity, match.cosine


def kept_columns(cells: Cells) -> np.ndarray:
    """Which columns CHESS indexes [columns], bool."""
    lengths_C = np.array([len(text) for text in cells.texts], dtype=np.int64)
    total_D = np.bincount(cells.column_C, lengths_C, minlength=len(cells.columns))
    count_D = np.bincount(cells.column_C, minlength=len(cells.columns))
    kept_D = np.zeros(len(cells.columns), dtype=bool)
    for place, (column, total, count) in enumerate(zip(cells.columns, total_D, count_D)):
        name = column.column
        skipped = column.primary_key or SKIPPED_NAME.search(name) or name.endswith("Id") or not count
        if "name" in name.lower() and total < LONGEST_TOTAL_OF_NAMES:
            short = True
        else:
            short = count and total < LONGEST_TOTAL and total / count < LONGEST_AVERAGE
        kept_D[place] = short and not skipped
    return kept_D


def nearest(index: Index, words: Sequence[str]) -> list[list[int]]:
    """For each keyword, the cells with the highest estimated Jaccard similarity among those that share a band."""
    signatures_QP = signatures([folded(word) for word in words])
    out = []
    for signature_P, cells in zip(signatures_QP, index.bands.candidates(signatures_QP)):
        similarity = jaccard(index.signatures_CP[cells], signature_P)
        out.append([int(cells[place]) for place in best(similarity, TOP)])
    return out


def closest_by_column(index: Index, matches: Sequence[Match]) -> list[Match]:
    """One keyword's closest match in each column."""
    closest: dict[int, Match] = {}
    for match in sorted(matches, key=_closeness, reverse=True):
        closest.setdefault(int(index.cells.column_C[match.cell]), match)
    return list(closest.values())
