"""S' as prompt text, in two styles, deterministic and within a budget of tokens.

    compact   race(id int pk, name text = 'Monaco GP', status text: F finished; R retired, circuit_id int -> circuit.id)
    ddl       CREATE TABLE statements with descriptions, samples and matched values as comments

Over budget, samples go first, then descriptions of columns without evidence, then all descriptions, then columns one
by one: those that are neither evidence nor key, then the others from the last table to the first, keys before
evidence.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from grounding.errors import InputError
from grounding.grounded import GroundedSchema, LinkedTable
from grounding.safety import neutralize
from grounding.schema import Column, Table
from grounding.sqlite import fold_name, quote_if_needed, quote_text
from grounding.text import content_stems, name_stems

MATCHES_A_COLUMN = 2
VALUE_CHARS = 60
DESCRIPTION_CHARS = 120
_SHORT_TYPES = {"integer": "int"}
_CODE = re.compile(r"(?:^|(?<=[;,] ))(\S{1,12}): ")  # "F: finished; R: retired" loses its colons


@dataclass(frozen=True)
class _Column:
    """A column as it will be written; every text is harmless already."""

    name: str
    type: str
    primary_key: bool
    refers_to: tuple[tuple[str, str], ...]
    description: str
    matched: tuple[str, ...]
    samples: tuple[str, ...]
    has_evidence: bool

    @property
    def is_key(self) -> bool:
        return self.primary_key or bool(self.refers_to)


@dataclass(frozen=True)
class _Table:
    name: str
    columns: tuple[_Column, ...]


def render_schema(
    grounded: GroundedSchema,
    style: str = "compact",
    budget: int | None = None,
    count_tokens: Callable[[str], int] = len,
    samples: int = 0,
) -> str:
    """The schema as text of at most `budget` tokens by `count_tokens` (None: no limit).

    `samples` frequent values are shown for text columns that the question gives evidence for and that no value
    matched. Raises InputError for an unknown style, and where not even one column fits the budget.
    """
    if style not in _STYLES:
        raise InputError(f"schema style {style!r} is unknown; use one of {', '.join(_STYLES)}")
    write = _STYLES[style]
    tables = [_prepare(grounded, table, samples) for table in grounded.tables]
    if budget is None:
        return write(tables)
    removal = _removal_order(tables)
    fewest, most = 0, 3 + len(removal) - 1  # cuts; at least one column stays
    if count_tokens(write(_cut(tables, most, removal))) > budget:
        raise InputError(f"{grounded.database.path}: no column of the schema fits {budget} tokens; raise the budget")
    while fewest < most:  # every cut makes the text shorter: look for the first that fits
        middle = (fewest + most) // 2
        if count_tokens(write(_cut(tables, middle, removal))) <= budget:
            most = middle
        else:
            fewest = middle + 1
    return write(_cut(tables, fewest, removal))


def _prepare(grounded: GroundedSchema, linked: LinkedTable, samples: int) -> _Table:
    """A kept table with its kept columns in the database's order."""
    table = grounded.database.by_name[fold_name(linked.name)]
    kept = {column.name: column for column in linked.columns}
    sampled = {found.column: found.values for found in grounded.samples if found.table == table.name}
    columns = []
    for column in table.columns:
        if column.name not in kept:
            continue
        # In the order of likeness and of the question, which is easier to read than the order of relevance.
        matches = [m for m in grounded.values if (m.table, m.column) == (table.name, column.name)]
        matched = sorted(matches, key=lambda m: (-m.score, m.mention))
        refers_to = tuple(
            (key.ref_table, key.ref_column)
            for key in grounded.database.foreign_keys
            if (key.table, key.column) == (table.name, column.name)
        )
        description = worthwhile_description(table, column, is_key=column.primary_key or bool(refers_to))
        shown_samples = () if matched else sampled.get(column.name, ())[:samples]
        columns.append(
            _Column(
                name=column.name,
                type=column.type,
                primary_key=column.primary_key,
                refers_to=refers_to,
                description=neutralize(description, DESCRIPTION_CHARS),
                matched=tuple(_literal(match.value, match.stored) for match in matched[:MATCHES_A_COLUMN]),
                samples=tuple(_literal(value) for value in shown_samples),
                has_evidence=kept[column.name].has_evidence,
            )
        )
    return _Table(table.name, tuple(columns))


