"""The assignment problem, for the few things that a list of SQL holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence

_EXACT = 9  # rows or columns up to which it is solved exactly


def best_pairs(rows: Sequence[int], columns: Sequence[int], gain: Callable[[int, int], float]
               ) -> list[tuple[int, int]]:
    """Pairs of the greatest sum of gains, no row or column twice, none without a gain.

    Exact up to nine columns or rows; beyond, the greatest gain is taken first.

    >>> best_pairs([0, 1], [0, 1], lambda i, j: [[3.0, 2.0], [2.0, 0.0]][i][j])
    [(0, 1), (1, 0)]
    """
    if len(columns) > len(rows):
        return sorted((i, j) for j, i in best_pairs(columns, rows, lambda j, i: gain(i, j)))
    if len(columns) > _EXACT:
        pairs: dict[int, int] = {}
        for negative, i, j in sorted((-gain(i, j), i, j) for i in rows for j in columns):
            if negative < 0 and i not in pairs and j not in pairs.values():
                pairs[i] = j
        return sorted(pairs.items())
    best: dict[int, tuple[float, tuple[tuple[int, int], ...]]] = {0: (0.0, ())}  # by the set of columns used
    for i in rows:
        for used, (total, pairs) in list(best.items()):
            for place, j in enumerate(columns):
                more = 0.0 if used >> place & 1 else gain(i, j)
                after = used | 1 << place
                if more > 0 and (after not in best or total + more > best[after][0] + 1e-9):
                    best[after] = (total + more, (*pairs, (i, j)))
    return list(max(best.values(), key=lambda entry: entry[0])[1])
