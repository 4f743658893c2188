"""Representative values of each column: what a question can mention.

Only text is taken, by how each cell is stored, whatever its column declares; numbers are written in SQL as the
question says them and need no look-up. Where a column has more values than the cap, its frequent values stay, and of
the rest an even spread (by hash), so that the choice does not depend on the order of rows or of the alphabet.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from zlib import crc32

from grounding.schema import Database
from grounding.sqlite import connect_readonly, quote


@dataclass(frozen=True)
class StoredValue:
    table: str
    column: str
    text: str
    count: int
    """Rows of the column that hold it."""


def stored_values(database: Database, max_per_column: int, max_chars: int) -> Iterator[StoredValue]:
    """Distinct texts of every column of every table, most frequent first within a column.

    Views are left out: their values are those of the tables beneath them.
    """
    connection = connect_readonly(database.path)
    # As bytes, since SQLite would decode a text argument strictly.
    connection.create_function("spread", 1, crc32, deterministic=True)
    try:
        for table in database.tables:
            for column in table.columns if not table.is_view else ():
                yield from _column_values(connection, table.name, column.name, max_per_column, max_chars)
    finally:
        connection.close()


def _column_values(
    connection: sqlite3.Connection, table: str, column: str, limit: int, max_chars: int
) -> Iterator[StoredValue]:
    # The inner query leaves only its own two names in sight: a table may have columns called value or rows.
    rows = connection.execute(
        f"SELECT value, count(*) AS rows FROM (SELECT substr({quote(column)}, 1, ?) AS value FROM {quote(table)}"
        f" WHERE typeof({quote(column)}) = 'text' AND trim({quote(column)}) <> '')"
        " GROUP BY value ORDER BY rows DESC, spread(CAST(value AS BLOB)), value LIMIT ?",
        (max_chars, limit),
    )
    for text, count in rows:
        yield StoredValue(table, column, text, count)
