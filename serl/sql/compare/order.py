"""Does a query promise an order of its rows?"""

from __future__ import annotations

from functools import lru_cache

from serl.sql.statement import tokens


@lru_cache(maxsize=16_384)
def is_ordered(sql: str) -> bool:
    """Whether the outermost query has ORDER BY.

    Subqueries, CTEs, window definitions and ordered aggregates all stand in parentheses, so this is an
    ORDER BY outside every parenthesis. That needs tokens but no parser, and so works for every query.

    >>> is_ordered("SELECT a FROM t UNION SELECT a FROM u ORDER BY a")
    True
    >>> is_ordered("SELECT a FROM (SELECT a FROM t ORDER BY b LIMIT 1) -- ORDER BY a")
    False
    """
    depth = 0
    previous = ""
    for token in tokens(sql):
        text = token.group().upper()
        if text == "(":
            depth += 1
        elif text == ")":
            depth -= 1
        elif depth == 0 and text == "BY" and previous == "ORDER":
            return True
        previous = text
    return False
