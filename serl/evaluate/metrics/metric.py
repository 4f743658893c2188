"""One entry of the table of metrics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from serl.evaluate.judged import Judged, Score


def as_it_is(sql: str) -> str:
    """The text unchanged."""
    return sql


@dataclass(frozen=True)
class Metric:
    """A function from one judged question to its score, and what its caller must know of it."""

    score: Callable[[Judged], Score]
    executes: bool = True
    """Whether it needs gold's result; if so, it is not asked about a question whose gold did not run."""
    alone: bool = False
    """Whether nothing else may run meanwhile: for timings."""
    graded: bool = False
    """Whether it gives more than right (1) and wrong (0)."""
    text: Callable[[str], str] = as_it_is
    """What it runs in place of gold and of the prediction; run up front, so that its own calls find the outcomes."""

    def timed(self, iterations: int) -> Metric:
        """The same metric, with this number of timed runs a question where it times any."""
        return replace(self, score=partial(self.score, iterations=iterations)) if self.alone else self
