"""`soft_f1_order_free`: BIRD's Soft F1 with rows paired as well as can be, instead of by position. Ours.

Everything but the pairing is as in `soft_f1`, so that the difference of the two is what order alone cost. Among all
ways to pair the smaller result's every row with one row of the other, the one with the highest F1 counts; it is
never below `soft_f1`, and 1 for the right rows in any order.

F1 = 2·tp / (2·tp + fp + fn) is a ratio of two sums over pairs. Dinkelbach's method (Management Science 13, 1967)
maximizes it: from a score λ that some pairing has, the pairing with the largest Σ 2·match − λ·(2·match + pred_only +
gold_only) has a higher F1 or proves λ the best. Each step is a linear assignment; one or two do.

Cost: rows that both results have are paired off first. An assignment of BLOCK × BLOCK rows takes about 0.1 s; where
more rows are left they are sorted and paired within consecutive blocks of BLOCK, so that cost grows linearly and
the score is a lower bound, which its reason says.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from serl.evaluate.judged import Score
from serl.evaluate.metrics.soft_f1 import Shares, distinct, f1, positional_f1, row_shares
from serl.sql.compare.matching import Row

if TYPE_CHECKING:
    import numpy as np

    from serl.evaluate.judged import Judged

BLOCK = 1_000
"""Most rows on either side that are paired in one assignment."""


def soft_f1_order_free(judged: Judged) -> Score:
    """Order-free Soft F1 of one question, in [0, 1]; 0 where the prediction did not run."""
    if not judged.predicted.ran:
        return Score(0.0, f"prediction has no result: {judged.predicted.status.value}")
    score, exact = best_f1(judged.predicted.rows, judged.gold.rows)
    return Score(score, "rows paired best" if exact else f"rows paired best within blocks of {BLOCK}: a lower bound")


def best_f1(pred: Sequence[Row], gold: Sequence[Row], block: int = BLOCK) -> tuple[float, bool]:
    """The best pairing's F1, and whether every pairing was looked at (else it is a lower bound)."""
    best = positional_f1(pred, gold)
    pred, gold = distinct(pred), distinct(gold)
    if best == 1.0 or not any(pred) or not any(gold):  # nothing to pair, or rows without columns
        return best, True
    same, pred, gold = _pair_off(pred, gold)
    unpaired = abs(len(pred) - len(gold))
    settled = [row_shares(row, row) for row in same]
    blocks = [(p, g, _shares(p, g)) for p, g in _blocks(pred, gold, block)]
    while True:
        pairs = [pair for p, g, shares in blocks for pair in _best_pairs(p, g, shares, best)]
        score = f1(settled + pairs, unpaired)
        if score <= best + 1e-12:
            return best, max(len(pred), len(gold)) <= block
        best = score


def _pair_off(pred: list[Row], gold: list[Row]) -> tuple[list[Row], list[Row], list[Row]]:
    """Rows in both, and what is left of each.

    That no better pairing is lost needs rows without repeated cells: with x, y, z sets of cells,
    |x ∩ y| + |z ∩ x| ≤ |x| + |z ∩ y|. A repeated cell is looked for more than once, so then nothing is paired off.
    """
    if any(len(set(row)) < len(row) for row in (*pred, *gold)):
        return [], pred, gold
    in_pred, in_gold = set(pred), set(gold)
    same = [row for row in pred if row in in_gold]
    return same, [row for row in pred if row not in in_gold], [row for row in gold if row not in in_pred]


def _blocks(pred: list[Row], gold: list[Row], block: int) -> Iterator[tuple[list[Row], list[Row]]]:
    """The rows in blocks that are paired within themselves. Rows without a partner are in none."""
    if max(len(pred), len(gold)) > block:
        pred, gold = sorted(pred, key=_sort_key), sorted(gold, key=_sort_key)
    for start in range(0, min(len(pred), len(gold)), block):
        yield pred[start : start + block], gold[start : start + block]


def _sort_key(row: Row) -> tuple[tuple[str, Any], ...]:
    """Any order that is the same for both results, of cells of any type."""
    return tuple(map(_cell_key, row))


def _cell_key(cell: Any) -> tuple[str, Any]:
    if cell is None:
        return "", 0
    return ("number" if isinstance(cell, (int, float)) else type(cell).__name__), cell


def _shares(pred: list[Row], gold: list[Row]) -> tuple[np.ndarray, np.ndarray]:
    """`row_shares` of every pair of rows: match_PG and pred_only_PG + gold_only_PG."""
    ids: dict[Any, int] = {}
    for row in (*pred, *gold):
        for cell in row:
            ids.setdefault(cell, len(ids))
    pred_counts_PV, gold_counts_GV = _counts(pred, ids), _counts(gold, ids)
    columns = len(gold[0])
    found_PG = (pred_counts_PV @ gold_counts_GV.sign().T).toarray()
    found_of_gold_PG = (pred_counts_PV.sign() @ gold_counts_GV.T).toarray()
    errors_PG = (len(pred[0]) - found_PG + columns - found_of_gold_PG) / columns
    return found_PG / columns, errors_PG


def _counts(rows: list[Row], ids: dict[Any, int]):
    """Sparse matrix: how often each value occurs in each row."""
    from scipy.sparse import csr_array

    entries = [(i, ids[cell], count) for i, row in enumerate(rows) for cell, count in Counter(row).items()]
    rows_at, values_at, counts = zip(*entries)
    return csr_array((counts, (rows_at, values_at)), shape=(len(rows), len(ids)), dtype=float)


def _best_pairs(
    pred: list[Row], gold: list[Row], shares: tuple[np.ndarray, np.ndarray], score: float
) -> list[Shares]:
    """The shares of the pairs whose Σ 2·match − score·(2·match + errors) is largest."""
    from scipy.optimize import linear_sum_assignment

    match_PG, errors_PG = shares
    gain_PG = 2 * match_PG - score * (2 * match_PG + errors_PG)
    return [row_shares(pred[i], gold[j]) for i, j in zip(*linear_sum_assignment(gain_PG, maximize=True))]
