"""The keys of what is shown. Half of a composite key would be a wrong join, or say that what repeats does not: so a key
of which a budget has taken a column is not shown."""

from __future__ import annotations

from collections.abc import Sequence

from grounding.render.shown import Reference, Shown, ShownColumn

Pair = tuple[ShownColumn, Reference]


def places_of(tables: Sequence[Shown]) -> set[tuple[str, str]]:
    """The columns that a foreign key may point at in what is written."""
    return {(table.name, column.name) for table in tables for column in table.columns}


def primary_key(table: Shown) -> list[str]:
    """The names of the primary key's columns; none where one of them is not shown."""
    names = [column.name for column in table.columns if column.primary_key]
    return names if len(names) == table.key_columns else []


def foreign_keys(table: Shown, places: set[tuple[str, str]]) -> list[list[Pair]]:
    """The column pairs of each foreign key whose columns are shown, all of them; composite keys last."""
    single: list[list[Pair]] = []
    composite: dict[tuple[int, str], list[Pair]] = {}
    for column in table.columns:
        for reference in column.references:
            if (reference.table, reference.column) not in places:
                continue
            if reference.composite is None:
                single.append([(column, reference)])
            else:
                composite.setdefault((reference.composite, reference.table), []).append((column, reference))
    return single + [pairs for pairs in composite.values() if len(pairs) == pairs[0][1].pairs]
