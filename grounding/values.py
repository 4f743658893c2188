"""Representative values of each column: what a question can mention.

A column is judged by what is stored in it, cell by cell, never by its name or its declaration:

- text is taken, long text cut; dates that are stored as text are text;
- numbers are taken where they name things, as codes, years and identifiers do, and not where they measure or count
  (`numbers_worth` is the rule); blobs are not taken;
- views are left out, since their values are those of the tables beneath them.

Where a column has more values than the cap, its frequent values stay, and of the rest an even spread (by hash), so
that the choice does not depend on the order of rows or of the alphabet.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from zlib import crc32

from grounding.errors import InputError
from grounding.schema import DECLARED, Database, Table
from grounding.sqlite import connect_readonly, explain, quote

COLUMNS_A_QUERY = 400  # three results a column; SQLite allows 2,000 a query
FEW_NUMBERS = 100  # so few distinct numbers are always worth their place: flags, grades, a small table's years
CODES = 1000  # more distinct whole numbers than this are codes only if all are equally wide, as postal codes are
CODE_WIDTH = 4  # digits from which equal width tells of a code: most counts of three digits are equally wide by chance
_NUMBER = "typeof({0}) IN ('integer', 'real')"


@dataclass(frozen=True)
class StoredValue:
    """A distinct value of a column."""

    table: str
    column: str
    text: str
    count: int
    """Rows of the column that hold it."""
    stored: str = "text"
    """text, integer or real: how it is stored, and so whether SQL writes it in quotes."""


@dataclass(frozen=True)
class ColumnPlan:
    """What is taken of a column, and why."""

    table: str
    column: str
    cells: dict[str, int]
    """Cells by how they are stored: text, numbers, blobs; the rest is NULL."""
    text: bool
    numbers: bool
    why: str


def plan_columns(connection: sqlite3.Connection, database: Database, numbers: bool) -> Iterator[ColumnPlan]:
    """What to take of every column, tables in the database's order; `numbers` False leaves all numbers out."""
    surrogates = {
        (table.name, column)
        for table in database.tables if numbers and not table.is_view
        if (column := _sole_key(table)) and _is_counter(connection, table.name, column)
    }
    # Declared keys only: an index must not depend on more than the database's own file.
    refers = {
        (key.table, key.column)
        for key in database.foreign_keys if key.origin == DECLARED and (key.ref_table, key.ref_column) in surrogates
    }
    for table in database.tables:
        if table.is_view:
            for column in table.columns:
                yield ColumnPlan(table.name, column.name, {}, False, False, "a view: see the tables beneath it")
            continue
        for column, cells in _count_cells(connection, table).items():
            place = (table.name, column)
            take, why = False, "numbers are switched off"
            if numbers and cells["numbers"]:
                if place in surrogates:
                    why = "numbers: a surrogate key"
                elif place in refers:
                    why = "numbers: they refer to a surrogate key"
                else:
                    take, why = numbers_worth(*_describe_numbers(connection, *place), rows=cells["numbers"])
            reasons = [
                *(["text"] if cells["text"] else []),
                *([why] if cells["numbers"] else []),
                *(["blobs are not indexed"] if cells["blobs"] else []),
            ]
            yield ColumnPlan(*place, cells, cells["text"] > 0, take, "; ".join(reasons) or "nothing is stored in it")


def numbers_worth(distinct: int, low: float, high: float, fractions: bool, rows: int) -> tuple[bool, str]:
    """Whether a column's numbers are worth indexing, and why.

    `distinct` counts them (above CODES only that it is more need be known), `low` and `high` bound them, `fractions`
    says whether any is not whole, `rows` are the cells that hold one.

    >>> numbers_worth(60, 1961, 2024, False, rows=60)[0], numbers_worth(3000, 0.1, 99.5, True, rows=90_000)[0]
    (True, False)
    >>> numbers_worth(1001, 10_115, 99_998, False, rows=1200)
    (True, 'numbers: whole and all of 5 digits, like codes')
    """
    if distinct <= FEW_NUMBERS:
        return True, "numbers: few are distinct"
    if fractions:
        return False, "numbers: many distinct fractions, measurements"
    if low in (0, 1) and high - low + 1 == distinct == rows:
        return False, "numbers: they count the rows"
    if distinct <= CODES and rows >= 2 * distinct:
        return True, "numbers: whole and often repeated"
    widths = {len(str(int(abs(bound)))) for bound in (low, high)}
    if len(widths) == 1 and max(widths) >= CODE_WIDTH and (low > 0) == (high > 0):
        return True, f"numbers: whole and all of {max(widths)} digits, like codes"
    return False, "numbers: many distinct, seldom repeated, of different widths"


