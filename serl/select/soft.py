"""Soft vote: the result that is most like all the others.

Execution vote in which a result that only lacks a column, or has some rows too many, is half a vote instead of none:

    score(i) = Σ_j s(i, j)    over the candidates j that have a result, i itself among them

with s in [0, 1] the similarity of two results (`serl.sql.compare.similarity`), 1 where their keys are equal. With s
either 0 or 1 this is execution vote. Errors have no result and never vote. A result of more rows than candidates keep
is compared whole or not at all: it counts only for those with its key.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from serl.select.candidate import Candidate
from serl.sql.outcome import Outcome


def pick(candidates: Sequence[Candidate]) -> int | None:
    """Index of the earliest candidate with the highest score; None when nobody may vote."""
    voters = [index for index, candidate in enumerate(candidates) if candidate.answered]
    if not voters:
        return None
    likeness = likenesses([candidates[index] for index in voters])
    # fsum is exact, so equal results have equal scores; rounding takes the last bits of the similarities themselves.
    scores = [round(math.fsum(row), 9) for row in likeness]
    return voters[scores.index(max(scores))]


def likenesses(voters: Sequence[Candidate]) -> list[list[float]]:
    """s of all pairs of candidates that have a result: symmetric, 1 on the diagonal."""
    results = [_Result(voter.result_key, voter.result) for voter in voters]
    return [[_likeness(*sorted((one, other), key=lambda result: result.key)) for other in results] for one in results]


@dataclass(frozen=True)
class _Result:
    key: str
    outcome: Outcome | None = field(compare=False)

    @property
    def whole(self) -> bool:
        return self.outcome is not None and len(self.outcome.rows) == self.outcome.row_count


@lru_cache(maxsize=10_000)
def _likeness(one: _Result, other: _Result) -> float:
    if one.key == other.key:
        return 1.0
    if not (one.whole and other.whole):
        return 0.0
    from serl.sql.compare.similarity import similarity

    return similarity(one.outcome, other.outcome)
