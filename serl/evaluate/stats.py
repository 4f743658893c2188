"""Estimates with intervals for evaluation: proportions, means over questions, and differences of two systems.

The unit is the question. Samples of one question are not independent of each other, so a mean over
samples is taken inside each question first and the interval comes from resampling questions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

Z_95 = 1.959963984540054
"""The standard normal's 97.5% quantile: a two-sided 95% interval."""
_CHUNK = 4_000_000  # counts drawn at a time: 32 MB, whatever the number of questions


@dataclass(frozen=True)
class Estimate:
    """A value in [0, 1] with the ends of its 95% interval, from `n` questions."""

    value: float
    low: float
    high: float
    n: int

    def to_json(self) -> dict[str, float | int]:
        """The estimate as `{"value", "low", "high", "n"}`."""
        return asdict(self)


def wilson(successes: int, n: int, z: float = Z_95) -> Estimate:
    """Wilson's score interval of a proportion: right near 0 and 1, where value ± z·se is not.

    >>> estimate = wilson(8, 10)
    >>> round(estimate.low, 3), round(estimate.high, 3)
    (0.49, 0.943)

    Raises ValueError unless 0 <= successes <= n and n > 0.
    """
    if n <= 0 or not 0 <= successes <= n:
        raise ValueError(f"need 0 <= successes <= n and n > 0, got {successes} of {n}")
    value = successes / n
    spread = 1 + z * z / n
    centre = (value + z * z / (2 * n)) / spread
    half = z * math.sqrt(value * (1 - value) / n + z * z / (4 * n * n)) / spread
    # Rounding must not push an end past the value itself when it is exactly 0 or 1.
    return Estimate(value, min(value, max(0.0, centre - half)), max(value, min(1.0, centre + half)), n)


def bootstrap_mean(
    values: Sequence[float], seed: int = 0, resamples: int = 2000, level: float = 0.95
) -> Estimate:
    """Mean of one value a question, with the percentile bootstrap's interval. The same seed, the same ends.

    Raises ValueError when `values` is empty.
    """
    if not values:
        raise ValueError("the mean of no values has no estimate")
    values_Q = np.asarray(values, dtype=np.float64)
    generator = np.random.default_rng(seed)
    picks_RQ = generator.integers(0, len(values_Q), size=(resamples, len(values_Q)))
    return Estimate(float(values_Q.mean()), *_percentiles(values_Q[picks_RQ].mean(axis=1), level), len(values_Q))


def bootstrap_ratio(
    groups: Sequence[tuple[float, int]], seed: int = 0, resamples: int = 2000, level: float = 0.95
) -> Estimate:
    """Mean over questions that come in groups (turns of an interaction): (sum of values, number of questions) each.

    Groups are resampled, not questions, so that questions which stand and fall together do not count as independent.
    `n` of the estimate is the number of questions. Raises ValueError when there is no question.
    """
    sums_G = np.asarray([total for total, _ in groups], dtype=np.float64)
    sizes_G = np.asarray([size for _, size in groups], dtype=np.int64)
    if not groups or (sizes_G < 1).any():
        raise ValueError("a mean over groups needs a group, and a question in each")
    picks_RG = np.random.default_rng(seed).integers(0, len(groups), size=(resamples, len(groups)))
    means_R = sums_G[picks_RG].sum(axis=1) / sizes_G[picks_RG].sum(axis=1)
    return Estimate(float(sums_G.sum() / sizes_G.sum()), *_percentiles(means_R, level), int(sizes_G.sum()))


def resampled_means(values_QM: np.ndarray, seed: int = 0, resamples: int = 2000) -> np.ndarray:
    """Means [R, M] of M values a question over bootstrap samples of the questions, the same samples for all M.

    So differences and ratios of the columns are paired. Each sample is the counts of its questions, drawn from the
    multinomial. Raises ValueError when there is no question.
    """
    questions = len(values_QM)
    if not questions:
        raise ValueError("the mean of no values has no estimate")
    generator = np.random.default_rng(seed)
    rows = max(1, _CHUNK // questions)
    return np.concatenate([
        generator.multinomial(questions, np.full(questions, 1 / questions), size=min(rows, resamples - start))
        @ values_QM / questions for start in range(0, resamples, rows)])


def interval(value: float, resampled_R: np.ndarray, n: int, level: float = 0.95) -> Estimate:
    """A value with the percentile interval of what it was in bootstrap samples."""
    return Estimate(float(value), *_percentiles(resampled_R, level), n)


def mean_at_n(correct: Sequence[Sequence[bool]], seed: int = 0) -> Estimate:
    """Unbiased estimate of one sample's accuracy, from the samples of each question.

    Every question counts the same, however many samples it kept: the mean of per-question fractions.
    Raises ValueError when there is no question or a question has no sample.
    """
    if any(not samples for samples in correct):
        raise ValueError("a question without samples has no accuracy; leave it out first")
    return bootstrap_mean([sum(samples) / len(samples) for samples in correct], seed)


def _percentiles(values_R: np.ndarray, level: float) -> tuple[float, float]:
    tail = (1 - level) / 2
    low, high = np.quantile(values_R, [tail, 1 - tail])
    return float(low), float(high)
