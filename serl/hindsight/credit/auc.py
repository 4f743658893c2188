"""How well a score finds the wrong tokens: the area under the ROC curve, with an interval over questions.

    AUC = P(score of a wrong token > score of a right one) + ½ P(they are equal)

1 finds all, ½ is chance, below ½ points the wrong way. Tokens of one question are not independent, so the interval
comes from resampling questions (percentile bootstrap).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np


@dataclass(frozen=True)
class Auc:
    """An AUC with the ends of its 95% interval. None: there is no wrong token, or no right one."""

    value: float | None
    low: float | None
    high: float | None
    tokens: int
    wrong: int
    questions: int

    def to_json(self) -> dict[str, float | int | None]:
        return asdict(self)


def auc(scores_T: Sequence[float], wrong_T: Sequence[bool]) -> float | None:
    """AUC of `scores_T` for `wrong_T`, None unless both kinds of token occur.

    >>> auc([3, 1, 2, 2], [True, False, True, False])
    0.875
    """
    ranked = _Ranked(np.asarray(scores_T, dtype=np.float64), np.asarray(wrong_T, dtype=bool))
    return ranked.auc(np.ones(len(scores_T)))


def estimate(scores_T: Sequence[float], wrong_T: Sequence[bool], questions_T: Sequence[object], seed: int = 0,
             resamples: int = 1000) -> Auc:
    """AUC over all tokens and its interval; `questions_T` names each token's question. Same seed, same ends."""
    names, question_T = np.unique(np.asarray([str(name) for name in questions_T]), return_inverse=True)
    wrong = np.asarray(wrong_T, dtype=bool)
    value = auc(scores_T, wrong_T)
    counts = len(scores_T), int(wrong.sum()), len(names)
    if value is None:
        return Auc(None, None, None, *counts)
    ranked = _Ranked(np.asarray(scores_T, dtype=np.float64), wrong)
    generator = np.random.default_rng(seed)
    picks_RQ = generator.multinomial(len(names), np.full(len(names), 1 / len(names)), size=resamples)
    # A resample that lacks wrong or right tokens has no AUC and says nothing.
    found = [each for picks_Q in picks_RQ if (each := ranked.auc(picks_Q[question_T].astype(np.float64))) is not None]
    low, high = np.quantile(found, [0.025, 0.975])
    return Auc(value, float(low), float(high), *counts)


class _Ranked:
    """Scores sorted once, so that each resample is only a weighted count."""

    def __init__(self, scores_T: np.ndarray, wrong_T: np.ndarray) -> None:
        if not np.isfinite(scores_T).all():
            raise ValueError("a score that is not finite has no rank; leave its token out")
        self._levels, self._level_T = np.unique(scores_T, return_inverse=True)
        self._wrong_T = wrong_T

    def auc(self, weights_T: np.ndarray) -> float | None:
        """AUC where each token counts `weights_T` times."""
        size = len(self._levels)
        wrong_L = np.bincount(self._level_T, weights_T * self._wrong_T, size)
        right_L = np.bincount(self._level_T, weights_T * ~self._wrong_T, size)
        pairs = wrong_L.sum() * right_L.sum()
        if pairs == 0:
            return None
        below_L = np.cumsum(right_L) - right_L
        return float((wrong_L * (below_L + right_L / 2)).sum() / pairs)
