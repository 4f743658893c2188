"""Kept tables and columns as they will be written: every text is harmless already, every name is as SQL writes it."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass

from grounding.grounded import GroundedSchema, LinkedTable
from grounding.render.literals import literal
from grounding.render.names import Names
from grounding.safety import neutralize
from grounding.schema import INFERRED, Column, ForeignKey, Table
from grounding.text import content_stems, name_stems

MATCHES_A_COLUMN = 2
DESCRIPTION_CHARS = 120
_ALTERED = "name altered"


@dataclass(frozen=True)
class Reference:
    """What a column refers to."""

    table: str
    column: str
    is_inferred: bool
    composite: int | None
    """Which composite foreign key of its table this is a part of; None: of none."""
    pairs: int = 1
    """How many column pairs its key has."""


@dataclass(frozen=True)
class ShownColumn:
    stored_name: str
    name: str
    type: str
    primary_key: bool
    references: tuple[Reference, ...]
    description: str
    matched: tuple[str, ...]
    samples: tuple[str, ...]
    has_evidence: bool
    note: str = ""
    """What must be said whatever is left out."""

    @property
    def is_key(self) -> bool:
        return self.primary_key or bool(self.references)


@dataclass(frozen=True)
class Shown:
    """A table."""

    stored_name: str
    name: str
    columns: tuple[ShownColumn, ...]
    key_columns: int
    """How many columns its primary key has, shown or not."""
    note: str = ""


def prepare(grounded: GroundedSchema, samples: int) -> list[Shown]:
    """The kept tables, best first, each with its kept columns in the database's order."""
    scribe = _Scribe(grounded, samples)
    return [scribe.table(table) for table in grounded.tables if table.columns]


class _Scribe:
    """Names, values and keys of one grounded schema, by where they belong."""

    def __init__(self, grounded: GroundedSchema, samples: int):
        self._tables = {table.name: table for table in grounded.database.tables}
        self._names = Names(grounded.database)
        self._samples = {(found.table, found.column): found.values[:samples] for found in grounded.samples}
        self._matches = defaultdict(list)
        # In the order of likeness and of the question, which is easier to read than the order of relevance.
        for match in sorted(grounded.values, key=lambda match: (-match.score, match.mention)):
            self._matches[match.table, match.column].append(match)
        self._keys = defaultdict(list)
        for key in grounded.database.foreign_keys:
            self._keys[key.table, key.column].append(key)
        self._pairs = {key: len(join) for join in grounded.database.joins for key in join}

    def table(self, linked: LinkedTable) -> Shown:
        table = self._tables[linked.name]
        kept = {column.name: column for column in linked.columns}
        columns = (
            self._column(table, column, kept[column.name].has_evidence)
            for column in table.columns
            if column.name in kept
        )
        note = _ALTERED if self._names.is_altered(table.name) else ""
        return Shown(table.name, self._names.table(table.name), tuple(columns), len(table.primary_key), note)

    def _column(self, table: Table, column: Column, has_evidence: bool) -> ShownColumn:
        place = (table.name, column.name)
        matched = [literal(match.value, match.stored) for match in self._matches[place][:MATCHES_A_COLUMN]]
        keys = self._keys[place]
        description = worthwhile_description(table, column, is_key=column.primary_key or bool(keys))
        return ShownColumn(
            stored_name=column.name,
            name=self._names.column(*place),
            type=column.type,
            primary_key=column.primary_key,
            references=tuple(map(self._reference, keys)),
            description=neutralize(description, DESCRIPTION_CHARS),
            matched=tuple(matched),
            samples=() if matched else tuple(literal(value) for value in self._samples.get(place, ())),
            has_evidence=has_evidence,
            note=_ALTERED if self._names.is_altered(column.name) else "",
        )

    def _reference(self, key: ForeignKey) -> Reference:
        names = self._names
        table, column = names.table(key.ref_table), names.column(key.ref_table, key.ref_column)
        return Reference(table, column, key.origin == INFERRED, key.composite, self._pairs[key])


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
