"""Statistics over seeds: means, ratios, and where a curve reaches a value.

    mean      m ± t s / √n                                        Student's;  t = t(0.975, n − 1)
    ratio     all θ with  (x̄ − θ ȳ)² ≤ t² s²_{x − θy} / n          Fieller's

Intervals are of 95%. A percentile bootstrap over so few seeds is far too narrow: of 5 normal values it covers the mean
in 83% of cases where it says 95%.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

Points = Sequence[tuple[int, float]]  # (updates, value)


@dataclass(frozen=True)
class Mean:
    """A mean, or a ratio of means, over `n` seeds with its 95% interval; NaN: it cannot be told."""

    value: float
    low: float
    high: float
    n: int


def mean_of(values: Sequence[float]) -> Mean:
    """Mean and Student's t interval. A single value, or values that are all the same, have none.

    Accuracies move in steps of a question: of a few that agree, nothing says how far others would lie.

    >>> mean = mean_of([1.0, 2.0, 3.0])
    >>> mean.value, round(mean.low, 3), round(mean.high, 3)
    (2.0, -0.484, 4.484)
    """
    size = len(values)
    value = math.fsum(values) / size
    if not max(values) - min(values) > 1e-12:
        return Mean(value, math.nan, math.nan, size)
    half = _t(size) * math.sqrt(_covariance(values, values) / size)
    return Mean(value, value - half, value + half, size)


def ratio_of(over: Sequence[float], under: Sequence[float]) -> Mean:
    """Mean of `over` by that of `under`, seed by seed; NaN unless the interval of the latter lies above 0.

    Else its interval would be unbounded: a share of what may be nothing.

    >>> share = ratio_of([1.0, 2.0, 3.0], [2.0, 3.0, 4.0])
    >>> round(share.value, 3), round(share.low, 3), round(share.high, 3)
    (0.667, -0.939, 0.818)
    """
    size = len(under)
    if not size or not mean_of(under).low > 0:
        return Mean(math.nan, math.nan, math.nan, size)
    x, y = (math.fsum(values) / size for values in (over, under))
    scale = _t(size) ** 2 / size
    a = y * y - scale * _covariance(under, under)  # a θ² − 2 b θ + c ≤ 0, and a > 0 since the interval of y has no 0
    b = x * y - scale * _covariance(over, under)
    c = x * x - scale * _covariance(over, over)
    half = math.sqrt(max(0.0, b * b - a * c))
    return Mean(x / y, (b - half) / a, (b + half) / a, size)


def updates_to(curve: Points, goal: float) -> float | None:
    """Where a curve first reaches `goal`, between two points on a line; None: nowhere.

    >>> updates_to([(0, 0.5), (10, 0.7), (20, 0.6)], 0.6)
    5.0
    """
    before: tuple[int, float] | None = None
    for updates, value in curve:
        if value >= goal:
            if before is None:
                return float(updates)
            (start, low) = before
            return start + (updates - start) * (goal - low) / (value - low)
        before = (updates, value)
    return None


def _t(size: int) -> float:
    from scipy.stats import t

    return float(t.ppf(0.975, size - 1))


def _covariance(one: Sequence[float], other: Sequence[float]) -> float:
    size = len(one)
    first, second = (math.fsum(values) / size for values in (one, other))
    return math.fsum((x - first) * (y - second) for x, y in zip(one, other)) / (size - 1)
