"""Adaptive N: execution vote that stops sampling as soon as the leader is sure enough.

After some samples let n₁ ≥ n₂ be the votes of the two most frequent results. With a uniform prior on the share p that
the leader has among the votes of these two, its posterior is Beta(n₁ + 1, n₂ + 1), and

    P(p > 1/2) = 1 − I_{1/2}(n₁ + 1, n₂ + 1) = Σ_{k ≤ n₁} C(n₁ + n₂ + 1, k) / 2^(n₁ + n₂ + 1)

is the chance that the leader is the policy's most likely result. Sampling stops when it reaches `confidence` (the
stopping rule of Adaptive-Consistency, Aggarwal et al., arXiv 2305.11860, and its default of 0.95), or when the samples
that are left cannot change the vote. Errors take a sample and never vote.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from serl.select import vote
from serl.select.candidate import Candidate

CONFIDENCE = 0.95


def posterior(leader: int, second: int) -> float:
    """The chance that the result with `leader` votes is more likely than the one with `second`, leader ≥ second.

    >>> posterior(3, 0), posterior(4, 0), posterior(2, 2)
    (0.9375, 0.96875, 0.5)
    """
    n = leader + second + 1
    return sum(math.comb(n, k) for k in range(leader + 1)) / 2**n


def enough(candidates: Sequence[Candidate], n: int, confidence: float = CONFIDENCE) -> bool:
    """Whether sampling may stop after these candidates of `n` at most."""
    if len(candidates) >= n:
        return True
    votes = Counter(candidate.result_key for candidate in candidates if candidate.answered)
    (first, second) = ([count for _, count in votes.most_common(2)] + [0, 0])[:2]
    return first > 0 and (posterior(first, second) >= confidence or first - second > n - len(candidates))


def needed(candidates: Sequence[Candidate], confidence: float = CONFIDENCE) -> int:
    """How many of the candidates, which are all that would be sampled at most, are sampled before it stops."""
    n = len(candidates)
    return next(size for size in range(n + 1) if enough(candidates[:size], n, confidence))


def pick(candidates: Sequence[Candidate], confidence: float = CONFIDENCE) -> int | None:
    """Index of what the candidates that are sampled vote for; None when nobody may vote."""
    return vote.pick(candidates[: needed(candidates, confidence)])
