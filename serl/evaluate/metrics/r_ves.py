"""`r_ves`: BIRD's reward-based valid efficiency score.

    R-VES = mean over questions of sqrt(reward)

    ratio      wrong   < 1/4   [1/4, 1/2)   [1/2, 1)   [1, 2)   ≥ 2
    reward       0     0.25       0.5         0.75       1      1.25

ratio = trimmed mean of gold time / predicted time; correct is `bird_ex`. Source: evaluation_ves.py of BIRD's mini_dev
repository, which reports it times 100. The root is the script's: a question scores 0 or 0.5 to 1.118. An edge lies
where it hurts: SQL just like gold's has a ratio around 1 and scores 1 or 0.866 by the noise of the clock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from serl.evaluate.judged import Score
from serl.evaluate.metrics.timing import ITERATIONS, timed_score

if TYPE_CHECKING:
    from serl.evaluate.judged import Judged

REWARDS = ((2.0, 1.25), (1.0, 1.0), (0.5, 0.75), (0.25, 0.5), (0.0, 0.25))
"""From this ratio on → the reward."""


def r_ves(judged: Judged, iterations: int = ITERATIONS) -> Score:
    """R-VES of one question: 0 if wrong, else 0.5 to sqrt(1.25)."""
    return timed_score(judged, iterations, reward)


def reward(ratio: float) -> float:
    """The reward of a right answer with this ratio of gold's time to its own."""
    return next(reward for least, reward in REWARDS if ratio >= least)
