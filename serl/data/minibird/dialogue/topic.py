"""What a dialogue is about at one of its turns: rows of some tables, filtered, ranked, and what is asked of them.

A topic has one SQL query and, in full, one question that stands alone. Every piece of it knows the turn that said it:
what an earlier turn said is what later ones carry over.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from serl.data.minibird.conditions import Condition
from serl.data.minibird.kinds import KINDS
from serl.data.minibird.paths import Path
from serl.data.minibird.phrases import ColumnText, NounPhrase
from serl.data.minibird.schema import Column
from serl.data.turn_notes import Carried
from serl.sql.clauses import Schema, read_clauses

_OF_MANY = re.compile(r"\b([Aa]ll|every|each) (the )?\{T")
_ASKS = {kind.name: kind.asks for _, kinds in KINDS.values() for kind in kinds}


class Ask(StrEnum):
    """What is asked of the rows."""

    LIST = "list"
    COUNT = "count"
    MEASURE = "measure"  # an aggregate of a column
    DISTINCT = "distinct"  # how many values a column has
    GROUP = "group"  # how many rows there are for each value of a column


@dataclass(frozen=True)
class Shown:
    """A column that is asked for; it is the first table's."""

    column: Column
    said: str
    since: int

    @property
    def text(self) -> ColumnText:
        return ColumnText(self.said)


@dataclass(frozen=True)
class Filter:
    """A condition on a column; the condition's SQL is what follows the column's name."""

    column: Column
    condition: Condition
    since: int


@dataclass(frozen=True)
class Rank:
    """ORDER BY a column of the first table; a condition as `Filter` has it. No limit: all rows, in order."""

    column: Column
    condition: Condition
    limit: int | None
    since: int
    limit_since: int = 0  # where it came later than the order


