"""Queries made of the clauses of an action, and the counts of their rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import exp

from serl.hindsight.parts.part import Span

QUERIES = (exp.Select, exp.SetOperation)


class Builder:
    """Builds queries from the clauses of one query. `withs` are the definitions that it can see, its own last."""

    def __init__(self, tree: exp.Expression, withs: Sequence[exp.CTE], dialect: str) -> None:
        self.tree, self.dialect = tree, dialect
        self.withs = list(withs)
        source = tree.args.get("from_")
        self.joins: list[exp.Join] = list(tree.args.get("joins") or ()) if source is not None else []
        self.sources = [source.this, *(join.this for join in self.joins)] if source is not None else []

    def rows(self, source: exp.Expression | None = None, joins: int | None = None,
             columns: Sequence[exp.Expression] = (), **clauses: exp.Expression | None) -> exp.Select:
        """SELECT 1 (or `columns`) from `source`, or from FROM up to so many joins, with these clauses.

        With it come the aliases of the SELECT list that the clauses refer to, as SQLite lets WHERE and GROUP BY do;
        no aggregates unless there are groups, since one would make a single row of all.
        """
        given = {name: clause.copy() for name, clause in clauses.items() if clause is not None}
        named = {column.name.lower() for clause in given.values() for column in clause.find_all(exp.Column)
                 if not column.table}
        aliased = [each for each in self.tree.expressions
                   if isinstance(each, exp.Alias) and each.alias.lower() in named and each not in columns
                   and ("group" in given or each.find(exp.AggFunc, exp.Anonymous) is None)]
        first = self.sources[0] if source is None else source
        chosen = self.joins[:joins] if source is None else []
        return exp.Select(expressions=[each.copy() for each in [*(columns or [exp.Literal.number(1)]), *aliased]],
                          from_=exp.From(this=first.copy()), joins=[join.copy() for join in chosen], **given)

    def without(self, *clauses: str) -> exp.Expression:
        """The query but for these clauses and for WITH, which `prefix` says."""
        rest = self.tree.copy()
        for clause in ("with_", *clauses):
            rest.set(clause, None)
        return rest

    def count(self, query: exp.Expression) -> str:
        """The query that counts the rows of another."""
        return f"SELECT COUNT(*) FROM ({self.sql(query)}) AS counted"

    def prefix(self, count: int | None = None) -> str:
        """WITH and its first definitions, "" if there are none."""
        texts = [self.sql(each) for each in self.withs[:count]]
        return f"WITH {', '.join(texts)} " if texts else ""

    def sql(self, node: exp.Expression) -> str:
        """A piece of the query in one line."""
        return node.sql(self.dialect, comments=False).strip()

    def group(self) -> exp.Group | None:
        """GROUP BY with the columns that its numbers stand for.

        None: there is none, or it says what belongs to a group by the SELECT list alone (ALL, the number of a star).
        """
        group = self.tree.args.get("group")
        if group is None or group.args.get("all"):
            return None
        group, columns = group.copy(), self.tree.expressions
        for term in group.expressions:
            if isinstance(term, exp.Literal) and term.is_int:
                place = int(term.this) - 1
                if not 0 <= place < len(columns) or columns[place].is_star:
                    return None
                term.replace(columns[place].unalias().copy())
        return group


def stands_alone(source: exp.Expression) -> bool:
    """Whether a source of FROM is a table or a sub-query, which needs none of those before it."""
    return isinstance(source, exp.Subquery) or (isinstance(source, exp.Table)
                                                and isinstance(source.this, exp.Identifier))


def conjuncts(condition: exp.Expression) -> list[exp.Expression]:
    """The conditions that AND joins at the top, without the parentheses around them.

    >>> from sqlglot import parse_one
    >>> [each.sql() for each in conjuncts(parse_one("a AND (b OR c) AND (d AND e)"))]
    ['a', 'b OR c', 'd', 'e']
    """
    condition = condition.unnest()
    if not isinstance(condition, exp.And):
        return [condition]
    return conjuncts(condition.this) + conjuncts(condition.expression)


def outermost(node: exp.Expression, *kinds: type) -> Iterator[exp.Expression]:
    """The nodes of these kinds that are in no other query inside of `node`, in the order of the text."""
    for each in node.walk(bfs=False, prune=lambda inner: isinstance(inner, QUERIES)):
        if isinstance(each, kinds):
            yield each


def span(node: exp.Expression) -> Span | None:
    """Characters [start, end) from the first to the last name or literal of a node: what sqlglot keeps places of."""
    places = [(each.meta["start"], each.meta["end"] + 1) for each in node.walk() if "start" in each.meta]
    return (min(start for start, _ in places), max(end for _, end in places)) if places else None
