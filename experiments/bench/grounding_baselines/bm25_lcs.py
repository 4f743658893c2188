"""Value retrieval as CodeS does it (Li et al., arXiv 2402.16347): coarse by BM25, fine by the longest common substring.

Coarse: the 200 values with the highest BM25 score for the question. Fine: their degree of match with the question,

    degree(q, v) = |longest common substring of q and v| / |v|

Departures and guesses:
- The paper takes "hundreds" of values from a Lucene index; 200 is our number. BM25 is that of `bm25.py`.
- The paper names the longest common substring as the measure of the degree of match, without a formula; dividing by
  the value's length makes a value that the question holds whole a full match. Among equal degrees the longer common
  substring comes first, then the higher BM25 score.
- Question and evidence are matched in lower case, joined by a line break that no common substring crosses.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from experiments.bench.grounding_baselines import bm25
from experiments.bench.grounding_baselines.cells import best, code_points, folded, read_cells
from grounding.evaluate.value_task import Found

COARSE = 200


class Bm25Lcs:
    def build(self, database: Path) -> bm25.Index:
        return bm25.index_cells(read_cells(database))

    def search(self, index: bm25.Index, question: str, evidence: str, k: int) -> list[Found]:
        scores_C = bm25.scores(index, f"{question} {evidence}")
        coarse = [int(place) for place in best(scores_C, COARSE) if scores_C[place] > 0]
        texts = [folded(index.cells.texts[place]) for place in coarse]
        common_N = longest_common_substrings(f"{folded(question)}\n{folded(evidence)}", texts)
        degree_N = common_N / np.array([len(text) for text in texts], dtype=np.float64)
        order = np.lexsort((np.arange(len(coarse)), -common_N, -degree_N))
        return index.cells.found(coarse[place] for place in order[:k])


def longest_common_substrings(text: str, others: Sequence[str]) -> np.ndarray:
    """Length of the longest substring that each of `others` has in common with the text [others].

    The usual table, run[i, j] = run[i−1, j−1] + 1 where characters agree, one row for each character of the text, for
    all others at once.

    >>> longest_common_substrings("singers from france", ["france", "francs", "usa"]).tolist()
    [6, 5, 1]
    """
    if not others:
        return np.zeros(0, dtype=np.int64)
    width = max(len(other) for other in others)
    other_NL = np.zeros((len(others), width), dtype=np.uint32)  # NUL fills up; a text's own is taken out below
    for row, other in zip(other_NL, others):
        row[: len(other)] = code_points([other])
    run_NL = np.zeros((len(others), width + 1), dtype=np.int64)  # column j: the run that ends before character j
    longest_N = np.zeros(len(others), dtype=np.int64)
    for point in code_points([text.replace("\0", "\n")]):
        # Never in place: a run's new length needs the old one of its neighbour.
        run_NL = np.pad((run_NL[:, :-1] + 1) * (other_NL == point), ((0, 0), (1, 0)))
        longest_N = np.maximum(longest_N, run_NL.max(1))
    return longest_N
