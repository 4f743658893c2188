"""CREATE TABLE statements that SQLite executes as they stand; what is not DDL is in comments to the end of a line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from grounding.render.shown import Reference, Shown, ShownColumn, shown_places


def write_ddl(tables: Sequence[Shown]) -> str:
    """The tables' statements."""
    places = shown_places(tables)
    return "\n".join(_table(table, places) for table in tables)


def _table(table: Shown, places: set[tuple[str, str]]) -> str:
    lines = [(f"{column.name} {column.type.upper()}", _comment(column)) for column in table.columns]
    key = [column.name for column in table.columns if column.primary_key]
    if key:
        lines.append((f"PRIMARY KEY ({', '.join(key)})", ""))
    for pairs in _foreign_keys(table, places):
        own = ", ".join(column.name for column, _ in pairs)
        referred = ", ".join(reference.column for _, reference in pairs)
        first = pairs[0][1]
        comment = " -- inferred" if first.is_inferred else ""
        lines.append((f"FOREIGN KEY ({own}) REFERENCES {first.table} ({referred})", comment))
    last = len(lines) - 1
    body = [f"  {line}{',' if i < last else ''}{comment}" for i, (line, comment) in enumerate(lines)]
    return "\n".join([f"CREATE TABLE {table.name} (" + (f" -- {table.note}" if table.note else ""), *body, ");"])


def _foreign_keys(table: Shown, places: set[tuple[str, str]]) -> Iterator[list[tuple[ShownColumn, Reference]]]:
    """The column pairs of each foreign key whose columns are shown; of a composite one, those that are."""
    composite: dict[tuple[int, str], list[tuple[ShownColumn, Reference]]] = {}
    for column in table.columns:
        for reference in column.references:
            if (reference.table, reference.column) not in places:
                continue
            if reference.composite is None:
                yield [(column, reference)]
            else:
                composite.setdefault((reference.composite, reference.table), []).append((column, reference))
    yield from composite.values()


def _comment(column: ShownColumn) -> str:
    parts = [part for part in (column.note, column.description) if part]
    if column.matched:
        parts.append(f"matches {', '.join(column.matched)}")
    if column.samples:
        parts.append(f"e.g. {', '.join(column.samples)}")
    return f" -- {'; '.join(parts)}" if parts else ""
