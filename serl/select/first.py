"""Take the first candidate: one sample without selection, the baseline of every other selector."""

from __future__ import annotations

from collections.abc import Sequence

from serl.select.candidate import Candidate


def pick(candidates: Sequence[Candidate]) -> int | None:
    """Index of the first candidate, even one that failed; None when there are none."""
    return 0 if candidates else None
