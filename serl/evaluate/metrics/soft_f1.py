"""`soft_f1`: BIRD's Soft F1 as the official script has it, rows paired by position.

Source: `calculate_f1_score` in evaluation_f1.py of BIRD's mini_dev repository. Duplicate rows are dropped, each
result keeping the order in which its rows first came. Row i of the prediction is paired with row i of gold, b being
the number of gold's columns:

    match     = cells of the prediction's row that occur in gold's row        / b
    pred_only = cells of the prediction's row that do not                     / b
    gold_only = cells of gold's row that do not occur in the prediction's     / b

A row without a partner counts 1 as pred_only or gold_only. With tp, fp, fn the sums of the three over all rows,

    precision = tp / (tp + fp)    recall = tp / (tp + fn)    F1 = 2 · precision · recall / (precision + recall)

where 0/0 is 0; two results without rows score 1. A split's score is the mean over questions.

What it does that its name does not say, all of it kept here:
- Order counts also where gold asks for none: the three rows of a right answer reversed score 1/3.
- Position in the row does not count: (1, 2) for (2, 1) scores 1.
- A cell is looked for, not used up: (1, 1) for (1, 2) has match 1, and (1, 1, 1) for (1, 2) has match 1.5.
- Duplicate rows are free. Floats are compared exactly.
- A row that is too much weighs 1 however wide it is, while cells that are too many in a paired row weigh 1/b each.

An early version of the script kept the rows in the order of a Python set, which for text changes from one process
to the next: scores made with it cannot be reproduced. `soft_f1_order_free` has the pairing that rows deserve.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from serl.evaluate.judged import Score
from serl.sql.compare.matching import Row

if TYPE_CHECKING:
    from serl.evaluate.judged import Judged

Shares = tuple[float, float, float]
"""match, pred_only and gold_only of one row."""


def soft_f1(judged: Judged) -> Score:
    """Soft F1 of one question, in [0, 1]; 0 where the prediction did not run."""
    if not judged.predicted.ran:
        return Score(0.0, f"prediction has no result: {judged.predicted.status.value}")
    return Score(positional_f1(judged.predicted.rows, judged.gold.rows), "rows paired by position")


def positional_f1(pred: Sequence[Row], gold: Sequence[Row]) -> float:
    """The official Soft F1 of two results."""
    if not pred and not gold:
        return 1.0
    pred, gold = distinct(pred), distinct(gold)
    return f1(map(row_shares, pred, gold), abs(len(pred) - len(gold)))


def distinct(rows: Iterable[Row]) -> list[Row]:
    """The rows without repetitions, each where it first came."""
    return list(dict.fromkeys(rows))


def row_shares(pred_row: Row, gold_row: Row) -> Shares:
    """The shares of two paired rows."""
    found = sum(cell in gold_row for cell in pred_row)
    missed = sum(cell not in pred_row for cell in gold_row)
    columns = len(gold_row) or 1  # PostgreSQL has rows without columns
    return found / columns, (len(pred_row) - found) / columns, missed / columns


def f1(pairs: Iterable[Shares], unpaired: int) -> float:
    """F1 of the paired rows' shares and the number of rows without a partner.

    2PR/(P+R) of the docstring above, in the form that needs no case for 0/0: F1 is symmetric in fp and fn.
    """
    tp, errors = 0.0, float(unpaired)
    for match, pred_only, gold_only in pairs:
        tp += match
        errors += pred_only + gold_only
    return 2 * tp / (2 * tp + errors) if tp else 0.0