def worthwhile_description(table: Table, column: Column, is_key: bool) -> str:
    """What the documentation says beyond the names: the meaning of codes, else the meaning of a name that is opaque.

    >>> race = Table("race", ())
    >>> worthwhile_description(race, Column("status", "text", False, "status of the race", "F: finished"), False)
    'F: finished'
    >>> worthwhile_description(race, Column("crowd", "integer", False, "attendance of the race"), False)
    'attendance'
    >>> worthwhile_description(race, Column("race_name", "text", False, "the race's name"), False)
    ''
    """
    if column.values_description:
        return column.values_description
    says_name = name_stems(column.name) & set(content_stems(column.description))
    if is_key or says_name:
        return ""
    return re.sub(rf"\s+of (the|an?) {re.escape(table.name)}\b", "", column.description, flags=re.IGNORECASE)


def _literal(value: str, stored: str = "text") -> str:
    """As SQL writes it: text in quotes, numbers without."""
    return quote_text(neutralize(value, VALUE_CHARS)) if stored == "text" else value


def _removal_order(tables: Sequence[_Table]) -> list[tuple[str, str]]:
    """All columns as (table, column), the most dispensable first."""
    ranked = [
        ((column.has_evidence or column.is_key, -t, column.has_evidence, -c), (table.name, column.name))
        for t, table in enumerate(tables)
        for c, column in enumerate(table.columns)
    ]
    return [place for _, place in sorted(ranked)]


def _cut(tables: Sequence[_Table], cuts: int, removal: Sequence[tuple[str, str]]) -> list[_Table]:
    """The tables after the first `cuts` steps: samples, idle descriptions, descriptions, then column by column."""
    gone = set(removal[: max(0, cuts - 3)])
    shortened = []
    for table in tables:
        columns = tuple(
            replace(
                column,
                samples=column.samples if cuts < 1 else (),
                description=column.description if cuts < (3 if column.has_evidence else 2) else "",
            )
            for column in table.columns
            if (table.name, column.name) not in gone
        )
        if columns:
            shortened.append(_Table(table.name, columns))
    return shortened


def _write_compact(tables: Sequence[_Table]) -> str:
    shown = _shown(tables)
    lines = []
    for table in tables:
        columns = ", ".join(_compact_column(column, shown) for column in table.columns)
        lines.append(f"{_name(table.name)}({columns})")
    return "\n".join(lines)


def _compact_column(column: _Column, shown: set[tuple[str, str]]) -> str:
    text = f"{_name(column.name)} {_SHORT_TYPES.get(column.type, column.type)}"
    if column.primary_key:
        text += " pk"
    for place in column.refers_to:
        if place in shown:
            text += f" -> {_name(place[0])}.{_name(place[1])}"
    if column.description and not column.is_key:  # pk and -> have said what a key is
        text += ": " + _CODE.sub(r"\1 ", column.description)
    if column.matched:
        text += f" = {' | '.join(column.matched)}"
    if column.samples:
        text += f" e.g. {' | '.join(column.samples)}"
    return text


def _write_ddl(tables: Sequence[_Table]) -> str:
    shown = _shown(tables)
    return "\n".join(_ddl_table(table, shown) for table in tables)


def _ddl_table(table: _Table, shown: set[tuple[str, str]]) -> str:
    lines = [(f"{_name(column.name)} {column.type.upper()}", _ddl_comment(column)) for column in table.columns]
    key = [_name(column.name) for column in table.columns if column.primary_key]
    if key:
        lines.append((f"PRIMARY KEY ({', '.join(key)})", ""))
    for column in table.columns:
        for ref_table, ref_column in column.refers_to:
            if (ref_table, ref_column) in shown:
                reference = f"REFERENCES {_name(ref_table)} ({_name(ref_column)})"
                lines.append((f"FOREIGN KEY ({_name(column.name)}) {reference}", ""))
    last = len(lines) - 1
    body = [f"  {line}{',' if i < last else ''}{comment}" for i, (line, comment) in enumerate(lines)]
    return "\n".join([f"CREATE TABLE {_name(table.name)} (", *body, ");"])


def _ddl_comment(column: _Column) -> str:
    parts = [column.description] if column.description else []
    if column.matched:
        parts.append(f"matches {', '.join(column.matched)}")
    if column.samples:
        parts.append(f"e.g. {', '.join(column.samples)}")
    return f" -- {'; '.join(parts)}" if parts else ""


def _shown(tables: Sequence[_Table]) -> set[tuple[str, str]]:
    """The columns that a foreign key may point at in what is written."""
    return {(table.name, column.name) for table in tables for column in table.columns}


def _name(name: str) -> str:
    return neutralize(quote_if_needed(name))


_STYLES: dict[str, Callable[[Sequence[_Table]], str]] = {"compact": _write_compact, "ddl": _write_ddl}
