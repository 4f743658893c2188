"""Foreign keys that nobody declared, by names and by the inclusion of values.

A column C of a table refers to a key K of another where

    1. K is one: the primary key of its table; or, where the names of both columns are the same and C's says K's table
       or that table has no primary key, a column of distinct values;
    2. C's name names K (`names.py`): values alone tell nothing, since numbers that count from 1 are included in each
       other everywhere. Where both hold text, one common part of the names is enough;
    3. |s(C) ∩ K| / |s(C)| ≥ INCLUSION, with s(C) a sample of C's distinct values (`cells.py`): keys of real data have
       a few dangling rows. With one common part it must be 1. A C without values has nothing against it, if it is
       of K's type and named well.

A table's primary key refers to another table only if it is named after that one: city.city_id does not. Each C gets the
likeliest K. A composite primary key is referred to by a table that has columns of all its names, and their values
together.

A key is looked for only between tables that no path of known keys connects: a database that declares its keys gets
none, and costs nothing. Keys of a table on itself are not looked for, since they join no further table.

Inclusion dependencies as candidates and the features of names: Rostin et al., WebDB 2009; sampled inclusion, and keys
of several columns: Zhang et al., On Multi-Column Foreign Key Discovery, VLDB 2010. The thresholds are chosen on
Spider's train databases (`grounding eval --keys`).
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Iterator, Sequence

from grounding.infer.cells import Cells
from grounding.infer.names import Forms, Key, Likeness, Named, is_telling, parts
from grounding.schema import INFERRED, Column, ForeignKey, Table
from grounding.sqlite import fold_name

INCLUSION = 0.8
COMPOSITES = 20  # tables that are looked at for one composite key
_CLASSES = {"text": "text", "date": "text", "integer": "number", "real": "number"}


def infer_keys(
    connection: sqlite3.Connection, tables: Sequence[Table], known: Sequence[ForeignKey]
) -> tuple[ForeignKey, ...]:
    """The foreign keys that `known` lacks, in the order of the tables, the composite ones last."""
    stored = [table for table in tables if not table.is_view]
    group = _groups(stored, known)
    if len(set(group.values())) < 2:
        return ()
    return tuple(_Inference(Cells(connection), stored, known, group).run())


def _groups(tables: Sequence[Table], known: Sequence[ForeignKey]) -> dict[str, str]:
    """For each table a table that stands for all those that known keys connect with it."""
    leader = {table.name: table.name for table in tables}

    def find(name: str) -> str:
        while leader[name] != name:
            leader[name] = name = leader[leader[name]]
        return name

    for key in known:
        if key.table in leader and key.ref_table in leader:
            leader[find(key.table)] = find(key.ref_table)
    return {name: find(name) for name in leader}


class _Inference:
    """One database's inference; `group` says which tables known keys connect."""

    def __init__(self, cells: Cells, tables: Sequence[Table], known: Sequence[ForeignKey], group: dict[str, str]):
        self._cells, self._tables, self._known, self._group = cells, tables, known, group
        self._by_name = {table.name: table for table in tables}
        self._forms = Forms(
            Key(table.name, column.name, table.primary_key == (column.name,), _CLASSES[column.type] == "text")
            for table in tables
            for column in table.columns
            if column.type in _CLASSES
        )

    def run(self) -> list[ForeignKey]:
        has_key = {(key.table, key.column) for key in self._known}
        found: list[ForeignKey] = []
        for table in self._tables:
            for column in table.columns:
                if (table.name, column.name) not in has_key and (key := self._referred(table, column)):
                    found.append(ForeignKey(table.name, column.name, key.table, key.column, INFERRED))
        has_key |= {(key.table, key.column) for key in found}
        number = min((key.composite or 0 for key in self._known), default=0)  # the database's own are from 0 up
        for pairs in self._composites(has_key):
            number -= 1
            found += [ForeignKey(*pair, INFERRED, number) for pair in pairs]
        return found

    def _referred(self, table: Table, column: Column) -> Key | None:
        """The likeliest key that a column refers to; None too where known keys connect their tables."""
        for named in self._forms.named_by(table.name, column.name):
            if self._refers(table, column, named):
                return named.key if self._group[table.name] != self._group[named.key.table] else None
        return None

    def _refers(self, table: Table, column: Column, named: Named) -> bool:
        """Whether a column refers to a key that its name may mean: what costs nothing is asked first."""
        if column.type not in _CLASSES:
            return False
        ref, key = self._by_name[named.key.table], named.key
        kinds = {_CLASSES[column.type], _CLASSES[ref.by_name[fold_name(key.column)].type]}
        is_part = named.likeness is Likeness.PART
        if is_part and kinds != {"text"}:
            return False
        if not key.is_primary and (named.has_role or (ref.primary_key and not named.says_table)):
            return False
        if table.primary_key == (column.name,) and (named.has_role or not named.says_table):
            return False
        sample = self._cells.sample(table, [column.name])
        if not self._cells.is_key(ref, key.column):
            return False
        if not sample:
            return not is_part and len(kinds) == 1
        return self._cells.share_in(sample, ref, [key.column]) >= (1.0 if is_part else INCLUSION)

    def _composites(self, has_key: set[tuple[str, str]]) -> Iterator[list[tuple[str, str, str, str]]]:
        """Column pairs of each composite key: (table, column, referred table, referred column).

        The key needs a part that is the table's own. One made of references relates other tables: a table that has
        the same columns refers to those, not to it.
        """
        with_column: dict[str, list[Table]] = defaultdict(list)
        for table in self._tables:
            for name in {_joined(column.name) for column in table.columns}:
                with_column[name].append(table)
        for ref in self._tables:
            key = ref.primary_key
            own_parts = [column for column in key if (ref.name, column) not in has_key and is_telling(column)]
            if len(key) < 2 or not own_parts:
                continue
            rarest = min((with_column[_joined(column)] for column in key), key=len)
            for table in rarest[:COMPOSITES]:
                own = {_joined(column.name): column for column in table.columns}
                columns = [own.get(_joined(column)) for column in key]
                if table is not ref and all(columns) and self._refer_together(table, columns, ref):
                    yield [(table.name, column.name, ref.name, other) for column, other in zip(columns, key)]

    def _refer_together(self, table: Table, columns: Sequence[Column], ref: Table) -> bool:
        names = [column.name for column in columns]
        if self._group[table.name] == self._group[ref.name] or set(names) == set(table.primary_key):
            return False
        kinds = [_CLASSES.get(column.type) for column in columns]
        if kinds != [_CLASSES.get(ref.by_name[fold_name(name)].type) for name in ref.primary_key]:
            return False
        sample = self._cells.sample(table, names)
        return bool(sample) and self._cells.share_in(sample, ref, ref.primary_key) >= INCLUSION


def _joined(name: str) -> str:
    return "".join(parts(name)) or name
