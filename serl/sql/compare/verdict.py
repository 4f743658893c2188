"""What a comparator says, and the cases that all comparators judge alike."""

from __future__ import annotations

from dataclasses import dataclass

from serl.sql.outcome import Outcome


@dataclass(frozen=True)
class Verdict:
    """Whether a prediction counts as right, and a short reason."""

    match: bool
    reason: str


def without_result(pred: Outcome, gold: Outcome) -> Verdict | None:
    """The verdict where one side has no whole result, None where both ran.

    A gold that failed matches nothing, not even a prediction that failed in the same way; such samples
    should not be scored at all.
    """
    if not gold.ran:
        return Verdict(False, f"gold has no result: {gold.status.value}")
    if not pred.ran:
        return Verdict(False, f"prediction has no result: {pred.status.value}")
    return None
