"""Oracle: a correct candidate whenever one was sampled.

It needs the gold answer, so it is no selector: it bounds from above what any selector could reach on
these candidates. Its rate is "oracle@N" (pass@N) and is never called accuracy. It takes another type than selectors,
which only evaluation can make, and refuses theirs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from serl.select.candidate import Candidate


@dataclass(frozen=True, slots=True)
class Marked:
    """A candidate with gold's verdict. No selector takes it."""

    candidate: Candidate
    correct: bool


def pick(marked: Sequence[Marked]) -> int | None:
    """Index of the first correct candidate; None when none is correct. TypeError for candidates without a verdict."""
    if not all(isinstance(each, Marked) for each in marked):
        raise TypeError("the oracle needs gold's verdict on each candidate, which there is in evaluation only")
    return next((index for index, each in enumerate(marked) if each.correct), None)
