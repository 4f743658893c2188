"""Reading a schema: from the SQLite file itself, then from the documentation that comes with it.

Columns are typed by what is stored in them, not by what is declared: BIRD and Spider declare text columns that hold
numbers and the other way round. Descriptions come from BIRD's CSV files, then from tables.json; keys from the
database, then from tables.json, then they are inferred.
"""

from __future__ import annotations

import itertools
import re
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

from grounding.declared_keys import read_declared_keys
from grounding.descriptions import read_descriptions
from grounding.errors import InputError
from grounding.infer import infer_keys
from grounding.schema import Column, Database, Table
from grounding.sqlite import connect_readonly, explain, primary_code, quote
from grounding.tables_json import document, find_tables_json, read_tables_json

SAMPLED_ROWS = 300
COLUMNS_A_QUERY = 400  # two results a column; SQLite allows 2,000 a query
MAX_STEPS = 30_000_000  # of SQLite's machine for one table's sample, about a second; the same ones each time
_STEPS_A_CALL = 10_000
# Result codes of what is wrong with one table or view, not with the file.
_OF_ONE_TABLE = (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_CONSTRAINT)
# The tables in which a full-text table keeps its words; before 3.37 SQLite did not tell them from others.
_SHADOWS = "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'shadow'"
if sqlite3.sqlite_version_info < (3, 37):
    _SHADOWS = ""
_ISO_DATE = re.compile(r"\d{4}-\d{2}-\d{2}([ T]\d{2}:\d{2}|\Z)")
_HIDDEN = 1  # PRAGMA table_xinfo's mark of a virtual table's hidden column (generated columns are 2 and 3)


def read_database(path: Path, description_dir: Path | None, tables_json: Path | None, infer: bool) -> Database:
    """See `Database.read`."""
    with closing(connect_readonly(path)) as connection:
        try:
            tables, unread = _read_tables(connection)
            if not tables:
                raise InputError(f"{path}: {_no_tables(unread)}")
            keys, dangling = read_declared_keys(connection, tables)
            descriptions = read_descriptions(description_dir or path.parent / "database_description")
            tables, undescribed = descriptions.describe(tables)
            said = read_tables_json(tables_json or find_tables_json(path), path.stem, is_found=tables_json is None)
            tables, keys, wrong = document(tables, keys, said)
            if infer:
                keys = (*keys, *infer_keys(connection, tables, keys))
        except sqlite3.Error as error:
            raise InputError(f"{path}: the schema cannot be read ({explain(error)})") from error
    return Database(path.stem, path, tables, keys, (*unread, *dangling, *undescribed, *wrong))


def _no_tables(unread: list[str]) -> str:
    found = "the database has no tables" if not unread else f"nothing in the database can be read: {unread[0]}"
    return f"{found}; nothing can be asked of it"


def _read_tables(connection: sqlite3.Connection) -> tuple[tuple[Table, ...], list[str]]:
    names = connection.execute(
        "SELECT name, type FROM sqlite_master WHERE type IN ('table', 'view') AND substr(name, 1, 7) <> 'sqlite_'"
        f" AND name NOT IN ({_SHADOWS})"
    ).fetchall()
    tables, warnings = [], []
    for name, kind in names:
        try:
            columns, is_slow = _read_columns(connection, name)
        except sqlite3.Error as error:
            # A view over nothing, a table whose module or function is not here must not hide the rest.
            if primary_code(error) not in _OF_ONE_TABLE:
                raise
            warnings.append(f"{kind} {name} is left out: {error}")
            continue
        if is_slow:
            warnings.append(f"{kind} {name}: the types are those declared, since it takes long to read")
        tables.append(Table(name, columns, is_view=kind == "view"))
    return tuple(tables), warnings


def _read_columns(connection: sqlite3.Connection, table: str) -> tuple[tuple[Column, ...], bool]:
    """A table's columns, and whether its rows took too long to read: a view may sort and count whole tables."""
    rows = connection.execute(f"PRAGMA table_xinfo({quote(table)})").fetchall()
    rows = [row for row in rows if row[6] != _HIDDEN]
    stored, is_slow = [None] * len(rows), False
    calls = itertools.count(1)
    connection.set_progress_handler(lambda: next(calls) > MAX_STEPS // _STEPS_A_CALL, _STEPS_A_CALL)
    try:
        stored = _stored_types(connection, table, [row[1] for row in rows])
    except sqlite3.OperationalError as error:
        if primary_code(error) != sqlite3.SQLITE_INTERRUPT:
            raise
        is_slow = True
    finally:
        connection.set_progress_handler(None, 0)
    columns = tuple(
        Column(name, stored_type or declared_type(declared), primary_key=key_position > 0)
        for (_, name, declared, _, _, key_position, _), stored_type in zip(rows, stored)
    )
    return columns, is_slow


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
