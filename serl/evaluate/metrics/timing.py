"""How fast a prediction is beside gold: paired runs, and their trimmed mean ratio. VES and R-VES rest on it.

Prediction and gold run in turn, `iterations` times each, so that a slow moment of the machine meets both. Times are
`Outcome.ms`, taken inside the worker around connecting, executing and fetching every row. The official scripts
always run the prediction first, which leaves it the cold caches; here the two take turns at going first. Run
nothing else on the machine meanwhile.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import fmean, pstdev
from typing import TYPE_CHECKING

from serl.evaluate.judged import Score
from serl.sql.compare import bird_ex

if TYPE_CHECKING:
    from serl.evaluate.judged import Judged

ITERATIONS = 100
"""Pairs of runs a question; the official scripts' `iterate_num`."""


def timed_score(judged: Judged, iterations: int, worth: Callable[[float], float]) -> Score:
    """The square root of what a right answer's speed is worth; 0 where it is wrong by `bird_ex`."""
    verdict = bird_ex(judged.predicted, judged.gold)
    if not verdict.match:
        return Score(0.0, verdict.reason)
    ratio = speed(judged, iterations)
    if isinstance(ratio, Score):
        return ratio
    return Score(math.sqrt(worth(ratio)), f"{ratio:.3g} times gold's speed in {iterations} runs")


def speed(judged: Judged, iterations: int) -> float | Score:
    """The trimmed mean of gold's time over the prediction's: 2 is twice as fast as gold.

    Instead the score of a question that could not be timed: 0 if the prediction failed in a run, None if gold or
    the sandbox did.
    """
    if iterations < 1:
        raise ValueError(f"timing needs at least one iteration, not {iterations}")
    ratios = []
    for iteration in range(iterations):
        ms = {}
        for side in ("predicted", "gold") if iteration % 2 == 0 else ("gold", "predicted"):
            sql = judged.predicted_sql if side == "predicted" else judged.example.gold_sql
            outcome = judged.sandbox.run(judged.example.db_path, sql)
            if not outcome.ran:
                fault = side == "predicted" and outcome.status != "infrastructure"
                reason = f"{side} query in timing run {iteration + 1}: {outcome.status.value}"
                return Score(0.0 if fault else None, reason)
            ms[side] = outcome.ms
        ratios.append(ms["gold"] / ms["predicted"])
    return fmean(trimmed(ratios))


def trimmed(values: Sequence[float]) -> list[float]:
    """The values less than three standard deviations (of the population) from the mean; equal values all stay.

    Of fewer than ten values none can be that far away, so a few iterations are not trimmed at all. The official
    scripts drop every value where all are equal, divide by zero, and score the question 0.
    """
    mean, deviation = fmean(values), pstdev(values)
    if deviation == 0:
        return list(values)
    return [value for value in values if abs(value - mean) < 3 * deviation]
