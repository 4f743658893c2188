"""Generative verifier: the candidate that the policy itself says Yes to, when asked whether its work is right.

    v(i) = P("Yes" | question, S', the trajectory, its result) / (P("Yes" | ...) + P("No" | ...))

as `serl.select.verify` computes it. After the validation agent of MARS-SQL (arXiv 2511.01008), which takes the
trajectory with the highest P("Yes"). Two deviations: it trains an agent for this, here the policy is asked as it is;
and only Yes and No share the probability, so that what else the policy might say does not count.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from serl.select.candidate import Candidate


def pick(candidates: Sequence[Candidate]) -> int | None:
    """Index of the candidate with the highest v, the earliest of equal ones; None when none was answered."""
    answered = [index for index, candidate in enumerate(candidates) if candidate.answered]
    return max(answered, key=lambda index: _chance(candidates[index]), default=None)


def _chance(candidate: Candidate) -> float:
    return -math.inf if candidate.verified is None else candidate.verified
