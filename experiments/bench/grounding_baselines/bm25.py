"""BM25 over stored values, each a document (Robertson & Zaragoza, 2009), as Lucene ranks and cuts text.

    score(q, d) = Σ_{t ∈ q} ln(1 + (N − n_t + ½) / (n_t + ½)) · f_td / (f_td + k₁ (1 − b + b |d| / avg|d|))

with k₁ = 1.2 and b = 0.75, Lucene's own. Words are lower-cased, possessives and Lucene's 33 English stop words dropped,
the rest stemmed (Porter). The query is question and evidence, as they are.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from experiments.bench.grounding_baselines.cells import Cells, best, read_cells
from experiments.bench.grounding_baselines.porter import porter_stem
from grounding.evaluate.value_task import Found

K1, B = 1.2, 0.75
_WORD = re.compile(r"\w+(?:['’]\w+)*")
_POSSESSIVE = re.compile(r"['’]s\Z")
STOP_WORDS = frozenset(
    "a an and are as at be but by for if in into is it no not of on or such that the their then there these they this"
    " to was will with".split())


@dataclass(frozen=True)
class Index:
    """Postings by term: the cells that hold it and what it adds to their scores."""

    cells: Cells
    term: dict[str, int]
    start_T: np.ndarray
    """Where each term's postings start; one entry more than terms."""
    cell_P: np.ndarray
    weight_P: np.ndarray


class Bm25:
    def build(self, database: Path) -> Index:
        return index_cells(read_cells(database))

    def search(self, index: Index, question: str, evidence: str, k: int) -> list[Found]:
        scores_C = scores(index, f"{question} {evidence}")
        return index.cells.found(place for place in best(scores_C, k) if scores_C[place] > 0)


def terms(text: str) -> list[str]:
    """
    >>> terms("The singers' songs of O'Brien's band")
    ['singer', 'song', "o'brien", 'band']
    """
    found = (_POSSESSIVE.sub("", word) for word in _WORD.findall(text.lower()))
    return [porter_stem(word) for word in found if word not in STOP_WORDS]


def index_cells(cells: Cells) -> Index:
    term: dict[str, int] = {}
    term_of, lengths = [], []
    for text in cells.texts:
        found = [term.setdefault(each, len(term)) for each in terms(text)]
        term_of += found
        lengths.append(len(found))
    length_C = np.array(lengths, dtype=np.int64)
    cell_of = np.repeat(np.arange(len(cells)), length_C)
    # A pair of term and cell, counted: postings by term, then by cell.
    pair_P, frequency_P = np.unique(np.array(term_of, dtype=np.int64) * len(cells) + cell_of, return_counts=True)
    term_P, cell_P = np.divmod(pair_P, max(1, len(cells)))
    holding_T = np.bincount(term_P, minlength=len(term))
    idf_T = np.log(1 + (len(cells) - holding_T + 0.5) / (holding_T + 0.5))
    relative_C = length_C / max(1.0, length_C.mean()) if len(cells) else length_C
    weight_P = idf_T[term_P] * frequency_P / (frequency_P + K1 * (1 - B + B * relative_C[cell_P]))
    start_T = np.concatenate(([0], np.cumsum(holding_T)))
    return Index(cells, term, start_T, cell_P.astype(np.int32), weight_P.astype(np.float32))


def scores(index: Index, query: str) -> np.ndarray:
    """The score of every cell; a term that the query repeats counts as often."""
    scores_C = np.zeros(len(index.cells), dtype=np.float32)
    for name in terms(query):
        if (term := index.term.get(name)) is not None:
            postings = slice(index.start_T[term], index.start_T[term + 1])
            scores_C[index.cell_P[postings]] += index.weight_P[postings]  # a cell stands once in a term's postings
    return scores_C
