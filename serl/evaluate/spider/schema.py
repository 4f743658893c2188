"""What exact match knows of a database: names of tables and columns, and which columns are the same by foreign keys."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from grounding.sqlite import connect_readonly, quote
from serl.errors import InputError
from serl.io import read_json


@dataclass(frozen=True)
class Schema:
    """All names in lower case. `same_as` maps `table.column` to the column that stands for its foreign keys."""

    tables: dict[str, tuple[str, ...]]
    same_as: dict[str, str]


@lru_cache(maxsize=512)
def read_schema(db_path: Path, tables_path: Path, db_id: str) -> Schema:
    """Names come from the database itself, foreign keys from tables.json, as in the official evaluation.

    InputError where tables.json does not describe the database.
    """
    entry = _entries(tables_path).get(db_id)
    if entry is None:
        raise InputError(f"{tables_path}: no entry with db_id {db_id!r}; exact match needs its foreign keys")
    try:
        same_as = _same_columns(entry)
    except (KeyError, TypeError, IndexError, ValueError, AttributeError) as error:
        message = f"{tables_path}, db_id {db_id!r}: not in the form of Spider's tables.json ({error!r})"
        raise InputError(message) from error
    return Schema(_names(db_path), same_as)


def _names(db_path: Path) -> dict[str, tuple[str, ...]]:
    with contextlib.closing(connect_readonly(db_path)) as connection:
        names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {
            name.lower(): tuple(row[1].lower() for row in connection.execute(f"PRAGMA table_info({quote(name)})"))
            for name in names
        }


@lru_cache(maxsize=8)
def _entries(tables_path: Path) -> dict[str, dict[str, Any]]:
    entries = read_json(tables_path)
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise InputError(f"{tables_path}: should be a JSON list of objects, one a database")
    return {entry.get("db_id"): entry for entry in entries}


def _same_columns(entry: dict[str, Any]) -> dict[str, str]:
    """Each column of a foreign key → the first column, in tables.json's order, of those it is grouped with.

    Groups are made as the official evaluator makes them: a key joins the first group that has one of its ends.
    Two groups that a later key connects stay apart.
    """
    tables = entry["table_names_original"]
    columns = entry["column_names_original"]
    names = [f"{tables[table]}.{column}".lower() if table >= 0 else "*" for table, column in columns]
    groups: list[set[int]] = []
    for ends in map(set, entry["foreign_keys"]):
        group = next((group for group in groups if group & ends), None)
        if group is None:
            groups.append(ends)
        else:
            group |= ends
    return {names[column]: names[min(group)] for group in groups for column in sorted(group)}
