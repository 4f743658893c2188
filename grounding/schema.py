"""The schema of a SQLite database: plain frozen data. `read.py` reads it from files."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from grounding.sqlite import fold_name

DECLARED, TABLES_JSON, INFERRED = "declared", "tables_json", "inferred"
"""Where a key is known from: the database itself, BIRD's or Spider's tables.json, or names and values."""


@dataclass(frozen=True)
class Column:
    name: str
    type: str
    """text, integer, real, date (ISO dates stored as text) or blob, by what most stored values are."""
    primary_key: bool = False
    description: str = ""
    values_description: str = ""
    """What the stored codes mean, in the words of the database's documentation."""


@dataclass(frozen=True)
class ForeignKey:
    """One column pair of a foreign key; a composite key is several of them: see `Database.joins`."""

    table: str
    column: str
    ref_table: str
    ref_column: str
    origin: str = DECLARED
    """DECLARED, TABLES_JSON or INFERRED."""
    composite: int | None = None
    """None: the pair is the whole key. Else a number that the pairs of one composite key of `table` share."""


@dataclass(frozen=True)
class Table:
    name: str
    columns: tuple[Column, ...]
    is_view: bool = False
    description: str = ""
    """What tables.json calls it, where that says more than the name."""
    key_origin: str = DECLARED
    """Where its primary key is known from: DECLARED or TABLES_JSON."""

    @cached_property
    def by_name(self) -> dict[str, Column]:
        """Columns by `fold_name` of their names, as SQLite compares them."""
        return {fold_name(column.name): column for column in self.columns}

    @cached_property
    def primary_key(self) -> tuple[str, ...]:
        """The names of its primary key's columns, in the table's order; empty: it has none."""
        return tuple(column.name for column in self.columns if column.primary_key)


@dataclass(frozen=True)
class Database:
    db_id: str
    path: Path
    tables: tuple[Table, ...]
    foreign_keys: tuple[ForeignKey, ...]
    warnings: tuple[str, ...] = ()
    """What could not be read, one line each: a view over a missing table, a foreign key to nowhere."""

    @cached_property
    def by_name(self) -> dict[str, Table]:
        """Tables by `fold_name` of their names, as SQLite compares them."""
        return {fold_name(table.name): table for table in self.tables}

    @property
    def column_count(self) -> int:
        return sum(len(table.columns) for table in self.tables)

    @cached_property
    def joins(self) -> tuple[tuple[ForeignKey, ...], ...]:
        """The foreign keys, each with all its column pairs: a join on some of a composite key's pairs is none."""
        whole: dict[object, list[ForeignKey]] = defaultdict(list)
        for place, key in enumerate(self.foreign_keys):
            whole[place if key.composite is None else (key.table, key.composite)].append(key)
        return tuple(map(tuple, whole.values()))

    @classmethod
    def read(
        cls,
        path: Path,
        description_dir: Path | None = None,
        tables_json: Path | None = None,
        infer_keys: bool = True,
    ) -> Database:
        """Reads tables, views, keys, stored types and descriptions.

        `description_dir` defaults to `database_description` beside the file, `tables_json` to the data set's own
        where the file lies in the layout of BIRD or Spider, if there are any. Keys that neither the database nor
        tables.json has are inferred (`infer/`). Raises InputError for a file that is no database, cannot be read, or
        has no tables.
        """
        from grounding.read import read_database  # it makes what is defined here

        return read_database(Path(path), description_dir, tables_json, infer_keys)
