"""Draws the pieces of a turn: what a database offers that dialogues can ask for.

Dialogues have no evidence beside them, as SParC's and CoSQL's have none: a condition is not drawn where only evidence
explains it. And every gold query is in Spider's subset of SQL (`serl.evaluate.spider`), so that exact match, which the
recipes reward, has a say: no name needs quotes, no text has an apostrophe, years and NULLs are not asked for.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from serl.data.minibird import conditions
from serl.data.minibird.conditions import Condition, Place
from serl.data.minibird.dialogue.topic import Filter, Rank, Shown, Topic
from serl.data.minibird.paths import Path
from serl.data.minibird.schema import Column, Role, Table, quote
from serl.data.minibird.slots import AGGREGATES, SHOWN
from serl.data.minibird.world import World

_TRIES = 6
_UNREADABLE = ("strftime", "''")


def is_shown(column: Column) -> bool:
    return column.role in SHOWN


def is_measure(column: Column) -> bool:
    return column.role is Role.NUMBER and column.averaged


def is_category(column: Column) -> bool:
    return column.role is Role.CATEGORY and not column.null


def can_rank(column: Column) -> bool:
    return column.role is Role.DATE or (column.role is Role.NUMBER and (column.averaged or bool(column.most)))


@dataclass(frozen=True)
class Talk:
    """One turn in the making: the database, the turn's number, and the randomness."""

    world: World
    turn: int
    rng: random.Random

    def noun(self, said: Sequence[str]) -> str:
        """The commonest word, or now and then another."""
        return said[0] if len(said) == 1 or self.rng.random() < 0.65 else self.rng.choice(said[1:])

    def paths(self, steps: str, fits: Callable[[Path], bool] = lambda path: True) -> list[Path]:
        """Those of the database's paths that can be written without quotes."""
        return [path for path in self.world.paths(steps) if fits(path) and all(
            _is_plain(name) for name in (*(table.name for table in path.tables),
                                         *(join.column.name for join in path.joins)))]

    def shown(self, topic: Topic, fits: Callable[[Column], bool] = is_shown) -> Shown | None:
        """A column of the first table that the topic has no use for yet."""
        column = self._pick(topic.path.tables[0], fits, topic.used(0))
        return None if column is None else Shown(column, self.noun(column.said), self.turn)

    def filter(self, topic: Topic, at: int = 0, named: bool = False) -> Filter | None:
        """A condition on another column: on a row's own name if `named`, else on what it is like."""
        column = self._pick(topic.path.tables[at], lambda each: _can_filter(each, named), topic.used(at))
        return None if column is None else self._on(topic.path.tables[at], at, column, named)

    def another(self, topic: Topic, old: Filter) -> Filter | None:
        """Another value for the column of a condition, compared in the same way."""
        at, operator = old.condition.at, old.condition.sql.split()[0]
        for _ in range(_TRIES):
            new = self._on(topic.path.tables[at], at, old.column, old.condition.proper)
            if new and new.condition.sql != old.condition.sql and new.condition.sql.split()[0] == operator:
                return new
        return None

    def rank(self, topic: Topic, limit: int | None) -> Rank | None:
        """An order of the rows by a superlative, or by a measure where there is no limit."""
        table = topic.path.tables[0]
        column = self._pick(table, can_rank if limit else is_measure, topic.used(0))
        if column is None:
            return None
        if limit:
            return Rank(column, conditions.order(self._place(table, 0, column), self.rng), limit, self.turn)
        return Rank(column, Condition(self.rng.choice((" DESC", " ASC")), "", 0), None, self.turn)

    def function(self, column: Column) -> tuple[str, str]:
        """An aggregate for a measure: of SQL, and its word."""
        names = [name for name in AGGREGATES if name != "SUM" or column.summable]
        name = self.rng.choice([*names, "AVG"])
        return name, self.rng.choice(AGGREGATES[name])

    def _pick(self, table: Table, fits: Callable[[Column], bool], taken: Collection[Column]) -> Column | None:
        free = [each for each in table.columns if _is_plain(each.name) and fits(each) and each not in taken]
        return self.rng.choice(free) if free else None

    def _on(self, table: Table, at: int, column: Column, named: bool) -> Filter | None:
        for _ in range(_TRIES):
            found = _draw(self._place(table, at, column), named, self.rng)
            if not any(piece in found.sql for piece in _UNREADABLE):
                return Filter(column, replace(found, sql=found.sql.replace(" <>", " !=", 1), evidence=""), self.turn)
        return None

    def _place(self, table: Table, at: int, column: Column) -> Place:
        """Without a name: how the SQL names a column depends on the topic, which may change."""
        return Place(column, "", self.world.cells(table, column), at)


def _is_plain(name: str) -> bool:
    return quote(name) == name


def _can_filter(column: Column, named: bool) -> bool:
    if named:
        return column.role is Role.LABEL
    is_told = column.role is Role.CATEGORY and (not column.coded or column.documented)
    return is_told or column.role in (Role.NUMBER, Role.DATE, Role.FLAG, Role.LABEL)


def _draw(place: Place, named: bool, rng: random.Random) -> Condition:
    role = place.column.role
    if role is Role.LABEL:
        return conditions.own_name(place, rng) if named else conditions.like(place, rng)
    if role is Role.CATEGORY:
        return rng.choices((conditions.equal, conditions.unequal), (8, 1))[0](place, rng)
    if role is Role.FLAG:
        return conditions.flag(place, rng)
    if role is Role.DATE:
        return conditions.since_day(place, rng)
    return rng.choices((conditions.compare, conditions.between), (5, 1))[0](place, rng)
