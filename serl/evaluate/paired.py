"""Two systems on the same questions: is one better, and by how much?

Questions differ far more in difficulty than systems in skill. Comparing two intervals ignores that both systems met the
same questions; the differences question by question do not.

The p-value is that of the sign-flip test: under the null hypothesis a question's difference is as likely to be d as
−d, so p is the share of all 2^m ways to put signs to the m differences that are not 0 whose |sum| is at least the
observed one. Where those differences are all of one size, as with right and wrong answers, that is McNemar's exact
test: with n₁₀ questions only the first system gets right and n₀₁ only the second,

    p = min(1, 2 Σ_{k ≤ min(n₁₀, n₀₁)} C(n₁₀+n₀₁, k) / 2^(n₁₀+n₀₁))

Otherwise all signs are tried up to m = 16; above, `draws` random ones, and p = (1 + hits) / (1 + draws) (Phipson and
Smyth 2010), which is never 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from serl.evaluate.stats import bootstrap_mean

_ALL_SIGNS = 16  # differences up to which all 65,536 ways to put signs are tried
_CHUNK = 1_000_000  # signs drawn at a time: 8 MB, whatever the number of questions


@dataclass(frozen=True)
class Difference:
    """The first system's mean minus the second's, with its 95% interval, over `n` questions; `p_value` is two-sided."""

    value: float
    low: float
    high: float
    n: int
    p_value: float

    def to_json(self) -> dict[str, float | int]:
        """The difference as `{"value", "low", "high", "n", "p_value"}`."""
        return asdict(self)


def paired_difference(
    a: Sequence[float], b: Sequence[float], seed: int = 0, resamples: int = 2000, draws: int = 10_000
) -> Difference:
    """How much higher `a` scores than `b`; the scores are of the same questions in the same order.

    The interval is the percentile bootstrap's over questions. The same seed, the same result. Raises ValueError
    when the lengths differ or there is no question.

    >>> difference = paired_difference([1, 1, 1, 1, 1, 0], [0, 0, 0, 0, 0, 0])
    >>> round(difference.value, 3), difference.p_value
    (0.833, 0.0625)
    """
    if len(a) != len(b):
        raise ValueError(f"a paired comparison needs the same questions, got {len(a)} and {len(b)} scores")
    differences = [float(x) - float(y) for x, y in zip(a, b)]
    mean = bootstrap_mean(differences, seed, resamples)
    return Difference(mean.value, mean.low, mean.high, mean.n, sign_flip_p(differences, seed, draws))


def sign_flip_p(differences: Sequence[float], seed: int = 0, draws: int = 10_000) -> float:
    """Two-sided p-value of the sign-flip test that the differences are symmetric around 0."""
    sizes_M = np.asarray([abs(difference) for difference in differences if difference])
    count = len(sizes_M)
    if count == 0:
        return 1.0
    if np.allclose(sizes_M, sizes_M[0], rtol=1e-9, atol=0):
        return mcnemar_p(sum(d > 0 for d in differences), sum(d < 0 for d in differences))
    observed = abs(math.fsum(differences)) - 1e-9 * sizes_M.sum()  # sums in another order differ in the last digits
    if count <= _ALL_SIGNS:
        signs_RM = 1 - 2 * (np.arange(2**count)[:, None] >> np.arange(count) & 1)
        return float((np.abs(signs_RM @ sizes_M) >= observed).mean())
    generator = np.random.default_rng(seed)
    hits, left = 0, draws
    while left:
        rows = min(left, max(1, _CHUNK // count))
        signs_RM = generator.choice((-1.0, 1.0), size=(rows, count))
        hits += int((np.abs(signs_RM @ sizes_M) >= observed).sum())
        left -= rows
    return (1 + hits) / (1 + draws)


def mcnemar_p(only_first: int, only_second: int) -> float:
    """Exact two-sided p-value of McNemar's test, from the questions that only one of the two got right.

    >>> mcnemar_p(8, 2)
    0.109375
    """
    n = only_first + only_second
    tail = sum(math.comb(n, k) for k in range(min(only_first, only_second) + 1))
    return min(1.0, 2 * tail / 2**n)
