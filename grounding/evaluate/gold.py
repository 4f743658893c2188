"""What gold SQL uses of a schema: its tables, its columns, and the literals that it compares columns with.

Aliases are resolved by sqlglot's `qualify` and followed through derived tables and common table expressions. Names are
by `fold_name`, as SQLite compares them. A star is evidence for its table only. Literals are quoted ones: a bare number
stands in SQL as the question says it and need not be found.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from grounding.grounded import Links
from grounding.schema import Database
from grounding.sqlite import fold_name

_OPERATORS = {"EQ": "=", "NEQ": "!=", "In": "=", "Like": "like", "ILike": "like"}


class UnresolvedSql(ValueError):
    """SQL that sqlglot cannot parse or whose names it cannot resolve."""


@dataclass(frozen=True)
class Comparison:
    """`column operator literal`; a list of literals after IN is several of them."""

    table: str
    column: str
    operator: str
    """=, != or like."""
    literal: str


@dataclass(frozen=True)
class GoldUse:
    """What a statement uses of a database; names by `fold_name`."""

    tables: frozenset[str]
    columns: frozenset[tuple[str, str]]
    comparisons: tuple[Comparison, ...]

    @property
    def links(self) -> Links:
        """For grounding's mode oracle."""
        return Links(self.tables, self.columns)


def read_gold(sql: str, database: Database) -> GoldUse:
    """What `sql` uses of `database`. Raises UnresolvedSql where it cannot be told.

    >>> from grounding.schema import Column, Table
    >>> racing = Database("racing", None, (Table("race", (Column("name", "text"), Column("laps", "integer"))),), ())
    >>> use = read_gold('SELECT r.laps FROM race AS r WHERE r.name = "Monaco"', racing)
    >>> sorted(use.columns), use.comparisons[0].literal
    ([('race', 'laps'), ('race', 'name')], 'Monaco')
    """
    import sqlglot
    from sqlglot import exp
    from sqlglot.optimizer.qualify import qualify
    from sqlglot.optimizer.scope import traverse_scope

    names = {
        fold_name(table.name): {fold_name(column.name) for column in table.columns} for table in database.tables
    }
    try:
        tree = sqlglot.parse_one(sql, dialect="sqlite")
        tables = {fold_name(table.name) for table in tree.find_all(exp.Table)} & names.keys()
        _read_strings(tree, set().union(*(names[table] for table in tables)))
        schema = {table: {column: "text" for column in columns} for table, columns in names.items() if columns}
        tree = qualify(tree, dialect="sqlite", schema=schema, validate_qualify_columns=False, expand_stars=False)
        scopes = traverse_scope(tree)
        columns = {place for scope in scopes for column in scope.columns for place in _places(column, scope, names)}
        comparisons = [each for scope in scopes for each in _comparisons(scope, names)]
    except (sqlglot.errors.SqlglotError, RecursionError, ValueError) as error:
        raise UnresolvedSql(str(error).split("\n")[0]) from error
    if not tables:
        raise UnresolvedSql("it names no table of the database")
    return GoldUse(frozenset(tables), frozenset(columns), tuple(dict.fromkeys(comparisons)))


def _read_strings(tree, columns: set[str]) -> None:
    """SQLite reads "text" in double quotes as a string where no column has that name; gold of Spider relies on it."""
    from sqlglot import exp

    for column in list(tree.find_all(exp.Column)):
        name = column.this
        is_bare = isinstance(name, exp.Identifier) and name.quoted and not column.table
        compares = isinstance(column.parent, (exp.Binary, exp.In, exp.Between, exp.Paren))
        if is_bare and compares and fold_name(name.name) not in columns:
            column.replace(exp.Literal.string(name.name))


def _places(column, scope, names: dict[str, set[str]]) -> Iterator[tuple[str, str]]:
    """The stored columns that a column expression reads: one, or none where it is an alias or computed."""
    from sqlglot import exp

    home = scope
    while home is not None and column.table not in home.sources:
        home = home.parent  # a correlated subquery reads from the query around it
    source = home.sources[column.table] if home is not None else None
    name = fold_name(column.name)
    if isinstance(source, exp.Table):
        if name in names.get(fold_name(source.name), ()):
            yield fold_name(source.name), name
    elif source is not None and isinstance(source.expression, exp.Query):
        for projection in source.expression.selects:
            if fold_name(projection.alias_or_name) == name and isinstance(projection.unalias(), exp.Column):
                yield from _places(projection.unalias(), source, names)


def _comparisons(scope, names: dict[str, set[str]]) -> Iterator[Comparison]:
    from sqlglot import exp

    for node in scope.find_all(exp.EQ, exp.NEQ, exp.In, exp.Like, exp.ILike):
        others = node.expressions if isinstance(node, exp.In) else [node.expression]
        sides = [_unwrap(side) for side in (node.this, *others)]
        literals = [side.this for side in sides if isinstance(side, exp.Literal) and side.is_string]
        for column in (side for side in sides if isinstance(side, exp.Column)):
            for table, name in _places(column, scope, names):
                for literal in literals:
                    yield Comparison(table, name, _OPERATORS[type(node).__name__], literal)


def _unwrap(side):
    """An operand without parentheses and without functions that change only its case or its blanks."""
    from sqlglot import exp

    while isinstance(side, (exp.Paren, exp.Lower, exp.Upper, exp.Trim, exp.Collate)):
        side = side.this
    return side
