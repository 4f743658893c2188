"""Exact and trigram look-up: the Dice coefficient of trigram sets, TopK over values of the maximum over keywords.

    score(v) = max_{k ∈ K_q} 2 |G(k) ∩ G(v)| / (|G(k)| + |G(v)|)

Texts are compared without case; equal texts score 1. A text of one or two characters has one trigram of its own, so
that only its equals match it. Of the columns that hold a text, those that come first in the schema come first.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from experiments.bench.grounding_baselines.cells import Cells, Strings, best, folded, keywords, read_cells
from experiments.bench.grounding_baselines.ngrams import shingles
from grounding.evaluate.value_task import Found


@dataclass(frozen=True)
class Index:
    """Postings by trigram: the strings that hold it."""

    cells: Cells
    strings: Strings
    gram_G: np.ndarray
    """Distinct trigrams, ascending."""
    start_G: np.ndarray
    """Where each trigram's postings start; one entry more than trigrams."""
    string_P: np.ndarray
    size_S: np.ndarray
    """Distinct trigrams of each string."""


class ExactTrigram:
    def build(self, database: Path) -> Index:
        cells = read_cells(database)
        strings = Strings.of(cells, folded)
        string_P, gram_P = _trigram_sets(strings.texts)
        order = np.lexsort((string_P, gram_P))
        gram_G, count_G = np.unique(gram_P, return_counts=True)
        start_G = np.concatenate(([0], np.cumsum(count_G)))
        size_S = np.bincount(string_P, minlength=len(strings.texts))
        return Index(cells, strings, gram_G, start_G, string_P[order].astype(np.int32), size_S)

    def search(self, index: Index, question: str, evidence: str, k: int) -> list[Found]:
        scores_S = np.zeros(len(index.strings.texts))
        for word in keywords(question, evidence):
            np.maximum(scores_S, dice(index, folded(word)), out=scores_S)
        strings = [string for string in best(scores_S, k) if scores_S[string] > 0]
        return index.cells.found(index.strings.cells_of(strings)[:k])


def dice(index: Index, text: str) -> np.ndarray:
    """The coefficient of a folded text with every string."""
    _, gram_Q = _trigram_sets([text])
    place_Q = np.searchsorted(index.gram_G, gram_Q)
    known = place_Q < len(index.gram_G)
    place_K = place_Q[known][index.gram_G[place_Q[known]] == gram_Q[known]]
    postings = [index.string_P[index.start_G[place] : index.start_G[place + 1]] for place in place_K]
    shared_S = np.bincount(np.concatenate(postings), minlength=len(index.size_S)) if postings else 0
    return 2 * shared_S / (len(gram_Q) + index.size_S)


def _trigram_sets(texts: list[str] | tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
    """(text, trigram) of each distinct trigram of each text, by text."""
    gram_G, count_T = shingles(texts)
    text_G = np.repeat(np.arange(len(texts)), count_T)
    order = np.lexsort((gram_G, text_G))
    text_G, gram_G = text_G[order], gram_G[order]
    first = np.ones(len(gram_G), dtype=bool)
    first[1:] = (text_G[1:] != text_G[:-1]) | (gram_G[1:] != gram_G[:-1])
    return text_G[first], gram_G[first]
