"""Levenshtein distance by bit-parallel dynamic programming (Myers, 1999; Hyyrö, 2003).

Bit i of `up` says that the distance grows by one from row i to i+1 of the current column of the usual table, bit i of
`down` that it shrinks; a column is one step of arithmetic on whole numbers, whatever the length of `left`.
"""

from __future__ import annotations


def edit_distance(left: str, right: str) -> int:
    """Least number of insertions, deletions and replacements that make one text the other.

    >>> edit_distance("kitten", "sitting"), edit_distance("", "abc")
    (3, 3)
    """
    if not left:
        return len(right)
    where: dict[str, int] = {}
    for place, character in enumerate(left):
        where[character] = where.get(character, 0) | 1 << place
    all_rows, last_row = (1 << len(left)) - 1, 1 << len(left) - 1
    up, down, distance = all_rows, 0, len(left)
    for character in right:
        equal = where.get(character, 0)
        diagonal = ((equal & up) + up ^ up) | equal | down
        right_up = down | ~(diagonal | up)
        right_down = up & diagonal
        distance += bool(right_up & last_row) - bool(right_down & last_row)
        right_up = right_up << 1 | 1
        right_down <<= 1
        up = (right_down | ~(diagonal | right_up)) & all_rows
        down = right_up & diagonal & all_rows
    return distance


def edit_similarity(left: str, right: str) -> float:
    """1 − distance / length of the longer text: 1 for equal texts, 0 for texts that share nothing."""
    longest = max(len(left), len(right))
    return 1 - edit_distance(left, right) / longest if longest else 1.0