@dataclass(frozen=True)
class Topic:
    """The first table's rows are what "they" are; a second table joins, for the conditions on its columns."""

    path: Path
    nouns: tuple[str, ...]
    tables_since: tuple[int, ...]
    ask: Ask
    ask_since: int
    shown: tuple[Shown, ...] = ()  # LIST: one or two; MEASURE, DISTINCT, GROUP: one
    function: tuple[str, str] = ("", "")  # MEASURE: of SQL, and its word
    filters: tuple[Filter, ...] = ()
    rank: Rank | None = None

    @property
    def repeats(self) -> bool:
        """Whether the join may repeat the first table's rows."""
        return bool(self.path.joins) and not self.path.joins[0].up

    @property
    def is_one(self) -> bool:
        """Whether it is about a single row of the first table."""
        named = any(each.condition.proper and each.condition.at == 0 for each in self.filters)
        return named or (self.rank is not None and self.rank.limit == 1)

    @property
    def is_cut(self) -> bool:
        """Whether it is about a part of the rows that only an order tells from the rest, or about a single one."""
        return self.is_one or (self.rank is not None and self.rank.limit is not None)

    @property
    def is_grouped(self) -> bool:
        """Whether "they" could be values of a column as well as rows."""
        return self.ask in (Ask.GROUP, Ask.DISTINCT)

    def used(self, at: int) -> list[Column]:
        """Columns of a table that are asked for, ranked by or under a condition."""
        filtered = [each.column for each in self.filters if each.condition.at == at]
        asked = [each.column for each in (*self.shown, *filter(None, [self.rank]))]
        return filtered + (asked if at == 0 else [])

    def asking(self, ask: Ask, since: int, *shown: Shown) -> Topic:
        """The same rows, asked for something else."""
        return replace(self, ask=ask, ask_since=since, shown=shown)

    def with_one_filter_less(self) -> Iterator[Topic]:
        for gone in self.filters:
            yield replace(self, filters=tuple(each for each in self.filters if each is not gone))

    def name(self, at: int, column: Column) -> str:
        """The column as the SQL names it."""
        return f"{self.path.tables[at].name}.{column.name}" if self.path.joins else column.name

    def where(self, each: Filter) -> str:
        """The SQL of a condition."""
        return self.name(each.condition.at, each.column) + each.condition.sql

    @property
    def rows_sql(self) -> str:
        """FROM and WHERE."""
        where = " AND ".join(map(self.where, self.filters))
        return f"FROM {self.path.sql}" + (f" WHERE {where}" if where else "")

    @property
    def sql(self) -> str:
        columns = ", ".join(self.name(0, each.column) for each in self.shown)
        key = self.name(0, self.path.tables[0].key)
        selected = {
            Ask.LIST: f"DISTINCT {columns}" if self.repeats else columns,
            Ask.COUNT: f"COUNT(DISTINCT {key})" if self.repeats else "COUNT(*)",
            Ask.MEASURE: f"{self.function[0]}({columns})",
            Ask.DISTINCT: f"COUNT(DISTINCT {columns})",
            Ask.GROUP: f"{columns}, COUNT(*)",
        }[self.ask]
        sql = f"SELECT {selected} {self.rows_sql}"
        if self.ask is Ask.GROUP:
            sql += f" GROUP BY {columns}"
        if self.rank:
            sql += f" ORDER BY {self.name(0, self.rank.column)}{self.rank.condition.sql}"
            sql += f" LIMIT {self.rank.limit}" if self.rank.limit else ""
        return sql

    def question(self, rng: random.Random) -> str:
        """The topic as one question that needs no other."""
        conditions = {f"f{number}": each.condition for number, each in enumerate(self.filters)}
        text: dict[str, object] = {}
        if self.rank and self.rank.limit:
            conditions["o"] = self.rank.condition
            text["k"] = self.rank.limit
        elif self.rank:
            direction = "highest" if self.rank.condition.sql == " DESC" else "lowest"
            text |= {"m": ColumnText(self.rank.column.said[0]), "e": direction}
        phrase = NounPhrase(self.path, self.nouns, conditions)
        text |= {"T": phrase, "a": self.function[1]}
        text |= dict(zip("cd", (each.text for each in self.shown)))
        text["g"] = text.get("c")
        text.setdefault("m", text.get("c"))
        asks = [ask for ask in _ASKS[self._kind] if not (self.is_one and _OF_MANY.search(ask))]
        return rng.choice(asks).format_map(text)

    @property
    def _kind(self) -> str:
        """The kind of minibird's question that asks it."""
        if self.rank:
            return {1: "top_one_filter", None: "sorted"}.get(self.rank.limit, "top_few")
        if self.ask is Ask.LIST:
            if self.is_one and len(self.shown) == 1:
                return "lookup"
            return "join_owner" if self.repeats else ("select", "select_two")[len(self.shown) - 1]
        return {Ask.COUNT: "join_count_owner" if self.repeats else "count", Ask.MEASURE: "aggregate",
                Ask.DISTINCT: "count_distinct", Ask.GROUP: "group_count_filter"}[self.ask]

    def carried(self, turn: int, schema: Schema) -> tuple[Carried, ...]:
        """Every item of the query that was said before `turn`, in the order of the clauses."""
        return tuple(Carried(clause, item, since) for clause, item, since in self._items(schema) if since < turn)

    def _items(self, schema: Schema) -> Iterator[tuple[str, str, int]]:
        whole = read_clauses(self.sql, schema)
        if self.ask is Ask.LIST:
            for each in self.shown:
                alone = replace(self, shown=(each,), filters=(), rank=None)
                items = read_clauses(alone.sql, schema)["select"]
                yield from (("select", item, each.since) for item in items if item != "DISTINCT")
        else:
            yield from (("select", item, self.ask_since) for item in whole["select"])
        tables = {table.name.lower(): since for table, since in zip(self.path.tables, self.tables_since)}
        for item in whole["from"]:
            yield "from", item, tables.get(item, max(self.tables_since))
        for each in self.filters:
            alone = replace(self, filters=(each,), rank=None)
            yield from (("where", item, each.since) for item in read_clauses(alone.sql, schema)["where"])
        yield from (("group", item, self.ask_since) for item in whole["group"])
        if self.rank:
            yield from (("order", item, self.rank.since) for item in whole["order"])
            yield from (("limit", item, self.rank.limit_since or self.rank.since) for item in whole["limit"])
