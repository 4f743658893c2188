"""The small language in which a database of the embedded benchmark is declared.

A domain file is data: `Database`, `table` and one constructor per sort of column (`key`, `ref`, `label`,
`category`, `code`, `number`, `date`, `flag`). A declaration says three things at once: what the cells
hold, how a question speaks of them, and what the database's documentation tells.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

# SQLite keywords that cannot name a table or column without quotes.
RESERVED = frozenset(
    """add all alter and as autoincrement between case cast check collate commit constraint create default deferrable
    delete distinct drop else escape except exists foreign from group having in index insert intersect into is isnull
    join limit not nothing notnull null on or order primary raise references returning select set table then to
    transaction union unique update using values when where""".split())


class Role(StrEnum):
    """What a column is for; question kinds choose columns by it."""

    KEY = "key"  # integer primary key
    REF = "ref"  # foreign key to another table's primary key
    LABEL = "label"  # the unique text by which a row is known: a name, a title
    CATEGORY = "category"  # few distinct texts, codes included
    NUMBER = "number"  # a quantity that can be compared, ordered and averaged
    DATE = "date"  # text 'YYYY-MM-DD'
    FLAG = "flag"  # 0 or 1


@dataclass(frozen=True)
class Notion:
    """A word that only evidence explains: `heavy` refers to `weight > 95`."""

    word: str
    operator: str
    threshold: float


@dataclass(frozen=True)
class Column:
    """One column. Fields that a role does not use keep their defaults."""

    name: str
    role: Role
    said: tuple[str, ...]  # how questions call the column, commonest first
    description: str = ""
    null: float = 0.0  # share of cells that are NULL
    patterns: tuple[str, ...] = ()  # LABEL: how texts are made, e.g. "{first} {last}"
    cells: tuple[str, ...] = ()  # CATEGORY: what is stored, commonest first
    spoken: tuple[str, ...] = ()  # CATEGORY: what a question says for each of `cells`
    coded: bool = False  # CATEGORY: the cell is a code that the spoken word does not give away
    documented: bool = True  # the description file explains the codes (else only evidence does)
    adjective: bool = False  # the spoken value stands before the noun: "female patients"
    phrases: tuple[str, ...] = ()  # the spoken value after the noun: "from {v}"
    low: float = 0.0  # NUMBER: range; DATE: first and last year
    high: float = 0.0
    digits: int = 0  # NUMBER: decimals; 0 stores integers
    unit: str = ""
    summable: bool = False  # a total over rows means something
    averaged: bool = True  # a mean or an extreme over rows means something (not so for years and floors)
    counted: str = ""  # NUMBER: the things counted: "with more than 200 pages"
    more: str = ""  # NUMBER: "heavier than {v}"
    less: str = ""
    most: str = ""  # NUMBER, DATE: superlative before the noun, for the greatest and the least
    least: str = ""
    notion: Notion | None = None
    verb: str = ""  # DATE: "born", as in "born in 1990"
    yes: str = ""  # FLAG: words for 1 and 0
    no: str = ""
    target: str = ""  # REF: the table referred to
    link: str = ""  # REF: the words between the two tables' nouns: visits "of" patients


@dataclass(frozen=True)
class Table:
    """One table; `said` is what questions call one of its rows (singular), commonest first."""

    name: str
    said: tuple[str, ...]
    rows: int
    columns: tuple[Column, ...]

    @property
    def key(self) -> Column:
        return self.of(Role.KEY)[0]

    def of(self, *roles: Role) -> list[Column]:
        """Columns of the given roles, in the order of their declaration."""
        return [column for column in self.columns if column.role in roles]


@dataclass(frozen=True)
class Database:
    name: str
    tables: tuple[Table, ...]  # referred-to tables first

    def table(self, name: str) -> Table:
        return next(table for table in self.tables if table.name == name)


def quote(name: str) -> str:
    """The identifier as SQL needs it: bare if it can be, else in double quotes.

    >>> quote("city"), quote("Order Date"), quote("group")
    ('city', '"Order Date"', '"group"')
    """
    bare = re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) and name.lower() not in RESERVED
    return name if bare else f'"{name}"'


def table(name: str, said: str, rows: int, *columns: Column) -> Table:
    """A table; `said` holds synonyms separated by "/"."""
    return Table(name, tuple(said.split("/")), rows, columns)


def key(name: str = "id") -> Column:
    return Column(name, Role.KEY, ("id",), "unique identifier")


def ref(name: str, target: str, link: str) -> Column:
    return Column(name, Role.REF, (), f"the {target} it belongs to", target=target, link=link)


def label(name: str, *patterns: str, said: str = "") -> Column:
    return Column(name, Role.LABEL, _said(name, said), patterns=patterns)


def category(name: str, cells: tuple[str, ...], said: str = "", stored=str, **options) -> Column:
    """Spoken words `cells`, kept as `stored` writes them (for example `str.upper`)."""
    return Column(name, Role.CATEGORY, _said(name, said), cells=tuple(map(stored, cells)), spoken=cells,
                  **options)


def code(name: str, words: dict[str, str], said: str = "", **options) -> Column:
    """Codes and the words questions use instead: {"F": "female", "M": "male"}."""
    return Column(name, Role.CATEGORY, _said(name, said), cells=tuple(words), spoken=tuple(words.values()),
                  coded=True, **options)


def number(name: str, low: float, high: float, said: str = "", notion: tuple[str, str, float] | None = None,
           **options) -> Column:
    return Column(name, Role.NUMBER, _said(name, said), low=low, high=high,
                  notion=Notion(*notion) if notion else None, **options)


def date(name: str, first: int, last: int, verb: str, said: str = "", **options) -> Column:
    return Column(name, Role.DATE, _said(name, said), low=first, high=last, verb=verb, **options)


def flag(name: str, yes: str, no: str, adjective: bool = True, **options) -> Column:
    return Column(name, Role.FLAG, _said(name, ""), yes=yes, no=no, adjective=adjective, **options)


def _said(name: str, said: str) -> tuple[str, ...]:
    return tuple(said.split("/")) if said else (name.replace("_", " ").lower(),)
