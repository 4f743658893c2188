"""V_q: the stored values that a question's mentions may mean (SERL-SQL, Eq. 8).

    V_q = TopK_v max_{k in K_q} sim(k, v)

over three channels, each with a similarity from 0 to 1: `exact` (equal after folding: 1), `trigram` (candidates by
BM25, scored by the Dice coefficient of their trigrams) and `dense` (cosine of sentence vectors). Departures from the
paper, which has the dense channel only: a value's rank is fused over the channels by reciprocal rank, and among the
columns that hold the same value those the question names come first. Spellings of one value in one column that differ
in case alone are one match, the most frequent spelling.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from grounding.grounded import ValueMatch
from grounding.index import Cell, ValueIndex
from grounding.mentions import Mention
from grounding.text import dice, fold, name_stems, trigrams

RANK_CONSTANT = 60  # of reciprocal rank fusion, as published (Cormack et al., 2009)
DENSE_NEIGHBOURS = 10  # a mention
LEAST_DICE = 0.4  # below, texts share no more than an ending or a common syllable

Similarities = dict[int, float]
"""String id → similarity to the closest mention."""


def retrieve(
    index: ValueIndex, mentions: Sequence[Mention], vectors: np.ndarray | None, question_stems: frozenset[str], k: int
) -> tuple[ValueMatch, ...]:
    """The k best values. `vectors` [mentions, dimension] are the mentions' unit vectors, None without dense channel."""
    exact = _exact(index, mentions)
    channels = {"exact": exact, "trigram": _trigram(index, mentions, exact)}
    if vectors is not None and len(mentions) and index.dense_count:
        channels["dense"] = _dense(index, vectors, exact)
    return _fuse(index, channels, question_stems, k)


def confident(matches: Sequence[ValueMatch], min_score: float) -> tuple[ValueMatch, ...]:
    """The matches worth showing: those of at least `min_score`, without the runners-up of an exact match.

    A runner-up stands in the same column and shares a word with it: `Jack Roberts` where the question says and the
    column holds `Tina Roberts`.
    """
    said: dict[tuple[str, str], set[str]] = defaultdict(set)
    for match in matches:
        if match.channel == "exact":
            said[match.table, match.column].update(fold(match.value).split())
    return tuple(
        match
        for match in matches
        if match.score >= min_score
        and (match.channel == "exact" or said[match.table, match.column].isdisjoint(fold(match.value).split()))
    )


def _exact(index: ValueIndex, mentions: Sequence[Mention]) -> Similarities:
    """The likeliest mention's value first: ties keep this order to the end."""
    found = index.exact([mention.folded for mention in mentions])
    return {found[mention.folded]: 1.0 for mention in mentions if mention.folded in found}


def _trigram(index: ValueIndex, mentions: Sequence[Mention], exact: Similarities) -> Similarities:
    # Equal texts have similarity 1 in every channel, also where candidates were cut before them.
    best: Similarities = defaultdict(float, exact)
    for mention in mentions:
        grams = trigrams(mention.folded)
        for string_id, folded in index.trigram(grams):
            similarity = dice(grams, trigrams(folded))
            if similarity >= LEAST_DICE:
                best[string_id] = max(best[string_id], similarity)
    return best


def _dense(index: ValueIndex, vectors: np.ndarray, exact: Similarities) -> Similarities:
    best: Similarities = defaultdict(float, exact)
    cosines, string_ids = index.dense(vectors, DENSE_NEIGHBOURS)
    for cosine, string_id in zip(cosines.ravel().tolist(), string_ids.ravel().tolist()):
        best[string_id] = max(best[string_id], min(1.0, cosine))
    return best


def _fuse(
    index: ValueIndex, channels: dict[str, Similarities], question_stems: frozenset[str], k: int
) -> tuple[ValueMatch, ...]:
    fused: dict[int, float] = defaultdict(float)
    for similarities in channels.values():
        ranked = sorted(similarities, key=lambda string_id: -similarities[string_id])
        for rank, string_id in enumerate(ranked):
            fused[string_id] += 1 / (RANK_CONSTANT + rank)
    # Every string stands in at least one column, so k strings are enough for k matches.
    top = sorted(fused, key=lambda string_id: -fused[string_id])[:k]
    place = {string_id: rank for rank, string_id in enumerate(top)}
    cells = sorted(index.cells(top), key=lambda found: (place[found[0]], -_column_affinity(found[1], question_stems)))
    matches: dict[tuple[str, str, int], ValueMatch] = {}
    for string_id, cell in cells:
        channel = max(channels, key=lambda name: channels[name].get(string_id, 0.0))
        score = channels[channel][string_id]
        matches.setdefault(
            (cell.table, cell.column, string_id), ValueMatch(cell.table, cell.column, cell.text, score, channel)
        )
    return tuple(matches.values())[:k]


def _column_affinity(cell: Cell, question_stems: frozenset[str]) -> float:
    """How much of the column's and its table's name the question says, 0 to 3; the column counts double."""
    return 2 * _said(cell.column, question_stems) + _said(cell.table, question_stems)


def _said(name: str, question_stems: frozenset[str]) -> float:
    stems = name_stems(name)
    return len(stems & question_stems) / len(stems) if stems else 0.0
