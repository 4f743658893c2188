"""The clauses of a query as multisets of canonical items, and how much of them two queries share.

    SELECT DISTINCT name FROM city AS c JOIN country ON c.country_id = country.id WHERE people > 5 AND continent = 'EU'

is `select: DISTINCT, city.name`, `from: city, country, city.country_id = country.id`, `where: city.people > 5,
country.continent = 'EU'`. Items are read from the sqlglot tree by `serl.sql.tree`: aliases are resolved, names folded,
conditions stand in any order and either way round, and a sub-query in FROM and in WITH are the same.

- A condition that joins two sources is an item of FROM wherever it is written; one that does not is an item of WHERE,
  also where it stands in the ON of an inner join (`tree/spell.py`).
- Of UNION and its kin, all branches give their items, and the operator is an item of `set`. Items of what EXCEPT takes
  away say so, since its sides are not alike.
- ORDER BY is a multiset too: its terms have their direction, not their rank. OFFSET is an item of LIMIT.

The F1 of a predicted query against a reference (MTSQL-R1, arXiv 2510.12831, which compares clauses as whole strings)
is the mean over the clauses C that either of them has; P_c and G_c are multisets:

    F1 = 1/|C| Σ_{c ∈ C} 2 |P_c ∩ G_c| / (|P_c| + |G_c|)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from serl.sql.tree.conditions import FLIPPED, spread
from serl.sql.tree.names import Schema
from serl.sql.tree.parse import NotPlaced, Unparsed, parse
from serl.sql.tree.part import Part
from serl.sql.tree.queries import readings
from serl.sql.tree.spell import conjuncts, spell, split_where

__all__ = ["CLAUSES", "ClauseF1", "Clauses", "Entity", "Schema", "Unparsed", "clause_f1", "read_clauses"]

CLAUSES = ("select", "from", "where", "group", "having", "order", "limit", "set")


@dataclass(frozen=True, order=True)
class Entity:
    """A literal and the column it is compared with: what a question named."""

    column: str
    """`table.column`."""
    operator: str
    literal: str
    """As SQL: `'Rome'`, `5`."""

    def __str__(self) -> str:
        return f"{self.column} {self.operator} {self.literal}"


@dataclass(frozen=True)
class Clauses:
    """Items by clause, each a sorted multiset; clauses that the query does not have are absent."""

    items: Mapping[str, tuple[str, ...]]
    entities: tuple[Entity, ...] = ()
    """Those of nested queries as well."""

    def __getitem__(self, clause: str) -> tuple[str, ...]:
        return self.items.get(clause, ())

    def holds(self, clause: str, item: str) -> bool:
        """Whether an item is there."""
        return item in self[clause]


@dataclass(frozen=True)
class ClauseF1:
    """How much two queries share. `value` is None where the reference cannot be read, which is nobody's mistake."""

    value: float | None
    by_clause: Mapping[str, float]
    reason: str = ""
    """Why there was nothing to compare."""


def read_clauses(sql: str, schema: Schema | None = None) -> Clauses | Unparsed:
    """The clauses of one query in SQLite's dialect. `schema` (columns by table) tells whose an unqualified column is.

    >>> read_clauses("SELECT c.Name FROM City c WHERE 5 < c.people -- big")["where"]
    ('city.people > 5',)
    """
    found = _trees(sql, schema, "predicted", all_orders=False)
    return found if isinstance(found, Unparsed) else _clauses(found[0])


def clause_f1(predicted: str, reference: str, schema: Schema | None = None) -> ClauseF1:
    """F1 of the clauses; 0 for a prediction that cannot be read.

    Where a prediction reads a table twice, the best way to tell its uses apart counts.
    """
    goal = _trees(reference, schema, "reference", all_orders=False)
    if isinstance(goal, Unparsed):
        return ClauseF1(None, {}, f"{goal.side}: {goal.reason}")
    found = _trees(predicted, schema, "predicted", all_orders=True)
    if isinstance(found, Unparsed):
        return ClauseF1(0.0, {}, f"{found.side}: {found.reason}")
    target = _clauses(goal[0])
    scores = [_f1(_clauses(tree), target) for tree in found]
    return max(scores, key=lambda score: score.value)


def _f1(predicted: Clauses, reference: Clauses) -> ClauseF1:
    by_clause = {}
    for clause in CLAUSES:
        ours, theirs = Counter(predicted[clause]), Counter(reference[clause])
        if ours or theirs:
            by_clause[clause] = 2 * (ours & theirs).total() / (ours.total() + theirs.total())
    return ClauseF1(sum(by_clause.values()) / len(by_clause), by_clause)


def _trees(sql: str, schema: Schema | None, side: str, all_orders: bool) -> list[Part] | Unparsed:
    text = parse(sql, side)
    if isinstance(text, Unparsed):
        return text
    try:
        trees = readings(text, schema, ordered_select=False)
        return list(trees) if all_orders else [next(trees)]
    except NotPlaced as error:
        return Unparsed(side, str(error))
    except RecursionError:
        return Unparsed(side, "nested too deeply")


def _clauses(tree: Part) -> Clauses:
    items: dict[str, list[str]] = {clause: [] for clause in CLAUSES}
    for clause, item in _items(tree):
        items[clause].append(item)
    return Clauses({clause: tuple(sorted(found)) for clause, found in items.items() if found},
                   tuple(sorted(set(_entities(tree)))))


def _items(tree: Part) -> Iterator[tuple[str, str]]:
    """(clause, item) of a query or of all the branches of a set operation."""
    if tree.kind == "set":
        branches, *slots = tree.children
        operator = str(tree.label)
        yield "set", operator
        for place, branch in enumerate(branches.children):
            mark = f"{operator} " if branches.ordered and place else ""
            yield from ((clause, mark + item) for clause, item in _items(branch))
    else:
        flag, select, sources, where, *slots = tree.children
        if flag.label:
            yield "select", flag.label
        joins, filters = split_where(where)
        for clause, parts in (("select", select.children), ("from", sources.children), ("from", joins),
                              ("where", filters)):
            yield from ((clause, spell(part)) for part in parts)
    group, having, order, limit, offset = slots
    for clause, parts in (("group", group.children), ("having", conjuncts(having.children)), ("order", order.children),
                          ("limit", limit.children)):
        yield from ((clause, spell(part)) for part in parts)
    yield from (("limit", f"OFFSET {spell(part)}") for part in offset.children)


def _entities(part: Part) -> Iterator[Entity]:
    part = spread(part)
    if part.kind == "compare":
        left, right = part.children
        for side, other, operator in ((left, right, part.label), (right, left, FLIPPED.get(part.label, part.label))):
            columns = list(_columns(side))
            if other.kind == "literal" and len(columns) == 1:
                yield Entity(spell(columns[0]), str(operator), spell(other))
    for child in part.children:
        yield from _entities(child)


def _columns(part: Part) -> Iterator[Part]:
    """The columns of an operand, sub-queries left out."""
    if part.ref is not None:
        yield part
    elif part.kind not in ("query", "set"):
        for child in part.children:
            yield from _columns(child)
