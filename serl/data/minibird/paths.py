"""Join paths of one to three tables through a declared database."""

from __future__ import annotations

from dataclasses import dataclass

from serl.data.minibird.schema import Column, Database, Role, Table, quote


@dataclass(frozen=True)
class Join:
    """A step between two tables: "up" from the referring table to the one referred to, or "down", back."""

    child: Table
    parent: Table
    column: Column  # the child's foreign key
    up: bool

    @property
    def sql(self) -> str:
        child, parent = quote(self.child.name), quote(self.parent.name)
        return f"{child}.{quote(self.column.name)} = {parent}.{quote(self.parent.key.name)}"

    @property
    def words(self) -> str:
        """What stands between the two nouns: visits "of" patients, patients "with" visits."""
        return self.column.link if self.up else "with"


@dataclass(frozen=True)
class Path:
    tables: tuple[Table, ...]
    joins: tuple[Join, ...] = ()

    @property
    def sql(self) -> str:
        """The FROM clause's body."""
        text = quote(self.tables[0].name)
        for table, join in zip(self.tables[1:], self.joins, strict=True):
            text += f" JOIN {quote(table.name)} ON {join.sql}"
        return text


def paths(database: Database, steps: str) -> list[Path]:
    """Every path that takes the given steps, as "", "up", "down up"; no table occurs twice."""
    found = [Path((table,)) for table in database.tables]
    for step in steps.split():
        found = [Path((*path.tables, table), (*path.joins, join))
                 for path in found
                 for table, join in _steps(database, path.tables[-1], step == "up")
                 if table not in path.tables]
    return found


def _steps(database: Database, start: Table, up: bool) -> list[tuple[Table, Join]]:
    if up:
        parents = [(database.table(column.target), column) for column in start.of(Role.REF)]
        return [(parent, Join(start, parent, column, up)) for parent, column in parents]
    return [(child, Join(child, start, column, up))
            for child in database.tables
            for column in child.of(Role.REF)
            if column.target == start.name]
