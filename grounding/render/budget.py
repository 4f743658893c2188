"""What of a schema goes where it does not fit: the one place that measures tokens.

Samples go first, then descriptions of columns without evidence, then all descriptions, then columns one by one, in the
order of `grounding.budget`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from grounding.render.shown import Shown

Place = tuple[str, str]
"""A column as (table, column), as they are stored."""
_STEPS_BEFORE_COLUMNS = 3


def fit(
    tables: Sequence[Shown],
    removal: Sequence[Place],
    write: Callable[[Sequence[Shown]], str],
    budget: int | None,
    count_tokens: Callable[[str], int],
) -> tuple[str, Sequence[Place]] | None:
    """The text with as few cuts as bring it within the budget, and the columns that are not in it.

    `removal` are all columns, the most dispensable first. None where the last of them alone exceeds the budget.
    """
    if budget is None:
        return write(tables), ()
    fewest, most = 0, _STEPS_BEFORE_COLUMNS + len(removal) - 1  # cuts; at least one column stays
    text = write(cut_tables(tables, most, removal))
    if count_tokens(text) > budget:
        return None
    while fewest < most:  # every cut makes the text shorter: look for the first that fits
        middle = (fewest + most) // 2
        longer = write(cut_tables(tables, middle, removal))
        if count_tokens(longer) <= budget:
            most, text = middle, longer
        else:
            fewest = middle + 1
    return text, removal[: max(0, most - _STEPS_BEFORE_COLUMNS)]


def cut_tables(tables: Sequence[Shown], cuts: int, removal: Sequence[Place]) -> list[Shown]:
    """The tables after the first `cuts` steps: samples, idle descriptions, descriptions, then column by column."""
    gone = set(removal[: max(0, cuts - _STEPS_BEFORE_COLUMNS)])
    shortened = []
    for table in tables:
        columns = tuple(
            replace(
                column,
                samples=column.samples if cuts < 1 else (),
                description=column.description if cuts < (3 if column.has_evidence else 2) else "",
            )
            for column in table.columns
            if (table.stored_name, column.stored_name) not in gone
        )
        if columns:
            shortened.append(replace(table, columns=columns))
    return shortened
