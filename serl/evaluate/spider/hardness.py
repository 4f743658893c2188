"""Spider's hardness of a query: easy, medium, hard or extra, counted from its clauses.

Two of the official counts look odd and are kept, because the levels are defined by them: negated conditions and the
words between HAVING's conditions count as aggregates, and two queries that differ only in a subquery inside FROM
have the same hardness.
"""

from __future__ import annotations

from serl.evaluate.spider.query import Column, Query

LEVELS = ("easy", "medium", "hard", "extra")


def hardness(query: Query) -> str:
    """One of LEVELS."""
    parts, nested, others = _parts(query), len(query.nested), _others(query)
    if nested == 0:
        if parts <= 1 and others == 0:
            return "easy"
        if (parts <= 1 and others <= 2) or (parts <= 2 and others < 2):
            return "medium"
        if (parts <= 2 and others > 2) or (parts == 3 and others <= 2):
            return "hard"
    return "hard" if nested == 1 and parts <= 1 and others == 0 else "extra"


def _parts(query: Query) -> int:
    """Clauses, joins, ORs and LIKEs."""
    connectors = query.joins.connectors + query.where.connectors + query.having.connectors
    clauses = sum(map(bool, (query.where, query.group, query.order, query.limit)))
    likes = sum(unit.operator == "like" for unit in query.conditions)
    return clauses + len(query.tables) - 1 + connectors.count("or") + likes


def _others(query: Query) -> int:
    """How many of these there are more than one of: aggregates, selected columns, conditions, grouped columns."""
    return sum(
        count > 1
        for count in (_aggregates(query), len(query.select), len(query.where.units), len(query.group))
    )


def _aggregates(query: Query) -> int:
    columns: list[Column] = [*query.group, *(column for term in query.order for column in term.columns)]
    odd = sum(unit.negated for unit in query.where.units + query.having.units) + len(query.having.connectors)
    return sum(bool(part.aggregate) for part in (*query.select, *columns)) + odd
