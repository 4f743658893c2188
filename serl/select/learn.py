"""Logistic regression for the reward selector, and what it is worth on questions that it has not seen.

With x standardized and y whether a candidate is right, over all candidates that have a result:

    L(w, b) = −Σ_i [ y_i ln p_i + (1 − y_i) ln(1 − p_i) ] + λ/2 ‖w‖²,    p = σ(b + w·x)

by Newton's method; it is convex, and its one minimum depends on no seed. A feature that never varies gets weight 0.
Every figure is out of fold: the candidates of a question are judged by weights that were learnt on the questions of
the other folds. The weights that are kept are learnt on all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from zlib import crc32

import numpy as np

from serl.evaluate.stats import Estimate, bootstrap_ratio
from serl.select.candidate import Candidate
from serl.select.features import FEATURES, describe
from serl.select.reward import LearntReward

PENALTY = 1.0  # λ; of little weight beside thousands of candidates, it keeps separable data finite
FOLDS = 5
BINS = 10

Described = tuple[Sequence[tuple[float, ...] | None], Sequence[bool]]
"""Features of a group's candidates, None for those without a result, and which are right."""


@dataclass(frozen=True)
class Rollouts:
    """Candidates that were sampled together for one question, and which of them are right."""

    question_id: str
    candidates: tuple[Candidate, ...]
    correct: tuple[bool, ...]


@dataclass(frozen=True)
class Bin:
    """Candidates whose chance lies in [low, high): how many, the mean chance, and the share of right ones."""

    low: float
    high: float
    chance: float
    right: Estimate


@dataclass(frozen=True)
class Calibration:
    """How far chances can be believed: `error` is Σ_bins (size / all) |mean chance − share of right ones|."""

    bins: tuple[Bin, ...]
    error: float
    brier: float  # mean (p − y)²
    base: float  # the same of one chance for all, the share of right ones
    auc: float  # the chance that a right candidate is ranked above a wrong one, over all questions


def learn(groups: Sequence[Rollouts], penalty: float = PENALTY) -> LearntReward:
    """Weights learnt on all these rollouts."""
    return _learn([(describe(group.candidates), group.correct) for group in groups], penalty)


def held_out(groups: Sequence[Rollouts], penalty: float = PENALTY) -> list[list[float | None]]:
    """P(right) of each group's candidates by weights learnt without their question; None: it has no result."""
    described = [(describe(group.candidates), group.correct) for group in groups]
    folds = [crc32(group.question_id.encode()) % FOLDS for group in groups]
    by_fold = {fold: _learn([each for each, own in zip(described, folds) if own != fold], penalty)
               for fold in sorted(set(folds))}
    return [[features and by_fold[fold].chance(features) for features in rows]
            for (rows, _), fold in zip(described, folds)]


def _learn(described: Sequence[Described], penalty: float) -> LearntReward:
    rows = [(features, right) for group, correct in described
            for features, right in zip(group, correct) if features is not None]
    x_NF = np.array([features for features, _ in rows], dtype=float).reshape(len(rows), len(FEATURES))
    intercept, weights_F = fit(x_NF, np.array([right for _, right in rows], dtype=float), penalty)
    return LearntReward(intercept, dict(zip(FEATURES, weights_F.tolist())))


def fit(x_NF: np.ndarray, y_N: np.ndarray, penalty: float = PENALTY) -> tuple[float, np.ndarray]:
    """Intercept b and weights w [F] of raw features. ValueError unless there are right and wrong ones."""
    if not 0 < y_N.sum() < len(y_N):
        raise ValueError("there is nothing to tell apart: all candidates are right, or all are wrong")
    mean_F, deviation_F = x_NF.mean(0), x_NF.std(0)
    varies_F = deviation_F > 1e-9
    scale_F = np.where(varies_F, deviation_F, 1.0)
    z_NG = np.concatenate([np.ones((len(x_NF), 1)), np.where(varies_F, (x_NF - mean_F) / scale_F, 0.0)], axis=1)
    penalty_G = np.array([0.0, *[penalty] * x_NF.shape[1]])
    share = y_N.mean()
    weights_G = np.zeros(z_NG.shape[1])
    weights_G[0] = np.log(share / (1 - share))
    loss = _loss(z_NG, y_N, weights_G, penalty_G)
    for _ in range(100):
        p_N = _sigmoid(z_NG @ weights_G)
        gradient_G = z_NG.T @ (p_N - y_N) + penalty_G * weights_G
        hessian_GG = (z_NG * (p_N * (1 - p_N))[:, None]).T @ z_NG + np.diag(penalty_G)
        step_G = np.linalg.solve(hessian_GG + 1e-12 * np.eye(len(weights_G)), gradient_G)
        size = 1.0
        # Of a full step's length, or halved until it is downhill: Newton's steps overshoot where p is near 0 or 1.
        while (tried := _loss(z_NG, y_N, weights_G - size * step_G, penalty_G)) > loss and size > 1e-6:
            size /= 2
        weights_G, change, loss = weights_G - size * step_G, loss - tried, tried
        if change < 1e-9 * (1 + abs(loss)):
            break
    weights_F = np.where(varies_F, weights_G[1:] / scale_F, 0.0)
    return float(weights_G[0] - weights_F @ mean_F), weights_F


def calibration(groups: Sequence[Rollouts], chances: Sequence[Sequence[float | None]]) -> Calibration:
    """Calibration of such chances; intervals are over questions, whose candidates stand and fall together."""
    found = [(group.question_id, chance, right) for group, own in zip(groups, chances)
             for chance, right in zip(own, group.correct) if chance is not None]
    p_N, y_N = (np.array([row[place] for row in found], dtype=float) for place in (1, 2))
    place_N = np.minimum((p_N * BINS).astype(int), BINS - 1)
    bins = []
    for number in range(BINS):
        questions: dict[str, list[float]] = {}
        for (question_id, _, right), place in zip(found, place_N):
            if place == number:
                questions.setdefault(question_id, []).append(float(right))
        if questions:
            right = bootstrap_ratio([(sum(own), len(own)) for own in questions.values()])
            bins.append(Bin(number / BINS, (number + 1) / BINS, float(p_N[place_N == number].mean()), right))
    error = sum(each.right.n * abs(each.chance - each.right.value) for each in bins) / len(p_N)
    share = float(y_N.mean())
    return Calibration(tuple(bins), float(error), float(((p_N - y_N) ** 2).mean()), share * (1 - share), auc(p_N, y_N))


def auc(p_N: np.ndarray, y_N: np.ndarray) -> float:
    """Chance that a right one has the higher p than a wrong one, ties as half; 0.5 where there is no pair."""
    from scipy.stats import rankdata

    right = int(y_N.sum())
    pairs = right * (len(y_N) - right)
    return float((rankdata(p_N)[y_N == 1].sum() - right * (right + 1) / 2) / pairs) if pairs else 0.5


def _loss(z_NG: np.ndarray, y_N: np.ndarray, weights_G: np.ndarray, penalty_G: np.ndarray) -> float:
    score_N = z_NG @ weights_G
    return float((np.logaddexp(0, score_N) - y_N * score_N).sum() + (penalty_G * weights_G**2).sum() / 2)


def _sigmoid(score_N: np.ndarray) -> np.ndarray:
    return np.exp(-np.logaddexp(0, -score_N))
