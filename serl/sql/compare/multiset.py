"""`strict`: equal multisets of rows, the comparator that rewards are made of.

Duplicates count, the number of columns counts even where there are no rows, and the order of the rows
counts where gold asks for one. Column names do not count. Cells are equal as SQL has it: text, blobs and
integers exactly, NULL with NULL, and a float with any number within a relative 1e-6 (math.isclose).
"""

from __future__ import annotations

from collections import Counter

from serl.sql.compare.matching import rows_close, same_multiset
from serl.sql.compare.verdict import Verdict, without_result
from serl.sql.outcome import Outcome


def strict(pred: Outcome, gold: Outcome, ordered: bool) -> Verdict:
    """Whether the results have equal rows; `ordered`: in the same order (see `is_ordered(gold_sql)`)."""
    verdict = without_result(pred, gold)
    if verdict is not None:
        return verdict
    if len(pred.columns) != len(gold.columns):
        return Verdict(False, f"{len(pred.columns)} columns, gold has {len(gold.columns)}")
    if len(pred.rows) != len(gold.rows):
        return Verdict(False, f"{len(pred.rows)} rows, gold has {len(gold.rows)}")
    if pred.rows == gold.rows or (ordered and all(map(rows_close, pred.rows, gold.rows))):
        return Verdict(True, "same rows")
    if Counter(pred.rows) != Counter(gold.rows) and not same_multiset(pred.rows, gold.rows):
        return Verdict(False, "different rows")
    if ordered:
        return Verdict(False, "same rows in another order")
    return Verdict(True, "same rows")
