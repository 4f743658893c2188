"""Parser of Spider's SQL subset: what its exact match can compare.

The subset is that of the official parser, and so is what it makes of a query at the edges, because exact match is
defined by it: tables are joined by `JOIN` alone (no comma, LEFT or USING) and renamed by AS alone, SELECT has no
names of its own, a value is a literal, a subquery or a plain column, conditions have no parentheses. What follows
the last clause that was understood is not looked at.
"""

from __future__ import annotations

from serl.evaluate.spider.query import (
    AGGREGATES,
    ARITHMETIC,
    COMPARISONS,
    SET_OPERATIONS,
    Column,
    Condition,
    Conditions,
    Query,
    Selected,
    Term,
    Value,
)
from serl.evaluate.spider.schema import Schema
from serl.evaluate.spider.tokens import is_string, tokenize

_CLAUSES = {"select", "from", "where", "group", "order", "limit", *SET_OPERATIONS}
_JOINS = {"join", "on", "as"}
_END = ""  # stands behind the last token; no token is empty
_MAX_DEPTH = 60  # of queries inside queries or behind one another; keeps every recursion over a query shallow
_ENDS_OF_VALUE = {_END, ",", ")", "and", *_CLAUSES, *_JOINS}


class NotInSubset(Exception):
    """The query is not in Spider's subset of SQL, or names what the schema does not have."""


def parse(sql: str, schema: Schema) -> Query:
    """The clauses of `sql`; NotInSubset with the reason where it cannot be read."""
    try:
        tokens = tokenize(sql)
    except ValueError as error:
        raise NotInSubset(str(error)) from error
    return _Parser(tokens, schema).query()


