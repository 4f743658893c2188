"""`strict`: execution accuracy by multisets of rows."""

from __future__ import annotations

from serl.evaluate.judged import Judged, Score
from serl.sql import compare


def strict(judged: Judged) -> Score:
    """1 if the two results have equal rows, in the same order where gold's outermost query asks for one."""
    ordered = compare.is_ordered(judged.example.gold_sql)
    return Score.of(compare.strict(judged.predicted, judged.gold, ordered))
