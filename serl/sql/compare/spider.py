"""`spider_ex`: the execution accuracy of Spider's official test-suite evaluation, on one database.

Both queries are run as `spider_text.prepare` makes them: without DISTINCT, unless `keep_distinct`. Their results are
equal if some order of the prediction's columns makes its rows gold's; as multisets, or row by row where "order by"
stands anywhere in gold, also in a subquery. Column names do not count, cells are equal as Python has it (no tolerance
for floats), text that is not UTF-8 is compared by the characters that are valid, and two empty results are equal
whatever their columns. With `plug_value` gold's literals are also tried in place of the prediction's own, in every
way, and any one that matches counts: at most MAX_PLUGGED of them, and none after one that ran into the time limit.

Faults of the official script that are copied with `compat` only:

- "value" in a prediction becomes "1", which breaks names such as `treatment_value`;
- of several statements the first is run; here they are refused, as by everyone who executes them;
- DISTINCT goes from `IS DISTINCT FROM` as well;
- before anything else, each row's cells are sorted by their text, and the results must then be equal; 1 and 1.0 have
  different texts, so that a row such as (1.0, 10) is found different from (1, 10), though equal by the rule itself.

Not copied at all: predictions that change the database (the sandbox runs them read-only, and denies them), a query
that fails because the script's time limit does not fire, and the crash of the whole evaluation on a gold that fails
(it matches nothing here, and its question should be left out).

Source: Zhong et al. 2020, "Semantic evaluation for text-to-SQL with distilled test suites" and its code.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from serl.sql.compare.permuted import Row, same_up_to_columns
from serl.sql.compare.spider_text import plugged, prediction_text, prepare
from serl.sql.compare.verdict import Verdict, without_result
from serl.sql.outcome import Outcome, Status

MAX_PLUGGED = 4096
"""How many ways to plug in gold's literals are tried at most."""


def spider_ex(
    pred_sql: str,
    gold_sql: str,
    run: Callable[[str], Outcome],
    *,
    keep_distinct: bool = False,
    plug_value: bool = False,
    compat: bool = False,
) -> Verdict:
    """Whether the prediction's result equals gold's; `run` runs one statement on the question's database."""
    gold_sql = prepare(gold_sql, keep_distinct, compat)
    pred_sql = prepare(prediction_text(pred_sql) if compat else pred_sql, keep_distinct, compat)
    gold = run(gold_sql)
    ordered = "order by" in gold_sql.lower()
    pred = run(pred_sql)
    verdict = same_result(pred, gold, ordered, compat)
    if verdict.match or not plug_value or not gold.ran:
        return verdict
    for text in itertools.islice(plugged(pred_sql, gold_sql), MAX_PLUGGED):
        if pred.status is Status.TIMEOUT:  # one is enough: others differ in their literals only
            break
        pred = run(text)
        if same_result(pred, gold, ordered, compat).match:
            return Verdict(True, "same rows with gold's values")
    return verdict


def same_result(pred: Outcome, gold: Outcome, ordered: bool, compat: bool = False) -> Verdict:
    """The rule for two results alone; `ordered`: row by row."""
    verdict = without_result(pred, gold)
    if verdict is not None:
        return verdict
    if not pred.rows and not gold.rows:
        return Verdict(True, "both are empty")
    if len(pred.rows) != len(gold.rows):
        return Verdict(False, f"{len(pred.rows)} rows, gold has {len(gold.rows)}")
    if len(pred.columns) != len(gold.columns):
        return Verdict(False, f"{len(pred.columns)} columns, gold has {len(gold.columns)}")
    left, right = _without_broken_text(gold.rows), _without_broken_text(pred.rows)
    if compat and not _same_by_text(left, right, ordered):
        return Verdict(False, "different rows by the text of their cells")
    if same_up_to_columns(left, right, ordered):
        return Verdict(True, "same rows")
    if ordered and same_up_to_columns(left, right, ordered=False):
        return Verdict(False, "same rows in another order")
    return Verdict(False, "different rows")


def _without_broken_text(rows: Sequence[Row]) -> Sequence[Row]:
    """Without the characters that stand for bytes that are no UTF-8: the official script drops such bytes."""
    if not any(isinstance(cell, str) and "\ufffd" in cell for row in rows for cell in row):
        return rows
    return [tuple(cell.replace("\ufffd", "") if isinstance(cell, str) else cell for cell in row) for row in rows]


def _same_by_text(left: Sequence[Row], right: Sequence[Row], ordered: bool) -> bool:
    def by_text(row: Row) -> Row:
        return tuple(sorted(row, key=_text))

    left, right = [by_text(row) for row in left], [by_text(row) for row in right]
    return left == right if ordered else set(left) == set(right)


def _text(cell: Any) -> str:
    return f"{cell}{type(cell)}"