class _Parser:
    """A recursive descent over the tokens; `_at` is the position of the next one."""

    def __init__(self, tokens: list[str], schema: Schema):
        self._tokens = [*tokens, _END]
        self._at = 0
        self._depth = 0
        self._schema = schema
        # Aliases hold in the whole text, wherever AS stands; where one is defined twice the last counts.
        names = {alias: name for name, word, alias in zip(tokens, tokens[1:], tokens[2:]) if word == "as"}
        for table in schema.tables:
            if table in names:
                raise NotInSubset(f"the alias {table} is a table's name")
        self._tables = names | {table: table for table in schema.tables}

    def query(self) -> Query:
        """One query with its set operation; columns without a table belong to the first table that has them."""
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise NotInSubset("too deeply nested")
        block = self._accept("(")
        start = self._at
        self._at = self._find_from(start)
        tables, joins = self._from()
        scope = tuple(table for table in tables if isinstance(table, str))
        after_from, self._at = self._at, start
        distinct, select = self._select(scope)
        self._at = after_from
        where = self._conditions(scope) if self._accept("where") else Conditions()
        group = self._group(scope) if self._accept("group") else ()
        having = self._conditions(scope) if self._accept("having") else Conditions()
        order, descending = self._order(scope) if self._accept("order") else ((), False)
        limit = self._accept("limit")
        if limit:
            self._next()
        self._skip_semicolons()
        if block:
            self._expect(")")
        self._skip_semicolons()
        combined_by = self._peek() if self._peek() in SET_OPERATIONS else ""
        combined_with = None
        if combined_by:
            self._next()
            combined_with = self.query()
        self._depth -= 1
        return Query(distinct, select, tables, joins, where, group, having, order, descending, limit,
                     combined_by, combined_with)  # fmt: skip

    def _find_from(self, start: int) -> int:
        try:
            return self._tokens.index("from", start) + 1
        except ValueError:
            raise NotInSubset("no FROM") from None

    def _from(self) -> tuple[tuple[str | Query, ...], Conditions]:
        tables: list[str | Query] = []
        units: list[Condition] = []
        connectors: list[str] = []
        while self._peek() != _END:
            block = self._accept("(")
            if self._peek() == "select":
                tables.append(self.query())
            else:
                self._accept("join")
                tables.append(self._table(self._next()))
                if self._accept("as"):
                    self._next()
            if self._accept("on"):
                conditions = self._conditions(tuple(table for table in tables if isinstance(table, str)))
                connectors += ["and"] * bool(units) + list(conditions.connectors)
                units += conditions.units
            if block:
                self._expect(")")
            if self._at_clause():
                break
        return tuple(tables), Conditions(tuple(units), tuple(connectors))

    def _select(self, scope: tuple[str, ...]) -> tuple[bool, tuple[Selected, ...]]:
        self._expect("select")
        distinct = self._accept("distinct")
        selected = []
        while self._peek() != _END and self._peek() not in _CLAUSES:
            aggregate = self._next() if self._peek() in AGGREGATES else ""
            selected.append(Selected(aggregate, self._term(scope)))
            self._accept(",")
        return distinct, tuple(selected)

    def _group(self, scope: tuple[str, ...]) -> tuple[Column, ...]:
        self._expect("by")
        columns: list[Column] = []
        while not self._at_clause():
            columns.append(self._column(scope))
            if not self._accept(","):
                break
        return tuple(columns)

    def _order(self, scope: tuple[str, ...]) -> tuple[tuple[Term, ...], bool]:
        self._expect("by")
        terms: list[Term] = []
        direction = "asc"
        while not self._at_clause():
            terms.append(self._term(scope))
            if self._peek() in ("asc", "desc"):
                direction = self._next()
            if not self._accept(","):
                break
        return tuple(terms), direction == "desc"

    def _conditions(self, scope: tuple[str, ...]) -> Conditions:
        units: list[Condition] = []
        connectors: list[str] = []
        while self._peek() != _END:
            units.append(self._condition(scope))
            if self._at_clause() or self._peek() in _JOINS:
                break
            if self._peek() not in ("and", "or"):
                raise NotInSubset(f"{self._peek()!r} after a condition")
            connectors.append(self._next())
        if len(units) != len(connectors) + 1:
            raise NotInSubset("a condition is missing")
        return Conditions(tuple(units), tuple(connectors))

    def _condition(self, scope: tuple[str, ...]) -> Condition:
        term = self._term(scope)
        negated = self._accept("not")
        operator = self._next()
        if operator not in COMPARISONS:
            raise NotInSubset(f"{operator!r} is no comparison")
        value = self._value(scope)
        if operator != "between":
            return Condition(negated, operator, term, value)
        self._expect("and")
        return Condition(negated, operator, term, value, self._value(scope))

    def _value(self, scope: tuple[str, ...]) -> Value:
        block = self._accept("(")
        value: Value
        if self._peek() == "select":
            value = self.query()
        elif is_string(self._peek()):
            value = self._next()
        elif (number := _number(self._peek())) is not None:
            value = number
            self._next()
        else:
            if block:
                raise NotInSubset("a value is a column in parentheses")
            value = self._column_value(scope)
        if block:
            self._expect(")")
        return value

    def _column_value(self, scope: tuple[str, ...]) -> Column:
        """A plain column. The rest up to the next `and`, comma, parenthesis, clause or join is not looked at."""
        if self._peek() in AGGREGATES or self._peek() == "(":
            raise NotInSubset("a value is an aggregate or stands in parentheses")
        column = self._column(scope)
        while self._peek() not in _ENDS_OF_VALUE:
            self._next()
        return column

    def _term(self, scope: tuple[str, ...]) -> Term:
        block = self._accept("(")
        left = self._column(scope)
        operator, right = "", None
        if self._peek() in ARITHMETIC:
            operator = self._next()
            right = self._column(scope)
        if block:
            self._expect(")")
        return Term(left, operator, right)

    def _column(self, scope: tuple[str, ...]) -> Column:
        block = self._accept("(")
        if self._peek() in AGGREGATES:
            aggregate = self._next()
            self._expect("(")
            distinct = self._accept("distinct")
            column = Column(self._name(scope), aggregate, distinct)
            self._expect(")")
            return column  # a parenthesis around an aggregate is left to whoever comes next
        distinct = self._accept("distinct")
        column = Column(self._name(scope), "", distinct)
        if block:
            self._expect(")")
        return column

    def _name(self, scope: tuple[str, ...]) -> str:
        token = self._next()
        if token == "*":
            return token
        table, dot, name = token.partition(".")
        if dot:
            table = self._table(table)
            if name not in self._schema.tables[table]:
                raise NotInSubset(f"no column {token!r}")
            return f"{table}.{name}"
        for table in scope:
            if token in self._schema.tables[table]:
                return f"{table}.{token}"
        raise NotInSubset(f"no column {token!r} in FROM's tables")

    def _table(self, name: str) -> str:
        """The table that a name or alias stands for."""
        table = self._tables.get(name)
        if table not in self._schema.tables:
            raise NotInSubset(f"no table {name!r}")
        return table

    def _at_clause(self) -> bool:
        return self._peek() in _CLAUSES or self._peek() in (")", ";", _END)

    def _peek(self) -> str:
        return self._tokens[self._at]

    def _next(self) -> str:
        token = self._tokens[self._at]
        if token == _END:
            raise NotInSubset("the query ends too early")
        self._at += 1
        return token

    def _accept(self, token: str) -> bool:
        if self._peek() != token:
            return False
        self._at += 1
        return True

    def _expect(self, token: str) -> None:
        if not self._accept(token):
            raise NotInSubset(f"{self._peek() or 'the end'!r} where {token!r} should be")

    def _skip_semicolons(self) -> None:
        while self._accept(";"):
            pass


def _number(token: str) -> float | None:
    try:
        return float(token)
    except ValueError:
        return None
