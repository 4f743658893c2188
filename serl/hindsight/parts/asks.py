"""An action's SQL → a few statements that ask about its parts; and their outcomes → what was found.

    the action         asked
    ran                everything that keeps or makes rows: one statement a query, all counts in it
    failed             each part alone, to see which ones fail
    was stopped        the tables' sizes, since more would be stopped too
    cannot be parsed   nothing

Queries are the action, the arms of a set operation, and the sub-queries of its conditions, if they can run alone: one
that refers to the query around it is left out. At most `MOST` statements are asked, the outer parts first. Each has the
sandbox's time limit; nearly every action that ran takes one statement of milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from serl.hindsight.parts.build import QUERIES, outermost
from serl.hindsight.parts.part import NEVER_FAIL, ONLY_FAIL, Finding, Kind, Part
from serl.hindsight.parts.select import Reader
from serl.sql.outcome import Outcome, Status

MOST = 12
"""Statements for one action."""
MOST_PARTS = 24
"""Parts that one statement asks about."""
MOST_CHARACTERS = 6_000  # of an action: a policy that repeats itself may write more, gold comes nowhere near


@dataclass(frozen=True)
class Ask:
    """A statement of one row, and the parts whose counts are its columns.

    `sure` is False for a sub-query that may refer to the query around it: then its failing says nothing.
    """

    statement: str
    parts: tuple[Part, ...]
    sure: bool = True


@dataclass(frozen=True)
class _Query:
    """One query with its parts in the order of its clauses; first the query as a whole, unless it is the action."""

    parts: tuple[Part, ...]
    sure: bool


def asks(sql: str, status: Status, dialect: str = "sqlite") -> tuple[Ask, ...]:
    """The statements that ask about the parts of an action whose outcome has this status."""
    if status not in (Status.OK, Status.EMPTY, Status.TOO_LARGE, Status.ERROR, Status.TIMEOUT):
        return ()
    queries = _read_queries(sql, dialect)
    if status is Status.ERROR:
        made = [_ask([part], query.sure) for query in queries for part in query.parts if part.kind not in NEVER_FAIL]
    elif status is Status.TIMEOUT:
        tables = [part for query in queries[:1] for part in query.parts if part.kind is Kind.TABLE]
        made = [_ask(tables, True)] if tables and not tables[0].prefix else []
    else:
        counted = [([part for part in query.parts if part.kind not in ONLY_FAIL], query.sure) for query in queries]
        made = [_ask(parts[:MOST_PARTS], sure) for parts, sure in counted if parts]
    return tuple(made[:MOST])


def found(asked: Sequence[Ask], outcomes: Iterable[Outcome]) -> tuple[Finding, ...]:
    """What the statements found, in their order. A statement that was stopped, or failed with several parts, nothing.

    ValueError unless there is one outcome a statement.
    """
    return tuple(finding for ask, outcome in zip(asked, outcomes, strict=True) for finding in _read(ask, outcome))


def _read(ask: Ask, outcome: Outcome) -> Iterator[Finding]:
    if outcome.status is Status.ERROR and ask.sure and len(ask.parts) == 1:
        yield Finding(ask.parts[0], None)
    if outcome.status is not Status.OK:
        return
    values = outcome.rows[0]
    for part in ask.parts:
        yield Finding(part, values[: len(part.counts)])
        values = values[len(part.counts):]


def _ask(parts: Sequence[Part], sure: bool) -> Ask:
    columns = ", ".join(f"({count})" for part in parts for count in part.counts)
    prefix = max((part.prefix for part in parts), key=len)
    return Ask(f"{prefix}SELECT {columns}", tuple(parts), sure)


def _read_queries(sql: str, dialect: str) -> list[_Query]:
    """The queries of an action; none where it is not one query that sqlglot can read, or it defines recursively."""
    if len(sql) > MOST_CHARACTERS:
        return []
    try:
        trees = [tree for tree in sqlglot.parse(sql, dialect=dialect) if tree is not None]
        if len(trees) != 1 or not isinstance(trees[0], QUERIES):
            return []
        if any(clause.recursive for clause in trees[0].find_all(exp.With)):
            return []
        return list(_queries(trees[0], "", [], True, dialect))
    except (SqlglotError, RecursionError):
        return []


def _queries(tree: exp.Expression, name: str, withs: Sequence[exp.CTE], sure: bool, dialect: str) -> Iterator[_Query]:
    """The query `name` and those in it."""
    own = tree.args.get("with_")
    withs = [*withs, *(own.expressions if own is not None else ())]
    reader = Reader(tree, name, withs, dialect)
    inner, places = [], []
    if isinstance(tree, exp.SetOperation):
        arms = list(_arms(tree))
        for number, arm in enumerate(arms, start=1):
            inner += _queries(arm, _named(name, "arm", number, len(arms)), withs, sure, dialect)
    else:
        found = [(place, query) for place, condition in enumerate(reader.conditions)
                 for query in outermost(condition, *QUERIES)]
        for number, (place, query) in enumerate(found, start=1):
            if (alone := _runs_alone(query)) is not False:
                its = list(_queries(query, _named(name, "subquery", number, len(found)), withs,
                                    sure and alone is True, dialect))
                inner += its
                places += [(place, each.parts[0].key) for each in its[:1] if each.sure]
    parts = reader.parts([[key for at, key in places if at == place] for place in range(len(reader.conditions))])
    if name:
        parts.insert(0, reader.whole([*parts, *(part for each in inner for part in each.parts)]))
    yield _Query(tuple(parts), sure)
    yield from inner


def _arms(tree: exp.Expression) -> Iterator[exp.Expression]:
    if isinstance(tree, exp.Subquery):
        yield from _arms(tree.this)
    elif isinstance(tree, exp.SetOperation):
        yield from _arms(tree.this)
        yield from _arms(tree.expression)
    elif isinstance(tree, exp.Select):
        yield tree


def _named(outer: str, kind: str, number: int, of: int) -> str:
    return f"{outer}{', ' if outer else ''}{kind} {number} of {of}"


def _runs_alone(query: exp.Expression) -> bool | None:
    """Whether a sub-query refers to nothing around it. None: only the schema, so the database, can tell."""
    sources = [source.alias_or_name.lower() for source in query.find_all(exp.Table, exp.Subquery)]
    columns = list(query.find_all(exp.Column))
    if any(column.table and column.table.lower() not in sources for column in columns):
        return False
    return None if any(not column.table for column in columns) else True
