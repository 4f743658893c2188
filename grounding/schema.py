"""The schema of a SQLite database, read from the file itself.

Columns are typed by what is stored in them, not by what is declared: BIRD and Spider declare text columns that hold
numbers and the other way round. Descriptions come from BIRD's CSV files where there are any.
"""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from grounding.descriptions import Description, read_descriptions
from grounding.errors import InputError
from grounding.sqlite import connect_readonly, quote

SAMPLED_ROWS = 300
COLUMNS_A_QUERY = 400  # two results a column; SQLite allows 2,000 a query
_ISO_DATE = re.compile(r"\d{4}-\d{2}-\d{2}([ T]\d{2}:\d{2}|\Z)")
_HIDDEN = 1  # PRAGMA table_xinfo's mark of a virtual table's hidden column (generated columns are 2 and 3)


@dataclass(frozen=True)
class Column:
    name: str
    type: str
    """text, integer, real, date (ISO dates stored as text) or blob, by what most stored values are."""
    primary_key: bool = False
    description: str = ""
    values_description: str = ""
    """What the stored codes mean, in the words of the database's documentation."""


@dataclass(frozen=True)
class ForeignKey:
    """One column pair of a foreign key; a composite key is several of them."""

    table: str
    column: str
    ref_table: str
    ref_column: str
    inferred: bool = False


@dataclass(frozen=True)
class Table:
    name: str
    columns: tuple[Column, ...]
    is_view: bool = False

    @cached_property
    def by_name(self) -> dict[str, Column]:
        """Columns by lower-case name: SQLite's names ignore ASCII case."""
        return {column.name.lower(): column for column in self.columns}


@dataclass(frozen=True)
class Database:
    db_id: str
    path: Path
    tables: tuple[Table, ...]
    foreign_keys: tuple[ForeignKey, ...]
    warnings: tuple[str, ...] = ()
    """What could not be read, one line each: a view over a missing table, a foreign key to nowhere."""

    @cached_property
    def by_name(self) -> dict[str, Table]:
        """Tables by lower-case name."""
        return {table.name.lower(): table for table in self.tables}

    @property
    def column_count(self) -> int:
        return sum(len(table.columns) for table in self.tables)

    @classmethod
    def read(cls, path: Path, description_dir: Path | None = None) -> Database:
        """Reads tables, views, keys, stored types and descriptions.

        `description_dir` defaults to `database_description` beside the file, if there is one. Raises InputError for
        a file that is no database, cannot be read, or has no tables.
        """
        path = Path(path)
        folder = description_dir or path.parent / "database_description"
        connection = connect_readonly(path)
        try:
            tables, warnings = _read_tables(connection, read_descriptions(folder))
            foreign_keys, dangling = _read_foreign_keys(connection, tables)
        except sqlite3.Error as error:
            raise InputError(f"{path}: the schema cannot be read ({error})") from error
        finally:
            connection.close()
        if not tables:
            raise InputError(f"{path}: the database has no tables; nothing can be asked of it")
        return cls(path.stem, path, tables, foreign_keys, (*warnings, *dangling))


def _read_tables(
    connection: sqlite3.Connection, descriptions: dict[tuple[str, str], Description]
) -> tuple[tuple[Table, ...], list[str]]:
    names = connection.execute(
        "SELECT name, type FROM sqlite_master WHERE type IN ('table', 'view') AND substr(name, 1, 7) <> 'sqlite_'"
    ).fetchall()
    tables, warnings = [], []
    for name, kind in names:
        try:
            columns = _read_columns(connection, name, descriptions)
        except sqlite3.OperationalError as error:
            # One bad view or virtual table must not hide the rest, but a lock or a broken file concerns them all.
            if kind != "view" and "no such module" not in str(error):
                raise
            warnings.append(f"{kind} {name} is left out: {error}")
            continue
        tables.append(Table(name, columns, is_view=kind == "view"))
    return tuple(tables), warnings


