"""How well a score finds the wrong tokens: the area under the ROC curve, with an interval over questions.

    AUC = P(score of a wrong token > score of a right one) + ½ P(they are equal)

1 finds all, ½ is chance, below ½ points the wrong way. Tokens of one question are not independent, so intervals
come from resampling questions (percentile bootstrap); the lead of one score over another resamples both together.
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
    wrong = np.asarray(wrong_T, dtype=bool)
    if not wrong.any() or wrong.all():
        return None
    pairs = _Pairs(np.asarray(scores_T, dtype=np.float64), wrong, np.zeros(len(wrong), dtype=np.int64), 1)
    return float(pairs.auc(np.ones((1, 1)))[0])


def estimate(scores_T: Sequence[float], wrong_T: Sequence[bool], questions_T: Sequence[object], seed: int = 0,
             resamples: int = 1000) -> Auc:
    """AUC over all tokens and its interval; `questions_T` names each token's question. Same seed, same ends.

    >>> estimate([3, 1, 2, 2], [True, False, True, False], "abab").value
    0.875
    """
    value, low, high = _bootstrap([scores_T], wrong_T, questions_T, seed, resamples)
    return Auc(value, low, high, len(scores_T), int(np.sum(wrong_T)), len(set(map(str, questions_T))))


def lead(scores_T: Sequence[float], others_T: Sequence[float], wrong_T: Sequence[bool],
         questions_T: Sequence[object], seed: int = 0, resamples: int = 1000
         ) -> tuple[float | None, float | None, float | None]:
    """AUC of `scores_T` less that of `others_T` on the same tokens, and the ends of its interval.

    >>> lead([3, 1, 2, 2], [1, 3, 2, 2], [True, False, True, False], "abab")[0]
    0.75
    """
    return _bootstrap([scores_T, others_T], wrong_T, questions_T, seed, resamples)


def _bootstrap(scores: Sequence[Sequence[float]], wrong_T: Sequence[bool], questions_T: Sequence[object], seed: int,
               resamples: int) -> tuple[float | None, float | None, float | None]:
    """AUC of the first scores, less that of the second if there are any, and its interval over questions."""
    wrong = np.asarray(wrong_T, dtype=bool)
    if not wrong.any() or wrong.all():
        return None, None, None
    names, question_T = np.unique(np.asarray([str(name) for name in questions_T]), return_inverse=True)
    pairs = [_Pairs(np.asarray(each, dtype=np.float64), wrong, question_T, len(names)) for each in scores]

    def value_R(weights_RQ: np.ndarray) -> np.ndarray:
        return pairs[0].auc(weights_RQ) - sum(other.auc(weights_RQ) for other in pairs[1:])

    uniform_Q = np.full(len(names), 1 / len(names))
    again_R = value_R(np.random.default_rng(seed).multinomial(len(names), uniform_Q, size=resamples))
    # A resample that lacks wrong or right tokens has no AUC and says nothing.
    low, high = np.nanquantile(again_R, [0.025, 0.975])
    return float(value_R(np.ones((1, len(names))))[0]), float(low), float(high)


class _Pairs:
    """How many right tokens of each question score below wrong tokens of each, ties half: [Q, Q].

    Computed once, so that the AUC of a resample of questions is a product of small matrices.
    """

    def __init__(self, scores_T: np.ndarray, wrong_T: np.ndarray, question_T: np.ndarray, questions: int) -> None:
        if not np.isfinite(scores_T).all():
            raise ValueError("a score that is not finite has no rank; leave its token out")
        levels, level_T = np.unique(scores_T, return_inverse=True)

        def counts_QL(kind_T: np.ndarray) -> np.ndarray:
            flat = np.bincount(question_T * len(levels) + level_T, kind_T, questions * len(levels))
            return flat.reshape(questions, len(levels))

        wrong_QL, right_QL = counts_QL(wrong_T), counts_QL(~wrong_T)
        self._pairs_QQ = wrong_QL @ (np.cumsum(right_QL, axis=1) - right_QL / 2).T
        self._wrong_Q, self._right_Q = wrong_QL.sum(axis=1), right_QL.sum(axis=1)

    def auc(self, weights_RQ: np.ndarray) -> np.ndarray:
        """AUC [R] where each question's tokens count `weights_RQ` times; NaN without both kinds of token."""
        ordered_R = ((weights_RQ @ self._pairs_QQ) * weights_RQ).sum(axis=1)
        all_R = (weights_RQ @ self._wrong_Q) * (weights_RQ @ self._right_Q)
        return np.divide(ordered_R, all_R, out=np.full(len(all_R), np.nan), where=all_R > 0)
