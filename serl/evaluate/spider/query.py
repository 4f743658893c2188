"""A query of Spider's SQL subset as plain data. Everything is hashable, so that clauses compare as multisets.

Names are lower-case; a column is `table.column`, all columns are `*`.
"""

from __future__ import annotations

from dataclasses import dataclass

AGGREGATES = ("max", "min", "count", "sum", "avg")
ARITHMETIC = ("-", "+", "*", "/")
COMPARISONS = ("between", "=", ">", "<", ">=", "<=", "!=", "in", "like", "is", "exists", "not")
SET_OPERATIONS = ("intersect", "union", "except")


@dataclass(frozen=True)
class Column:
    """A column, perhaps inside an aggregate."""

    name: str
    aggregate: str = ""
    distinct: bool = False


@dataclass(frozen=True)
class Term:
    """One column, or two with an arithmetic operator between them."""

    left: Column
    operator: str = ""
    right: Column | None = None

    @property
    def columns(self) -> tuple[Column, ...]:
        """The one or two columns."""
        return (self.left,) if self.right is None else (self.left, self.right)


@dataclass(frozen=True)
class Selected:
    """One entry of SELECT: its outermost aggregate, "" where there is none, and what is aggregated."""

    aggregate: str
    term: Term


@dataclass(frozen=True)
class Condition:
    """`term [NOT] operator value`; BETWEEN has two values. None stands for a value that is not looked at."""

    negated: bool
    operator: str
    term: Term
    value: Value
    value2: Value = None


@dataclass(frozen=True)
class Conditions:
    """Conditions and the words (and, or) between them: one fewer, without any precedence."""

    units: tuple[Condition, ...] = ()
    connectors: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.units)


@dataclass(frozen=True)
class Query:
    """A query. `descending` is the direction of the last ORDER BY term, for all of them."""

    distinct: bool
    select: tuple[Selected, ...]
    tables: tuple[str | Query, ...]
    joins: Conditions
    where: Conditions
    group: tuple[Column, ...]
    having: Conditions
    order: tuple[Term, ...]
    descending: bool
    limit: bool
    combined_by: str = ""
    """One of SET_OPERATIONS, "" where there is none."""
    combined_with: Query | None = None

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """Those of the joins, WHERE and HAVING."""
        return self.joins.units + self.where.units + self.having.units

    @property
    def nested(self) -> tuple[Query, ...]:
        """Queries inside conditions, and the other side of a set operation; those inside FROM do not count."""
        values = [value for unit in self.conditions for value in (unit.value, unit.value2)]
        values.append(self.combined_with)
        return tuple(value for value in values if isinstance(value, Query))


Value = Query | Column | str | float | None