def _read_columns(
    connection: sqlite3.Connection, table: str, descriptions: dict[tuple[str, str], Description]
) -> tuple[Column, ...]:
    rows = connection.execute(f"PRAGMA table_xinfo({quote(table)})").fetchall()
    rows = [row for row in rows if row[6] != _HIDDEN]
    stored = _stored_types(connection, table, [row[1] for row in rows])
    columns = []
    for (_, name, declared, _, _, key_position, _), stored_type in zip(rows, stored):
        described = descriptions.get((table.lower(), name.lower()), Description())
        columns.append(
            Column(
                name=name,
                type=stored_type or declared_type(declared),
                primary_key=key_position > 0,
                description=described.column,
                values_description=described.values,
            )
        )
    return tuple(columns)


def _stored_types(connection: sqlite3.Connection, table: str, columns: list[str]) -> list[str | None]:
    """The type of most of each column's sampled values; None where all of them are NULL."""
    types: list[str | None] = []
    for start in range(0, len(columns), COLUMNS_A_QUERY):
        names = [quote(name) for name in columns[start : start + COLUMNS_A_QUERY]]
        fields = ", ".join(f"typeof({n}), CASE typeof({n}) WHEN 'text' THEN substr({n}, 1, 20) END" for n in names)
        rows = connection.execute(f"SELECT {fields} FROM {quote(table)} LIMIT {SAMPLED_ROWS}").fetchall()
        for position in range(len(names)):
            types.append(_majority_type([(row[2 * position], row[2 * position + 1]) for row in rows]))
    return types


def _majority_type(cells: list[tuple[str, str | None]]) -> str | None:
    counts = Counter(
        "date" if kind == "text" and _ISO_DATE.match(text or "") else kind for kind, text in cells if kind != "null"
    )
    if counts["real"]:  # SQLite stores 2.0 in an untyped column as it came: integers beside reals are reals
        counts["real"] += counts.pop("integer", 0)
    return max(counts, key=lambda kind: (counts[kind], kind)) if counts else None


def declared_type(declared: str) -> str:
    """The type that a declaration means, by SQLite's affinity rules; dates stand apart.

    >>> [declared_type(d) for d in ("VARCHAR(20)", "BIGINT", "DECIMAL(8,2)", "DATETIME", "")]
    ['text', 'integer', 'real', 'date', 'blob']
    """
    upper = declared.upper()
    if "DATE" in upper or "TIMESTAMP" in upper:
        return "date"
    if "INT" in upper:
        return "integer"
    if any(word in upper for word in ("CHAR", "CLOB", "TEXT")):
        return "text"
    return "blob" if not upper or "BLOB" in upper else "real"


def _read_foreign_keys(
    connection: sqlite3.Connection, tables: tuple[Table, ...]
) -> tuple[tuple[ForeignKey, ...], list[str]]:
    by_name = {table.name.lower(): table for table in tables}
    keys, dangling = [], []
    for table in tables:
        rows = connection.execute(f"PRAGMA foreign_key_list({quote(table.name)})").fetchall()
        for _, position, ref_name, column, ref_column, *_ in sorted(rows, key=lambda row: row[:2]):
            ref_table = by_name.get(ref_name.lower())
            ref = _referred_column(connection, ref_table, ref_column, position) if ref_table else None
            own = table.by_name.get(column.lower())
            if own and ref:
                keys.append(ForeignKey(table.name, own.name, ref_table.name, ref))
            else:
                dangling.append(f"foreign key {table.name}.{column} refers to nothing: {ref_name}.{ref_column}")
    return tuple(dict.fromkeys(keys)), dangling


def _referred_column(connection: sqlite3.Connection, table: Table, column: str | None, position: int) -> str | None:
    """The referred column's own spelling; a foreign key that names none means the primary key, in its order."""
    if column is None:
        info = connection.execute(f"PRAGMA table_info({quote(table.name)})").fetchall()
        key = [row[1] for row in sorted(info, key=lambda row: row[5]) if row[5] > 0]
        return key[position] if position < len(key) else None
    found = table.by_name.get(column.lower())
    return found.name if found else None
