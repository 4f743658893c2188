"""Values of a database's columns, as far as the inference of keys needs them and within a budget of rows.

A table of a thousand rows is read whole, of a larger one twenty blocks, evenly spread over its row ids: the same values
each time. A declared primary key is searched by its index; another column is a key only if its table can be read whole.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from grounding.schema import DECLARED, Table
from grounding.sqlite import fold_name, quote
from grounding.values import number_text

SMALL_ROWS = 1000
BLOCKS, BLOCK_ROWS = 20, 50
SAMPLED_VALUES = 300  # distinct values (or tuples) of a column that are looked for in a key
KEY_ROWS = 100_000  # rows of a column without index that are read, to see whether it is a key
DATABASE_ROWS = 1_000_000  # rows and look-ups of one database, all together: a second or two

Values = tuple


class Cells:
    """The reader of one database. After its budget is spent, nothing is a key any more."""

    def __init__(self, connection: sqlite3.Connection, budget: int = DATABASE_ROWS):
        self._connection = connection
        self._left = budget
        self._samples: dict[tuple, list[Values]] = {}
        self._keys: dict[tuple, frozenset[Values] | None] = {}

    def sample(self, table: Table, columns: Sequence[str]) -> list[Values]:
        """Distinct values of columns together, without those that hold NULL."""
        place = (table.name, *columns)
        if place not in self._samples:
            rows = dict.fromkeys(row for row in self._some_rows(table, columns) if None not in row)
            step = max(1, len(rows) / SAMPLED_VALUES)
            distinct = list(rows)
            self._samples[place] = [distinct[int(i * step)] for i in range(min(len(distinct), SAMPLED_VALUES))]
        return self._samples[place]

    def is_key(self, table: Table, column: str) -> bool:
        """Whether every row has a value of its own in the column; no where no two rows, or too many, show it."""
        return is_declared_key(table, [column]) or len(self._whole(table, [column]) or ()) > 1

    def share_in(self, sample: Sequence[Values], table: Table, columns: Sequence[str]) -> float:
        """The share of a sample that a key's columns hold; 0 where the budget is spent."""
        if is_declared_key(table, columns):
            condition = " AND ".join(f"{quote(column)} = ?" for column in columns)
            query = f"SELECT 1 FROM {quote(table.name)} WHERE {condition} LIMIT 1"
            found = sum(self._spend(1) and self._connection.execute(query, row).fetchone() is not None
                        for row in sample)  # fmt: skip
        else:
            stored = self._whole(table, columns) or ()
            found = sum(_as_text(row) in stored for row in sample)
        return found / len(sample)

    def _spend(self, rows: int) -> bool:
        self._left -= rows
        return self._left >= 0

    def _whole(self, table: Table, columns: Sequence[str]) -> frozenset[Values] | None:
        """All values of columns that are a key; None where a row has none of its own, or they are too many."""
        place = (table.name, *columns)
        if place not in self._keys:
            limit = min(KEY_ROWS, max(0, self._left))
            fields = ", ".join(map(quote, columns))
            distinct: set[Values] = set()
            is_key = True
            for row in self._connection.execute(f"SELECT {fields} FROM {quote(table.name)}"):
                values = _as_text(row)
                if None in row or values in distinct or len(distinct) == limit:
                    is_key = False
                    break
                distinct.add(values)
            self._spend(len(distinct))
            self._keys[place] = frozenset(distinct) if is_key else None
        return self._keys[place]

    def _some_rows(self, table: Table, columns: Sequence[str]) -> list[Values]:
        rows = self._select(table, columns, f"LIMIT {SMALL_ROWS + 1}")
        rowid = _rowid(table)
        if len(rows) <= SMALL_ROWS or rowid is None:
            return rows
        try:
            name = quote(table.name)
            low, high = self._connection.execute(
                f"SELECT (SELECT min({rowid}) FROM {name}), (SELECT max({rowid}) FROM {name})"
            ).fetchone()
        except sqlite3.OperationalError:  # a table WITHOUT ROWID
            return rows
        starts = [low + (high - low) * block // BLOCKS for block in range(BLOCKS)]
        condition = f"WHERE {rowid} >= ? ORDER BY {rowid} LIMIT {BLOCK_ROWS}"
        return [row for start in starts for row in self._select(table, columns, condition, start)]

    def _select(self, table: Table, columns: Sequence[str], rest: str, *arguments: int) -> list[Values]:
        fields = ", ".join(map(quote, columns))
        rows = self._connection.execute(f"SELECT {fields} FROM {quote(table.name)} {rest}", arguments).fetchall()
        self._spend(len(rows))
        return rows


def is_declared_key(table: Table, columns: Sequence[str]) -> bool:
    """Whether columns are the primary key that SQLite itself knows, and so has an index for."""
    return table.key_origin == DECLARED and sorted(columns) == sorted(table.primary_key)


def _rowid(table: Table) -> str | None:
    """A name of the row's number that no column has taken."""
    taken = {fold_name(column.name) for column in table.columns}
    return next((name for name in ("rowid", "_rowid_", "oid") if name not in taken), None)


def _as_text(row: Values) -> Values:
    """Values as a join compares them where one side is text: 1, 1.0 and '1' are one."""
    return tuple(number_text(cell) if isinstance(cell, (int, float)) else cell for cell in row)
