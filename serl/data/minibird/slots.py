"""Draws the slots of a question kind: which column, condition, aggregate or number stands in each.

A slot is declared as "name=what" or "name=what@table", where `what` is one of the functions in `DRAWERS`
and `table` counts along the join path from 0.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from serl.data.minibird import conditions
from serl.data.minibird.conditions import Condition, Place
from serl.data.minibird.paths import Path
from serl.data.minibird.phrases import ColumnText, NounPhrase
from serl.data.minibird.schema import Column, Role, quote
from serl.data.minibird.world import World

AGGREGATES = {"AVG": ("average", "mean"), "SUM": ("total",), "MIN": ("lowest", "minimum"),
              "MAX": ("highest", "maximum")}
SHOWN = (Role.LABEL, Role.CATEGORY, Role.NUMBER, Role.DATE)
FILTERED = (Role.CATEGORY, Role.NUMBER, Role.DATE, Role.FLAG)


class NoDraw(Exception):
    """The kind does not fit this path: there is no column of the sort that a slot wants."""


class Draw:
    """What one attempt at a question has drawn so far: names for the SQL, words for the question."""

    def __init__(self, world: World, path: Path, joined: bool, rng: random.Random) -> None:
        """`joined`: the SQL joins the path's tables, so that it names each column with its table."""
        self.world, self.path, self.joined, self.rng = world, path, joined, rng
        self.nouns = tuple(self._noun(table.said) for table in path.tables)
        self.columns: dict[str, tuple[int, Column]] = {}
        self.conditions: dict[str, Condition] = {}
        self.sql: dict[str, str] = {"from": path.sql}
        self.text: dict[str, object] = {}
        for at, table in enumerate(path.tables):
            self.sql[f"t{at}"] = quote(table.name)
            self.sql[f"id{at}"] = self.name(at, table.key)
        for at, join in enumerate(path.joins):
            self.sql[f"fk{at}"] = quote(join.column.name)

    def slot(self, declaration: str) -> None:
        """Draws one slot. Raises NoDraw where the path's tables have nothing for it."""
        name, _, rest = declaration.partition("=")
        what, _, at = rest.partition("@")
        DRAWERS[what](self, name, int(at or 0))

    def finish(self) -> None:
        """Adds the noun phrases, which need every condition."""
        phrase = NounPhrase(self.path, self.nouns, self.conditions)
        self.text |= {"T": phrase, "t": format(phrase.one.alone, "-"), "ts": format(phrase.alone, "-")}
        if len(self.nouns) > 1:
            last = phrase.beginning(len(self.nouns) - 1)
            self.text |= {"U": phrase.beginning(1), "u": format(last.one, "-"), "us": format(last, "-")}

    @property
    def evidence(self) -> list[str]:
        return [condition.evidence for condition in self.conditions.values() if condition.evidence]

    def pick(self, name: str, at: int, fits: Callable[[Column], bool]) -> Column:
        """A column of table `at` that no slot has taken yet."""
        taken = [column for where, column in self.columns.values() if where == at]
        free = [column for column in self.path.tables[at].columns if fits(column) and column not in taken]
        if not free:
            raise NoDraw
        column = self.rng.choice(free)
        self.columns[name] = (at, column)
        return column

    def name(self, at: int, column: Column) -> str:
        """The column as the SQL names it."""
        bare = quote(column.name)
        return f"{quote(self.path.tables[at].name)}.{bare}" if self.joined else bare

    def column(self, name: str, at: int, fits: Callable[[Column], bool]) -> None:
        column = self.pick(name, at, fits)
        self.sql[name] = self.name(at, column)
        self.text[name] = ColumnText(self._noun(column.said), column.verb)

    def place(self, at: int, column: Column) -> Place:
        return Place(column, self.name(at, column), self.world.cells(self.path.tables[at], column), at)

    def condition(self, name: str, condition: Condition) -> None:
        self.conditions[name] = condition
        self.sql[name] = condition.sql

    def _noun(self, said: tuple[str, ...]) -> str:
        """The commonest synonym, or now and then another."""
        return said[0] if len(said) == 1 or self.rng.random() < 0.65 else self.rng.choice(said[1:])


def _show(draw: Draw, name: str, at: int) -> None:
    draw.column(name, at, lambda column: column.role in SHOWN)


def _label(draw: Draw, name: str, at: int) -> None:
    draw.column(name, at, lambda column: column.role is Role.LABEL)


def _measure(draw: Draw, name: str, at: int) -> None:
    draw.column(name, at, lambda column: column.role is Role.NUMBER and column.averaged)


def _sum(draw: Draw, name: str, at: int) -> None:
    draw.column(name, at, lambda column: column.summable)


def _group(draw: Draw, name: str, at: int) -> None:
    draw.column(name, at, lambda column: column.role is Role.CATEGORY and not column.null)


