"""Equality of two results up to the order of their columns, and of their rows where that does not count.

Trying every permutation of columns is hopeless for a wide result. Columns are assigned one by one instead, and an
assignment is dropped as soon as the rows cut down to the assigned columns are not the same multiset. That alone goes
through all of them where few columns together look alike and only the whole rows differ (rows of 0 and 1, of an even
sum on one side and an odd one on the other), so rows must first be equal up to the order of their own cells.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

Row = tuple[Any, ...]


def same_up_to_columns(left: Sequence[Row], right: Sequence[Row], ordered: bool) -> bool:
    """Whether some order of `right`'s columns makes its rows equal to `left`'s; `ordered`: row by row.

    Both have at least one row; all rows of one side have the same number of cells. Cells are equal as Python has
    it: 1 and 1.0 are, "1" and 1 are not.
    """
    if len(left) != len(right) or len(left[0]) != len(right[0]):
        return False
    columns_left, columns_right = list(zip(*left)), list(zip(*right))
    if ordered:  # a permutation exists if and only if the columns are the same multiset
        return Counter(columns_left) == Counter(columns_right)
    if Counter(left) == Counter(right):
        return True
    bags_left, bags_right = (_bags(columns) for columns in (columns_left, columns_right))
    if Counter(bags_left) != Counter(bags_right) or Counter(_bags(left)) != Counter(_bags(right)):
        return False
    candidates = [[j for j, bag in enumerate(bags_right) if bag == wanted] for wanted in bags_left]
    return _assign([], columns_left, columns_right, candidates)


def _bags(vectors: Sequence[Row]) -> list[frozenset[tuple[Any, int]]]:
    """Each column, or row, as its values with their counts."""
    return [frozenset(Counter(vector).items()) for vector in vectors]


def _assign(chosen: list[int], left: Sequence[Row], right: Sequence[Row], candidates: list[list[int]]) -> bool:
    """Whether the columns of `right` in `chosen`, put in place of the first of `left`, can be completed."""
    done = len(chosen)
    if done == len(left):
        return True
    wanted = Counter(zip(*left[: done + 1]))
    tried: set[Row] = set()  # equal columns are interchangeable
    for column in candidates[done]:
        if column in chosen or right[column] in tried:
            continue
        tried.add(right[column])
        if Counter(zip(*(right[j] for j in (*chosen, column)))) == wanted and _assign(
            [*chosen, column], left, right, candidates
        ):
            return True
    return False
