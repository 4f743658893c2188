"""`values.sqlite`: the distinct texts of a database, the columns they stand in, and their trigrams.

Texts come from the database column by column and are numbered in SQLite, on the disk, so that memory does not grow
with them. String ids are in the order: texts to be embedded, other texts, numbers; in each by first appearance.
Numbers are found by the exact channel alone: neither trigrams nor sentence vectors tell them apart.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from tqdm import tqdm

from grounding.grounded import GroundingConfig
from grounding.io import atomic_write_text, finish
from grounding.schema import Database
from grounding.text import fold, is_number_like
from grounding.trigram import BLOCK, TABLES, write_trigrams
from grounding.values import StoredValue, open_values, plan_columns, read_values, unreadable

STORED = ("text", "integer", "real")  # how a cell is stored, by its number in the table
EMBEDDED, TEXT, NUMBER = range(3)  # kinds of strings
_QUICK = "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -65536; PRAGMA temp_store = FILE;"
_RAW = "CREATE TABLE raw (folded TEXT, kind INTEGER, col INTEGER, text TEXT, stored INTEGER, count INTEGER);"
# A string is spelt as where it is first of the kind that it is numbered by: SQLite takes the other columns of a group
# from the row that holds the minimum.
_ORDER = """
CREATE TABLE ordered AS SELECT folded, text, min((kind << 48) | rowid) AS place FROM raw GROUP BY folded ORDER BY place;
"""
_VALUES = f"""
{TABLES}
CREATE TABLE col (id INTEGER PRIMARY KEY, tbl TEXT NOT NULL, name TEXT NOT NULL, first INTEGER NOT NULL,
    cells INTEGER NOT NULL);
CREATE TABLE string (id INTEGER PRIMARY KEY, folded TEXT NOT NULL);
INSERT INTO string SELECT rowid - 1, folded FROM scratch.ordered;
CREATE UNIQUE INDEX string_folded ON string (folded);
CREATE TABLE cell (string INTEGER NOT NULL, col INTEGER NOT NULL, text TEXT, stored INTEGER, count INTEGER);
INSERT INTO cell SELECT id, col, nullif(text, folded), stored, count FROM scratch.raw JOIN string USING (folded)
    ORDER BY raw.rowid;
CREATE INDEX cell_string ON cell (string);
"""


def write_values(folder: Path, database: Database, config: GroundingConfig, progress: bool) -> None:
    """Writes `values.sqlite`, and for the rest of the build `texts.sqlite` and `columns.json`.

    Raises InputError where the database cannot be read to its end.
    """
    scratch, values = folder / "texts.partial", folder / "values.partial"
    for left in (scratch, values):  # by a build that was stopped in the middle of this
        left.unlink(missing_ok=True)
    with closing(sqlite3.connect(scratch)) as connection:
        connection.executescript(_QUICK + _RAW)
        columns = _write_raw(connection, database, config, progress)
        connection.executescript(_ORDER)
        connection.commit()
    with closing(sqlite3.connect(values)) as connection:
        connection.executescript(_QUICK)
        connection.execute("ATTACH ? AS scratch", (str(scratch),))
        connection.executescript(_VALUES)
        first = 1
        for number, column in enumerate(columns):
            row = (number, column["table"], column["column"], first, column["indexed"])
            connection.execute("INSERT INTO col VALUES (?, ?, ?, ?, ?)", row)
            first += column["indexed"]
        write_trigrams(connection, _blocks(connection, progress))
        connection.execute("DROP TABLE scratch.raw")
        connection.commit()
    atomic_write_text(folder / "columns.json", json.dumps(columns, ensure_ascii=False))
    finish(scratch, folder / "texts.sqlite")
    finish(values, folder / "values.sqlite")  # last: it says that all three are there


def count_kinds(folder: Path) -> tuple[int, int, int, int]:
    """(strings, cells, texts, texts to be embedded)."""
    with closing(sqlite3.connect(folder / "values.sqlite")) as connection:
        ((strings,),) = connection.execute("SELECT count(*) FROM string")
        ((cells,),) = connection.execute("SELECT count(*) FROM cell")
    with closing(sqlite3.connect(folder / "texts.sqlite")) as connection:
        texts, embedded = (
            connection.execute("SELECT count(*) FROM ordered WHERE place < ?", (kind << 48,)).fetchone()[0]
            for kind in (NUMBER, TEXT)
        )
    return strings, cells, texts, embedded


def read_texts(folder: Path, count: int, size: int) -> Iterator[list[str]]:
    """The first `count` strings as they are spelt, `size` at a time."""
    with closing(sqlite3.connect(folder / "texts.sqlite")) as connection:
        rows = connection.execute("SELECT text FROM ordered ORDER BY rowid LIMIT ?", (count,))
        while part := rows.fetchmany(size):
            yield [text for (text,) in part]


def _write_raw(connection: sqlite3.Connection, database: Database, config: GroundingConfig, progress: bool
               ) -> list[dict]:
    """Every value of every column as a row; what was taken of each column."""
    columns = []
    with tqdm(unit="value", desc=f"reading {database.db_id}", leave=False, disable=not progress) as bar:
        for number, (about, values) in enumerate(_read_columns(database, config)):
            kinds = [0, 0, 0]

            def rows(number: int = number, values: Iterator[StoredValue] = values, kinds: list[int] = kinds):
                for value in values:
                    folded = fold(value.text)
                    kind = _kind(value, folded, kinds[EMBEDDED] < config.max_embedded_per_column)
                    kinds[kind] += 1
                    yield folded, kind, number, value.text, STORED.index(value.stored), value.count

            connection.executemany("INSERT INTO raw VALUES (?, ?, ?, ?, ?, ?)", rows())
            bar.update(sum(kinds))
            columns.append({**about, "indexed": sum(kinds), "embeddable": kinds[EMBEDDED]})
    return columns


def _read_columns(database: Database, config: GroundingConfig) -> Iterator[tuple[dict, Iterator[StoredValue]]]:
    """What is known of each column, and its values."""
    with closing(open_values(database)) as connection:
        try:
            for plan in plan_columns(connection, database, config.numbers):
                about = {"table": plan.table, "column": plan.column, "cells": plan.cells, "why": plan.why}
                yield about, _readable(
                    database, read_values(connection, plan, config.max_values_per_column, config.max_value_chars)
                )
        except sqlite3.Error as error:
            raise unreadable(database, error) from error


def _readable(database: Database, values: Iterator[StoredValue]) -> Iterator[StoredValue]:
    try:
        yield from values
    except sqlite3.Error as error:
        raise unreadable(database, error) from error


def _kind(value: StoredValue, folded: str, has_room: bool) -> int:
    if value.stored != "text":
        return NUMBER
    return EMBEDDED if has_room and not is_number_like(folded) else TEXT


def _blocks(connection: sqlite3.Connection, progress: bool) -> Iterator[list[str]]:
    """Folded texts, numbers left out, in the order of their ids."""
    ((texts,),) = connection.execute("SELECT count(*) FROM scratch.ordered WHERE place < ?", (NUMBER << 48,))
    rows = connection.execute("SELECT folded FROM scratch.ordered ORDER BY rowid LIMIT ?", (texts,))
    with tqdm(total=texts, unit="text", desc="trigrams", leave=False, disable=not progress) as bar:
        while part := rows.fetchmany(BLOCK):
            yield [folded for (folded,) in part]
            bar.update(len(part))
