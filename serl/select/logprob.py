"""Log-prob: the candidate whose final SQL the policy was surest of, by the mean log-prob of its tokens.

The mean, not the sum, which prefers short SQL. The log-probs are the sampler's, at the sampling temperature. What did
not run is known to be wrong and is not chosen.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from serl.select.candidate import Candidate


def pick(candidates: Sequence[Candidate]) -> int | None:
    """Index of the candidate with the highest mean, the earliest of equal ones; None when none was answered."""
    answered = [index for index, candidate in enumerate(candidates) if candidate.answered]
    return max(answered, key=lambda index: _mean(candidates[index]), default=None)


def _mean(candidate: Candidate) -> float:
    return -math.inf if candidate.sql_logprob is None else candidate.sql_logprob
