"""Oracle: a correct candidate whenever one was sampled.

It needs the gold answer, so it is no selector: it bounds from above what any selector could reach on
these candidates. Its rate is "oracle@N" (pass@N) and is never called accuracy.
"""

from __future__ import annotations

from collections.abc import Sequence

from serl.select.candidate import Candidate


def pick(candidates: Sequence[Candidate]) -> int | None:
    """Index of the first correct candidate; None when none is correct."""
    return next((index for index, candidate in enumerate(candidates) if candidate["correct"]), None)
