"""Equality of cells, rows and multisets of rows where floats are equal within a tolerance.

Equality within a tolerance is not transitive, so no key to sort or hash by gives the right answer for
multisets: rounding tears apart values on either side of a boundary. What is asked for is a perfect
matching between two sets of rows. Rows are first put into buckets by their exact cells; inside a bucket
sorting finds the matching nearly always, and augmenting paths (Kuhn's algorithm) decide the rest.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

REL_TOL = 1e-6

Row = tuple[Any, ...]


def cells_close(a: Any, b: Any) -> bool:
    """Whether two cells are equal: floats within REL_TOL of any number, NaN with NaN, the rest exactly.

    Two integers are never merely close: 1000000 and 1000001 are different keys.
    """
    if isinstance(a, float) or isinstance(b, float):
        if _is_number(a) and _is_number(b):
            return math.isclose(a, b, rel_tol=REL_TOL) or (math.isnan(a) and math.isnan(b))
        return False
    return a == b


def rows_close(a: Row, b: Row) -> bool:
    """Whether two rows have the same length and equal cells."""
    return len(a) == len(b) and all(map(cells_close, a, b))


def same_multiset(left: Sequence[Row], right: Sequence[Row]) -> bool:
    """Whether the rows of `left` can be paired off with those of `right`, each pair being close.

    All rows have the same number of cells.
    """
    if len(left) != len(right):
        return False
    rows = (*left, *right)
    float_columns = {i for row in rows for i, cell in enumerate(row) if isinstance(cell, float)}
    left_buckets = _buckets(left, float_columns)
    right_buckets = _buckets(right, float_columns)
    return left_buckets.keys() == right_buckets.keys() and all(
        _pair_off(bucket, right_buckets[exact]) for exact, bucket in left_buckets.items()
    )


def _is_number(cell: Any) -> bool:
    return isinstance(cell, (int, float))


def _buckets(rows: Sequence[Row], float_columns: set[int]) -> dict[Row, list[Row]]:
    """Rows by the cells that must be equal exactly. Values are what is left: the rows' close numbers."""
    buckets = defaultdict(list)
    for row in rows:
        close = [
            i in float_columns and _is_number(cell) and math.isfinite(cell) for i, cell in enumerate(row)
        ]
        exact = tuple(_NUMBER if c else _exact(cell) for c, cell in zip(close, row))
        buckets[exact].append(tuple(cell for c, cell in zip(close, row) if c))
    return buckets


_NUMBER = object()  # stands in a bucket's key for a number that is compared with a tolerance
_NAN = object()  # NaN is unequal to itself; as a key it must not be


def _exact(cell: Any) -> Any:
    return _NAN if isinstance(cell, float) and math.isnan(cell) else cell


def _pair_off(left: list[Row], right: list[Row]) -> bool:
    """Whether two lists of rows of numbers have a perfect matching."""
    if len(left) != len(right):
        return False
    left, right = sorted(left), sorted(right)
    return all(map(rows_close, left, right)) or _perfect_matching(left, right)


def _perfect_matching(left: list[Row], right: list[Row]) -> bool:
    # Only rows whose value in one column is near can be close; the most varied column leaves the fewest.
    column = max(range(len(right[0])), key=lambda i: len({row[i] for row in right}))
    right = sorted(right, key=lambda row: row[column])
    values = [row[column] for row in right]
    neighbours: list[list[int]] = []
    for row in left:
        margin = 2 * REL_TOL * abs(row[column])
        first = bisect_left(values, row[column] - margin)
        last = bisect_right(values, row[column] + margin)
        neighbours.append([j for j in range(first, last) if rows_close(row, right[j])])
        if not neighbours[-1]:
            return False
    partner_of_right: list[int | None] = [None] * len(right)
    return all(_augment(i, neighbours, partner_of_right) for i in range(len(left)))


def _augment(start: int, neighbours: list[list[int]], partner_of_right: list[int | None]) -> bool:
    """Match left row `start`, moving earlier matches along an augmenting path; False if there is none."""
    reached_from: dict[int, int] = {}  # right row -> left row that the search came from
    came_by: dict[int, int | None] = {start: None}  # left row -> right row that it was matched with
    todo = [start]
    for i in todo:
        for j in neighbours[i]:
            if j in reached_from:
                continue
            reached_from[j] = i
            partner = partner_of_right[j]
            if partner is None:
                _flip(j, reached_from, came_by, partner_of_right)
                return True
            came_by[partner] = j
            todo.append(partner)
    return False


def _flip(
    free: int,
    reached_from: dict[int, int],
    came_by: dict[int, int | None],
    partner_of_right: list[int | None],
) -> None:
    """Match every left row on the path that ends at right row `free` with the right row after it."""
    j: int | None = free
    while j is not None:
        i = reached_from[j]
        partner_of_right[j] = i
        j = came_by[i]