def read_values(connection: sqlite3.Connection, plan: ColumnPlan, limit: int, max_chars: int) -> Iterator[StoredValue]:
    """The values that a plan takes, at most `limit` texts and `limit` numbers, each most frequent first."""
    name, table = quote(plan.column), quote(plan.table)
    kinds = []
    if plan.text:
        kinds.append((f"substr({name}, 1, {int(max_chars)})", f"typeof({name}) = 'text' AND trim({name}) <> ''"))
    if plan.numbers:
        kinds.append((name, _NUMBER.format(name)))
    for value, condition in kinds:
        # The inner query leaves only its own two names in sight: a table may have columns called value or rows.
        # The hash is of bytes, since SQLite would decode a text argument strictly.
        rows = connection.execute(
            f"SELECT value, count(*) AS rows FROM (SELECT {value} AS value FROM {table} WHERE {condition})"
            " GROUP BY value ORDER BY rows DESC, spread(CAST(value AS BLOB)), value LIMIT ?",
            (limit,),
        )
        for found, count in rows:
            if isinstance(found, str):
                if not found.isspace() and found:  # a cut, or a NUL at its start, can leave a text empty
                    yield StoredValue(plan.table, plan.column, found, count)
            else:
                stored = "integer" if isinstance(found, int) else "real"
                yield StoredValue(plan.table, plan.column, number_text(found), count, stored)


def open_values(database: Database) -> sqlite3.Connection:
    """A connection to read a database's values through."""
    connection = connect_readonly(database.path)
    connection.create_function("spread", 1, crc32, deterministic=True)
    return connection


def unreadable(database: Database, error: sqlite3.Error) -> InputError:
    """What to say where a database's values could not be read to their end."""
    return InputError(f"{database.path}: its values cannot be read ({explain(error)})")


def number_text(number: float) -> str:
    """A number as a question writes it, in at most 15 digits, as SQLite prints them.

    >>> number_text(8.0), number_text(0.1 + 0.2), number_text(94_606)
    ('8', '0.3', '94606')
    """
    return str(number) if isinstance(number, int) else f"{number:.15g}"


def _count_cells(connection: sqlite3.Connection, table: Table) -> dict[str, dict[str, int]]:
    """By column, how many cells are text, numbers and blobs."""
    counts: dict[str, dict[str, int]] = {}
    names = [column.name for column in table.columns]
    for start in range(0, len(names), COLUMNS_A_QUERY):
        part = names[start : start + COLUMNS_A_QUERY]
        fields = ", ".join(
            f"total(typeof({n}) = 'text'), total({_NUMBER.format(n)}), total(typeof({n}) = 'blob')"
            for n in map(quote, part)
        )
        row = [int(cell) for cell in connection.execute(f"SELECT {fields} FROM {quote(table.name)}").fetchone()]
        for position, name in enumerate(part):
            counts[name] = dict(zip(("text", "numbers", "blobs"), row[3 * position : 3 * position + 3]))
    return counts


def _describe_numbers(connection: sqlite3.Connection, table: str, column: str) -> tuple[int, float, float, bool]:
    """(distinct numbers, at most one more than CODES; least; greatest; whether any is not whole)."""
    name, condition = quote(column), _NUMBER.format(quote(column))
    (distinct,) = connection.execute(
        f"SELECT count(*) FROM (SELECT DISTINCT {name} FROM {quote(table)} WHERE {condition} LIMIT {CODES + 1})"
    ).fetchone()
    low, high, fractions = connection.execute(
        f"SELECT min({name}), max({name}), max({name} <> CAST({name} AS INTEGER)) FROM {quote(table)} WHERE {condition}"
    ).fetchone()
    return distinct, low, high, bool(fractions)


def _sole_key(table: Table) -> str | None:
    return table.primary_key[0] if table.key_origin == DECLARED and len(table.primary_key) == 1 else None


def _is_counter(connection: sqlite3.Connection, table: str, column: str) -> bool:
    """Whether a key only numbers its rows: all whole, and at least every second number is in use."""
    name = quote(column)
    rows, whole, low, high = connection.execute(
        f"SELECT count(*), total(typeof({name}) = 'integer'), min({name}), max({name}) FROM {quote(table)}"
    ).fetchone()
    return rows == whole > 0 and high - low < 2 * rows
