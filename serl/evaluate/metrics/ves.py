"""`ves`: BIRD's valid efficiency score, as in the first paper.

    VES = mean over questions of 1[correct] · sqrt(ratio),    ratio = trimmed mean of gold time / predicted time

Correct is `bird_ex`. Source: arXiv 2305.03111 and evaluation_ves.py of its repository, which reports it times 100.
It has no upper bound: one question that gold's query answers slowly can outweigh many. The mean of ratios is at
least the ratio of means, so that gold's own SQL scores slightly more than 1. The paper's script stopped its clock when
SQLite had found the first row; here all rows are fetched, as in the later R-VES script.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from serl.evaluate.judged import Score
from serl.evaluate.metrics.timing import ITERATIONS, timed_score

if TYPE_CHECKING:
    from serl.evaluate.judged import Judged


def ves(judged: Judged, iterations: int = ITERATIONS) -> Score:
    """VES of one question: 0 if wrong, 1 about as fast as gold, above 1 if faster."""
    return timed_score(judged, iterations, lambda ratio: ratio)
