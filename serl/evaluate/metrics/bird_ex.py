"""`bird_ex`: BIRD's execution accuracy."""

from __future__ import annotations

from serl.evaluate.judged import Judged, Score
from serl.sql import compare


def bird_ex(judged: Judged) -> Score:
    """1 if the two results have the same set of rows."""
    return Score.of(compare.bird_ex(judged.predicted, judged.gold))
