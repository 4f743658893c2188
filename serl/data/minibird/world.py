"""A declared database brought to life: its rows, in memory, ready to be asked."""

from __future__ import annotations

import random
import sqlite3
from functools import cached_property

from serl.data.minibird.paths import Path, paths
from serl.data.minibird.schema import Column, Database, Role, Table, quote
from serl.data.minibird.values import Cell, fill

TYPES = {Role.KEY: "INTEGER", Role.REF: "INTEGER", Role.FLAG: "INTEGER", Role.DATE: "DATE",
         Role.LABEL: "TEXT", Role.CATEGORY: "TEXT"}


def sql_type(column: Column) -> str:
    """The type that CREATE TABLE declares."""
    if column.role is Role.NUMBER:
        return "REAL" if column.digits else "INTEGER"
    return TYPES[column.role]


class World:
    """One database with the rows that `seed` gives it."""

    def __init__(self, database: Database, seed: int) -> None:
        self.database = database
        self.rows = fill(database, random.Random(f"rows/{seed}/{database.name}"))
        self._paths: dict[str, list[Path]] = {}

    def write(self, connection: sqlite3.Connection) -> None:
        """Creates and fills every table, always in the same order."""
        for table in self.database.tables:
            connection.execute(_create(table, self.database))
            marks = ", ".join("?" * len(table.columns))
            connection.executemany(f"INSERT INTO {quote(table.name)} VALUES ({marks})", self.rows[table.name])
        connection.commit()

    @cached_property
    def connection(self) -> sqlite3.Connection:
        connection = sqlite3.connect(":memory:")
        self.write(connection)
        return connection

    def run(self, sql: str) -> list[tuple[Cell, ...]]:
        return self.connection.execute(sql).fetchall()

    def cells(self, table: Table, column: Column) -> list[Cell]:
        """The column's cells that are not NULL, one for each row."""
        at = table.columns.index(column)
        return [row[at] for row in self.rows[table.name] if row[at] is not None]

    def paths(self, steps: str) -> list[Path]:
        if steps not in self._paths:
            self._paths[steps] = paths(self.database, steps)
        return self._paths[steps]


def _create(table: Table, database: Database) -> str:
    lines = [f"  {quote(column.name)} {sql_type(column)}{' PRIMARY KEY' * (column.role is Role.KEY)}"
             for column in table.columns]
    lines += [f"  FOREIGN KEY ({quote(column.name)}) REFERENCES {quote(column.target)}"
              f" ({quote(database.table(column.target).key.name)})"
              for column in table.of(Role.REF)]
    return f"CREATE TABLE {quote(table.name)} (\n" + ",\n".join(lines) + "\n)"
