"""A result as a table for a terminal: one line a row, without what a terminal would obey.

    name   total
    -----  -----
    Ann    2
    ... 40 more rows
"""

from __future__ import annotations

import re

from serl.sql.outcome import Outcome

WIDTH = 40  # characters of a cell
# Control characters of both ranges, halves of surrogate pairs, and what turns the direction of writing.
_OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def table(outcome: Outcome, rows: int) -> list[str]:
    """Header, line and the first `rows` rows, then how many more there are; no lines where there are no columns."""
    if not outcome.columns:
        return []
    texts = [[cell(value) for value in row] for row in (outcome.columns, *outcome.rows[:rows])]
    widths = [max(map(len, column)) for column in zip(*texts)]
    lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in texts]
    lines.insert(1, "  ".join("-" * width for width in widths))
    if outcome.row_count > min(rows, len(outcome.rows)):
        lines.append(f"... {outcome.row_count - min(rows, len(outcome.rows))} more rows")
    return lines


def cell(value: object) -> str:
    """One cell on one line, cut to WIDTH characters."""
    text = "NULL" if value is None else printable(" ".join(str(value).split()))
    return text if len(text) <= WIDTH else f"{text[: WIDTH - 3]}..."


def printable(text: str) -> str:
    """The text with what a terminal would obey made visible; tabs and line breaks stay.

    >>> printable("a\\x1b[2Jb\\n")
    'a\ufffd[2Jb\\n'
    """
    return _OBEYED.sub("\ufffd", text)
