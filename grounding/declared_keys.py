"""The foreign keys that a database declares."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Sequence

from grounding.schema import ForeignKey, Table
from grounding.sqlite import fold_name, quote


def read_declared_keys(
    connection: sqlite3.Connection, tables: Sequence[Table]
) -> tuple[tuple[ForeignKey, ...], list[str]]:
    """The foreign keys, each composite one with all its pairs, and a line for each that refers to nothing."""
    by_name = {fold_name(table.name): table for table in tables}
    keys: list[ForeignKey] = []
    dangling = []
    for table in tables:
        pairs: dict[int, list[tuple]] = defaultdict(list)  # of each key, by its number
        for number, position, ref_table, column, ref_column, *_ in sorted(
            connection.execute(f"PRAGMA foreign_key_list({quote(table.name)})"), key=lambda row: row[:2]
        ):
            pairs[number].append((position, ref_table, column, ref_column))
        for number, named in pairs.items():
            found = [_resolve(connection, table, by_name, *pair) for pair in named]
            if all(found):
                composite = number if len(found) > 1 else None
                keys += [ForeignKey(table.name, *pair, composite=composite) for pair in found]
            else:  # half of a composite key would be a wrong join
                dangling.append(_about(table, named))
    return tuple(dict.fromkeys(keys)), dangling


def _resolve(
    connection: sqlite3.Connection, table: Table, by_name: dict[str, Table], position: int, ref_table: str,
    column: str, ref_column: str | None,
) -> tuple[str, str, str] | None:  # fmt: skip
    """(column, referred table, referred column) in their tables' own spelling; None where one of them is not there."""
    own, ref = table.by_name.get(fold_name(column)), by_name.get(fold_name(ref_table))
    found = _referred_column(connection, ref, ref_column, position) if ref else None
    return (own.name, ref.name, found) if own and found else None


def _referred_column(connection: sqlite3.Connection, table: Table, column: str | None, position: int) -> str | None:
    """The referred column's own spelling; a foreign key that names none means the primary key, in its order."""
    if column is None:
        info = connection.execute(f"PRAGMA table_info({quote(table.name)})").fetchall()
        key = [row[1] for row in sorted(info, key=lambda row: row[5]) if row[5] > 0]
        return key[position] if position < len(key) else None
    found = table.by_name.get(fold_name(column))
    return found.name if found else None


def _about(table: Table, pairs: Sequence[tuple]) -> str:
    _, ref_table, _, _ = pairs[0]
    own = ", ".join(column for _, _, column, _ in pairs)
    referred = ", ".join(ref or "its primary key" for _, _, _, ref in pairs)
    return f"foreign key {table.name}.{own} refers to nothing: {ref_table}.{referred}"
