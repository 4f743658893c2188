"""One line a table: `race(id int pk, name text = 'Monaco GP', circuit_id int -> circuit.id)`.

Behind the type, in this order: `pk`, `-> table.column` (with `(inferred)` where no one declared it), `: description`,
`= matched | values`, `e.g. frequent | values`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from grounding.render.keys import foreign_keys, places_of, primary_key
from grounding.render.shown import Reference, Shown, ShownColumn

_SHORT_TYPES = {"integer": "int"}
_CODE = re.compile(r"(?:^|(?<=[;,] ))(\S{1,12}): ")  # "F: finished; R: retired" loses its colons


def write_compact(tables: Sequence[Shown]) -> str:
    """The tables' lines."""
    places = places_of(tables)
    lines = []
    for table in tables:
        key = primary_key(table)
        refers = {(column.name, to) for pairs in foreign_keys(table, places) for column, to in pairs}
        columns = ", ".join(_column(column, column.name in key, refers) for column in table.columns)
        lines.append(f"{table.name}({columns})" + (f" ({table.note})" if table.note else ""))
    return "\n".join(lines)


def _column(column: ShownColumn, is_key: bool, refers: set[tuple[str, Reference]]) -> str:
    text = f"{column.name} {_SHORT_TYPES.get(column.type, column.type)}"
    if column.note:
        text += f" ({column.note})"
    if is_key:
        text += " pk"
    for reference in column.references:
        if (column.name, reference) in refers:
            text += f" -> {reference.table}.{reference.column}" + (" (inferred)" if reference.is_inferred else "")
    if column.description and not column.is_key:  # pk and -> have said what a key is
        text += ": " + _CODE.sub(r"\1 ", column.description)
    if column.matched:
        text += f" = {' | '.join(column.matched)}"
    if column.samples:
        text += f" e.g. {' | '.join(column.samples)}"
    return text
