"""Take the answer that was decoded greedily: what sampling and selection have to beat, for one answer's tokens."""

from __future__ import annotations

from collections.abc import Sequence

from serl.select.candidate import Candidate


def pick(candidates: Sequence[Candidate]) -> int | None:
    """Index of the greedy candidate, even one that failed; None when there is none."""
    return next((index for index, candidate in enumerate(candidates) if candidate.greedy), None)
