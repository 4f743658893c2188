"""How an answer's shape differs from gold's: counts, kinds of values and order, never a value, a name or SQL.

    3 rows, expected 2; column 2: text, expected number
"""

from collections.abc import Iterable

from serl.hindsight.teacher_only import GoldAnswer
from serl.sql.compare import is_ordered, strict
from serl.sql.compare.permuted import same_up_to_columns
from serl.sql.outcome import Outcome, Status

MAX_CELLS = 20_000
"""Of a result whose columns are tried in another order; a larger one is only compared as it stands."""


def differences(outcome: Outcome, gold: GoldAnswer) -> str:
    """The differences of an action's outcome from gold's, or that there are none; only gold's shape if it failed."""
    expected = gold.outcome
    if outcome.status not in (Status.OK, Status.EMPTY, Status.TOO_LARGE):
        return f"no result, expected {_count(expected.row_count, 'row')} and {_count(len(expected.columns), 'column')}"
    found = []
    if outcome.status is Status.TOO_LARGE or outcome.row_count != expected.row_count:
        more = "more than " if outcome.status is Status.TOO_LARGE else ""
        size = len(outcome.rows) if more else outcome.row_count
        found.append(f"{more}{_count(size, 'row')}, expected {expected.row_count}")
    if len(outcome.columns) != len(expected.columns):
        found.append(f"{_count(len(outcome.columns), 'column')}, expected {len(expected.columns)}")
    elif order := _order(outcome, gold):
        found.append(order)
    else:
        kinds = zip(_kinds(outcome), _kinds(expected))
        found += [f"column {number}: {own}, expected {wanted}" for number, (own, wanted) in enumerate(kinds, start=1)
                  if own != wanted and own and wanted]
    return "; ".join(found) or "the same shape"


def _order(outcome: Outcome, gold: GoldAnswer) -> str:
    """What is in another order, if the results are the same but for that."""
    expected, ordered = gold.outcome, is_ordered(gold.sql)
    if not outcome.rows or not outcome.ran or len(outcome.rows) != len(expected.rows):
        return ""
    if strict(outcome, expected, ordered).match:
        return ""
    if ordered and strict(outcome, expected, ordered=False).match:
        return "the rows are in another order"
    small = len(outcome.rows) * len(outcome.columns) <= MAX_CELLS
    permuted = small and same_up_to_columns(outcome.rows, expected.rows, ordered)
    return "the columns are in another order" if permuted else ""


def _kinds(outcome: Outcome) -> list[str]:
    """What each column holds; "" where it has nothing but NULL."""
    return [_kind(column) for column in zip(*outcome.rows)]


def _kind(column: Iterable) -> str:
    kinds = {"number" if isinstance(cell, (int, float)) else "text" if isinstance(cell, str) else "bytes"
             for cell in column if cell is not None}
    return "mixed" if len(kinds) > 1 else next(iter(kinds), "")


def _count(number: int, noun: str) -> str:
    """A number with its noun.

    >>> _count(1, "row"), _count(0, "row")
    ('1 row', '0 rows')
    """
    return f"{number} {noun}{'' if number == 1 else 's'}"
