"""`bird_ex`: the official execution accuracy of BIRD, `set(predicted rows) == set(gold rows)`.

As lenient as the original: duplicates, order and column names do not count, and two empty results are
equal whatever their columns. As strict, too: 0.1 + 0.2 is not 0.3.
"""

from __future__ import annotations

from serl.sql.compare.verdict import Verdict, without_result
from serl.sql.outcome import Outcome


def bird_ex(pred: Outcome, gold: Outcome) -> Verdict:
    """Whether the two results have the same set of rows."""
    verdict = without_result(pred, gold)
    if verdict is not None:
        return verdict
    if set(pred.rows) == set(gold.rows):
        return Verdict(True, "same set of rows")
    return Verdict(False, "different sets of rows")