def _date(draw: Draw, name: str, at: int) -> None:
    draw.column(name, at, lambda column: column.role is Role.DATE and not column.null)


def _filter(draw: Draw, name: str, at: int) -> None:
    """A condition on any column but the label."""
    column = draw.pick(name, at, lambda column: column.role in FILTERED)
    draw.condition(name, conditions.any_filter(draw.place(at, column), draw.rng))


def _any(draw: Draw, name: str, at: int) -> None:
    """Any condition, on the label too: "of the patient Ben Hill"."""
    column = draw.pick(name, at, lambda column: column.role in (*FILTERED, Role.LABEL))
    draw.condition(name, conditions.any_filter(draw.place(at, column), draw.rng))


def _part(draw: Draw, name: str, at: int) -> None:
    """A condition that a share of the rows can be measured for: a category, a flag or a notion."""
    column = draw.pick(name, at, lambda c: c.role in (Role.CATEGORY, Role.FLAG) or c.notion is not None)
    place = draw.place(at, column)
    if column.role is Role.CATEGORY:
        draw.condition(name, conditions.equal(place, draw.rng))
    elif column.role is Role.FLAG:
        draw.condition(name, conditions.flag(place, draw.rng))
    else:
        draw.condition(name, conditions.notion(place))


def _own_name(draw: Draw, name: str, at: int) -> None:
    column = draw.pick(name, at, lambda column: column.role is Role.LABEL)
    draw.condition(name, conditions.own_name(draw.place(at, column), draw.rng))


def _missing(draw: Draw, name: str, at: int) -> None:
    column = draw.pick(name, at, lambda column: column.null > 0)
    draw.condition(name, conditions.missing(draw.place(at, column), draw.rng))


def _like(draw: Draw, name: str, at: int) -> None:
    """On the label, even where the question asks for that label."""
    label = draw.path.tables[at].of(Role.LABEL)
    if not label:
        raise NoDraw
    draw.condition(name, conditions.like(draw.place(at, label[0]), draw.rng))


def _order(draw: Draw, name: str, at: int) -> None:
    column = draw.pick(name, at, lambda c: (c.role is Role.NUMBER and (c.averaged or bool(c.most)))
                       or c.role is Role.DATE)
    draw.condition(name, conditions.order(draw.place(at, column), draw.rng))


def _pair(draw: Draw, name: str, at: int) -> None:
    """Two values of one category: the conditions x and y."""
    column = draw.pick(name, at, lambda column: column.role is Role.CATEGORY)
    pair = conditions.pair(draw.place(at, column), draw.rng)
    if pair is None:
        raise NoDraw
    draw.condition("x", pair[0])
    draw.condition("y", pair[1])


def _aggregate(draw: Draw, name: str, at: int) -> None:
    """A function for the measure in slot m."""
    _, column = draw.columns["m"]
    names = [function for function in AGGREGATES if function != "SUM" or column.summable]
    draw.sql[name] = draw.rng.choice([*names, "AVG"])
    draw.text[name] = draw.rng.choice(AGGREGATES[draw.sql[name]])


def _extreme(draw: Draw, name: str, at: int) -> None:
    """Which end of an ordering: the sort direction, and "highest" or "lowest"."""
    draw.sql[name] = draw.rng.choice(("DESC", "DESC", "ASC"))
    draw.text[name] = "highest" if draw.sql[name] == "DESC" else "lowest"


def _side(draw: Draw, name: str, at: int) -> None:
    draw.sql[name], draw.text[name] = draw.rng.choice(((">", "above"), ("<", "below")))


def _few(draw: Draw, name: str, at: int) -> None:
    draw.sql[name] = draw.text[name] = str(draw.rng.choice((2, 3, 5, 10)))


def _least_count(draw: Draw, name: str, at: int) -> None:
    """A number that some but not all groups of slot g, or of the table's rows, are above."""
    by = draw.sql.get("g") or draw.sql[f"id{at}"]
    counts = sorted({row[0] for row in draw.world.run(f"SELECT COUNT(*) FROM {draw.path.sql} GROUP BY {by}")})
    if len(counts) < 2:
        raise NoDraw
    draw.sql[name] = draw.text[name] = str(draw.rng.choice(counts[len(counts) // 3:-1] or counts[:-1]))


DRAWERS: dict[str, Callable[[Draw, str, int], None]] = {
    "show": _show, "label": _label, "measure": _measure, "sum": _sum, "group": _group, "date": _date,
    "filter": _filter, "any": _any, "part": _part, "own_name": _own_name, "missing": _missing, "like": _like,
    "order": _order, "pair": _pair, "aggregate": _aggregate, "extreme": _extreme, "side": _side, "few": _few,
    "least_count": _least_count,
}
