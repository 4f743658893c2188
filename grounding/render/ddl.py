"""CREATE TABLE statements that SQLite executes as they stand; what is not DDL is in comments to the end of a line."""

from __future__ import annotations

from collections.abc import Sequence

from grounding.render.keys import Pair, foreign_keys, places_of, primary_key
from grounding.render.shown import Shown, ShownColumn


def write_ddl(tables: Sequence[Shown]) -> str:
    """The tables' statements."""
    places = places_of(tables)
    return "\n".join(_table(table, foreign_keys(table, places)) for table in tables)


def _table(table: Shown, keys: Sequence[Sequence[Pair]]) -> str:
    lines = [(f"{column.name} {column.type.upper()}", _comment(column)) for column in table.columns]
    if key := primary_key(table):
        lines.append((f"PRIMARY KEY ({', '.join(key)})", ""))
    for pairs in keys:
        own = ", ".join(column.name for column, _ in pairs)
        referred = ", ".join(reference.column for _, reference in pairs)
        first = pairs[0][1]
        comment = " -- inferred" if first.is_inferred else ""
        lines.append((f"FOREIGN KEY ({own}) REFERENCES {first.table} ({referred})", comment))
    last = len(lines) - 1
    body = [f"  {line}{',' if i < last else ''}{comment}" for i, (line, comment) in enumerate(lines)]
    return "\n".join([f"CREATE TABLE {table.name} (" + (f" -- {table.note}" if table.note else ""), *body, ");"])


def _comment(column: ShownColumn) -> str:
    parts = [part for part in (column.note, column.description) if part]
    if column.matched:
        parts.append(f"matches {', '.join(column.matched)}")
    if column.samples:
        parts.append(f"e.g. {', '.join(column.samples)}")
    return f" -- {'; '.join(parts)}" if parts else ""
