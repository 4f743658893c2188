"""Equality of cells, rows and multisets of rows where floats are equal within a tolerance.

Equality within a tolerance is not transitive, so no key to sort or hash by gives the right answer for
multisets: rounding tears apart values on either side of a boundary. What is asked for is a perfect
matching between two sets of rows. Rows are first put into buckets by their exact cells; inside a bucket
sorting finds the matching nearly always. What is left is cut where the values of a column have a gap, and the
parts are decided by a bipartite matching (Hopcroft-Karp, from SciPy).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

REL_TOL = 1e-6
MAX_PAIRS = 5_000_000
"""Close pairs of rows within one part above which a matching is not searched for: some seconds, 25 MB."""

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

    All rows have the same number of cells. False also for results that no query returns by chance: thousands of
    rows, all but equal to each other in every column, with more than MAX_PAIRS close pairs that sorting does not match.
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
    return all(map(rows_close, left, right)) or all(
        len(some) == len(others) and _perfect_matching(some, others) for some, others in _parts(left, right)
    )


def _parts(left: list[Row], right: list[Row]) -> Iterator[tuple[list[Row], list[Row]]]:
    """Cut both lists where neighbouring values of a column are not close: no pair is close across such a gap."""
    rows = [(row, side) for side, some in enumerate((left, right)) for row in some]
    for column in range(len(rows[0][0])):
        rows.sort(key=lambda item: item[0][column])
        gaps = [i for i, (a, b) in enumerate(pairwise(rows), 1)
                if not math.isclose(a[0][column], b[0][column], rel_tol=REL_TOL)]  # fmt: skip
        if gaps:
            for start, end in pairwise((0, *gaps, len(rows))):
                part: tuple[list[Row], list[Row]] = [], []
                for row, side in rows[start:end]:
                    part[side].append(row)
                if all(part):
                    yield from _parts(*part)
                else:
                    yield part
            return
    yield left, right


def _perfect_matching(left: list[Row], right: list[Row]) -> bool:
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import maximum_bipartite_matching

    codes: dict[int, int] = {}
    left_values, left_codes = _arrays(left, codes)
    right_values, right_codes = _arrays(right, codes)
    neighbours, total = [], 0
    for values, ints in zip(left_values, left_codes):
        near = np.abs(right_values - values) <= REL_TOL * np.maximum(np.abs(right_values), np.abs(values))
        both_int = (right_codes >= 0) & (ints >= 0)
        found = np.flatnonzero((near & (~both_int | (right_codes == ints))).all(axis=1)).astype(np.int32)
        total += len(found)
        if not len(found) or total > MAX_PAIRS:
            return False
        neighbours.append(found)
    starts = np.cumsum([0, *map(len, neighbours)], dtype=np.int32)
    graph = csr_array((np.ones(total, dtype=np.int8), np.concatenate(neighbours), starts), (len(left), len(right)))
    return bool((maximum_bipartite_matching(graph, perm_type="column") >= 0).all())


def _arrays(rows: list[Row], codes: dict[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Values as floats, and a code for each integer (-1: a float), because integers are equal exactly or not at all."""
    values = np.array(rows, dtype=np.float64)
    ints = [[codes.setdefault(cell, len(codes)) if isinstance(cell, int) else -1 for cell in row] for row in rows]
    return values, np.array(ints, dtype=np.int64)
