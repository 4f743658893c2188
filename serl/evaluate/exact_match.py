"""Spider's exact match: two queries are equal if each of their clauses is, in the order-free way of the official one.

Not looked at: values in conditions, the number behind LIMIT, DISTINCT, aliases, the conditions of joins. A column is
equal to the one that its foreign key points to, whether or not that one's table is in FROM. Nested queries inside
conditions are looked at more closely: their own clauses must be written in the same order, with the same DISTINCTs
and without foreign keys taken into account. The two sides of a set operation are compared like outer queries.

Source: the evaluation script that comes with Spider (Yu et al. 2018) and test-suite-sql-eval, with DISABLE_VALUE and
DISABLE_DISTINCT as they ship.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from serl.evaluate.spider.query import Column, Condition, Conditions, Query, Selected, Term
from serl.evaluate.spider.schema import Schema


def differing_clauses(pred: Query, gold: Query, schema: Schema) -> list[str]:
    """Names of the clauses that differ, in the order of CLAUSES; none: an exact match."""
    pred, gold = (_canonical(query, _representatives(query, schema)) for query in (pred, gold))
    return _differing(pred, gold)


def _differing(pred: Query, gold: Query) -> list[str]:
    return [name for name, equal in CLAUSES.items() if not equal(pred, gold)]


def _same_select(pred: Query, gold: Query) -> bool:
    return Counter(pred.select) == Counter(gold.select)


def _same_where(pred: Query, gold: Query) -> bool:
    return Counter(pred.where.units) == Counter(gold.where.units)


def _same_and_or(pred: Query, gold: Query) -> bool:
    return set(pred.where.connectors) == set(gold.where.connectors)


def _same_group(pred: Query, gold: Query) -> bool:
    """Equal names of grouped columns; their tables do not count."""
    return Counter(map(_bare_name, pred.group)) == Counter(map(_bare_name, gold.group))


def _same_having(pred: Query, gold: Query) -> bool:
    """Official: part of grouping. Without GROUP BY on both sides, HAVING is not compared here."""
    if not pred.group or not gold.group:
        return bool(pred.group) == bool(gold.group)
    names = [[column.name for column in query.group] for query in (pred, gold)]
    return names[0] == names[1] and pred.having == gold.having


def _same_order(pred: Query, gold: Query) -> bool:
    """Equal terms in the same direction, and LIMIT on both sides or on neither."""
    if not pred.order or not gold.order:
        return bool(pred.order) == bool(gold.order)
    return (pred.order, pred.descending, pred.limit) == (gold.order, gold.descending, gold.limit)


def _same_set_operation(pred: Query, gold: Query) -> bool:
    if pred.combined_by != gold.combined_by:
        return False
    if pred.combined_with is None or gold.combined_with is None:
        return True  # both, since the operations are the same
    return not _differing(pred.combined_with, gold.combined_with)


def _same_keywords(pred: Query, gold: Query) -> bool:
    return _keywords(pred) == _keywords(gold)


def _same_tables(pred: Query, gold: Query) -> bool:
    return Counter(pred.tables) == Counter(gold.tables)


CLAUSES: dict[str, Callable[[Query, Query], bool]] = {
    "select": _same_select,
    "where": _same_where,
    "and/or": _same_and_or,
    "group": _same_group,
    "having": _same_having,
    "order": _same_order,
    "set operation": _same_set_operation,
    "keywords": _same_keywords,
    "tables": _same_tables,
}
"""Every clause that is compared, with its rule."""


def _keywords(query: Query) -> set[str]:
    units = query.conditions
    connectors = query.joins.connectors + query.where.connectors + query.having.connectors
    present = {
        "where": query.where,
        "group": query.group,
        "having": query.having,
        "order": query.order,
        "desc" if query.descending else "asc": query.order,
        "limit": query.limit,
        query.combined_by: query.combined_by,
        "or": "or" in connectors,
        "not": any(unit.negated for unit in units),
        "in": any(unit.operator == "in" for unit in units),
        "like": any(unit.operator == "like" for unit in units),
    }
    return {keyword for keyword, there in present.items() if there}


def _bare_name(column: Column) -> str:
    return column.name.partition(".")[2] or column.name


def _representatives(query: Query, schema: Schema) -> dict[str, str]:
    """Column → the one that stands for its foreign keys, for the columns of the outer query's tables."""
    return {name: same for name, same in schema.same_as.items() if name.partition(".")[0] in query.tables}


def _canonical(query: Query, same_as: dict[str, str]) -> Query:
    """`query` without what is not compared. Set operations go by the tables of the outermost query."""

    def conditions(old: Conditions) -> Conditions:
        return replace(old, units=tuple(_without_values(replace(unit, term=term(unit.term))) for unit in old.units))

    def term(old: Term) -> Term:
        return Term(column(old.left), old.operator, None if old.right is None else column(old.right))

    def column(old: Column) -> Column:
        return Column(same_as.get(old.name, old.name), old.aggregate)

    return replace(
        query,
        distinct=False,
        select=tuple(Selected(entry.aggregate, term(entry.term)) for entry in query.select),
        joins=conditions(query.joins),
        where=conditions(query.where),
        group=tuple(map(column, query.group)),
        having=conditions(query.having),
        order=tuple(map(term, query.order)),
        combined_with=None if query.combined_with is None else _canonical(query.combined_with, same_as),
    )


def _without_values(unit: Condition) -> Condition:
    value, value2 = (
        _nested_without_values(value) if isinstance(value, Query) else None for value in (unit.value, unit.value2)
    )
    return replace(unit, value=value, value2=value2)


def _nested_without_values(query: Query) -> Query:
    def conditions(old: Conditions) -> Conditions:
        return replace(old, units=tuple(map(_without_values, old.units)))

    return replace(
        query,
        joins=conditions(query.joins),
        where=conditions(query.where),
        having=conditions(query.having),
        combined_with=None if query.combined_with is None else _nested_without_values(query.combined_with),
    )
