"""V_q: the stored values that a question's mentions may mean (SERL-SQL, Eq. 8), and where.

    V_q = TopK_{(v, c)} w · φ(v, c, q)

The paper ranks values by their similarity alone, max over mentions of sim(k, v). That finds the text, but not which of
the columns that hold it is meant, and no code or flag. So candidates come from four channels (`channels.py`), each
cell that holds one is described by some thirty numbers (`features.py`), and a linear score ranks them, its weights
learnt on other databases (`weights.py`). A match's `score` stays the similarity of the closest mention, 0 to 1: rank
says what is likely, score says how sure the likeness is. Spellings of one value in one column that differ in case alone
are one match, the most frequent spelling.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from grounding.grounded import ValueMatch
from grounding.index import Cell, ValueIndex
from grounding.retrieve.channels import Candidate, find_candidates
from grounding.retrieve.features import FEATURES, Asked, feature_matrix
from grounding.retrieve.profile import Profile
from grounding.retrieve.weights import DENSE, LEXICAL
from grounding.text import fold


def retrieve(index: ValueIndex, profile: Profile, asked: Asked, k: int) -> tuple[ValueMatch, ...]:
    """The k best (table, column, value), best first; without vectors in `asked` the dense channel is left out."""
    candidates, cells, features_NF = describe(index, profile, asked)
    weights = LEXICAL if asked.vectors_MD is None else DENSE
    scores_N = features_NF @ np.array([weights[name] for name in FEATURES])
    matches = []
    for place in np.argsort(-scores_N, kind="stable")[:k]:
        string_id, cell = cells[place]
        matches.append(ValueMatch(cell.table, cell.column, cell.text, *candidates[string_id].match, cell.stored))
    return tuple(matches)


def describe(
    index: ValueIndex, profile: Profile, asked: Asked
) -> tuple[dict[int, Candidate], list[tuple[int, Cell]], np.ndarray]:
    """Candidates by string id, the N cells (string id, cell) that hold them, and their features [N, FEATURES]."""
    candidates, mentions = find_candidates(index, profile, asked)
    cells: dict[tuple[int, str, str], tuple[int, Cell]] = {}
    for string_id, cell in index.cells(sorted(candidates)):
        candidate, place = candidates[string_id], (cell.table, cell.column)
        # A code that no mention is like stands only where codes stand.
        if not candidate.is_only_code or place in profile.code_columns or place in candidate.flags:
            cells.setdefault((string_id, *place), (string_id, cell))  # the most frequent spelling comes first
    # Where scores are equal, the value of the likelier mention is first.
    found = sorted(cells.values(), key=lambda cell: candidates[cell[0]].match[2])
    return candidates, found, feature_matrix(profile, asked, mentions, candidates, found)


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
