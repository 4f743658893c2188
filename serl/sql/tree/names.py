"""Which table a column belongs to: aliases, unqualified names, sub-queries and outer queries.

Names are compared in lower case, as SQLite does. A table that a query reads twice is `person` and `person#1`;
which is which is decided by the caller, who tries the possible orders.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from serl.sql.tree.part import Part

Schema = Mapping[str, Sequence[str]]  # column names by table name


@dataclass(frozen=True)
class Source:
    """A table or sub-query of a FROM clause."""

    exposed: str  # the name that qualifies its columns, lower case
    key: str  # the same in two queries that mean the same
    columns: tuple[str, ...] | None  # lower case; None: not known
    aliased: bool = False  # exposed is not the table's own name
    derived: bool = False  # columns are named by their place


@dataclass(frozen=True)
class Found:
    """A column's source and canonical name. `source` None: it cannot be told."""

    source: str | None
    name: str
    aliased: bool = False


@dataclass
class Scope:
    """The names that one SELECT can use."""

    parent: Scope | None = None
    sources: list[Source] = field(default_factory=list)
    ctes: dict[str, object] = field(default_factory=dict)
    aliases: dict[str, Part] = field(default_factory=dict)  # of the SELECT list, once it may be referred to

    def find(self, qualifier: str | None, name: str) -> Found:
        """The column `qualifier.name`, or `name` alone."""
        name = name.lower()
        found = self._qualified(qualifier.lower(), name) if qualifier else self._unqualified(name)
        if found is not None:
            return found
        # A table that FROM forgot is still what the column names.
        return Found(qualifier.lower() if qualifier else None, name)

    def _qualified(self, qualifier: str, name: str) -> Found | None:
        for source in self.sources:
            if source.exposed == qualifier:
                return _column(source, name)
        return _outer(self.parent._qualified(qualifier, name)) if self.parent else None

    def _unqualified(self, name: str) -> Found | None:
        owners = [source for source in self.sources if source.columns is not None and name in source.columns]
        unknown = [source for source in self.sources if source.columns is None]
        if len(owners) == 1 and not unknown:
            return _column(owners[0], name)
        if not owners and len(unknown) == 1 and len(self.sources) == 1:
            return _column(unknown[0], name)
        if owners or unknown:
            return Found(None, name)
        return _outer(self.parent._unqualified(name)) if self.parent else None

    def is_clear(self, found: Found, name: str) -> bool:
        """Whether `name` alone means `found`, as far as the schema says."""
        alone = self._unqualified(name.lower())
        if alone is None or alone.source is None:
            return any(source.columns is None for source in self.sources)
        return alone.source == found.source

    def is_column(self, name: str) -> bool | None:
        """Whether some source has this column; None where that is not known."""
        if any(source.columns is not None and name.lower() in source.columns for source in self.sources):
            return True
        if any(source.columns is None for source in self.sources):
            return None
        return self.parent.is_column(name) if self.parent else False

    def cte(self, name: str) -> tuple[object, Scope] | None:
        """The WITH entry of this name and the scope that holds it."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.ctes:
                return scope.ctes[name], scope
            scope = scope.parent
        return None


def _column(source: Source, name: str) -> Found:
    if source.derived and source.columns is not None and name in source.columns:
        name = f"@{source.columns.index(name)}"
    return Found(source.key, name, source.aliased)


def _outer(found: Found | None) -> Found | None:
    """The same column, seen from a sub-query: its table is not the sub-query's own."""
    if found is None or found.source is None:
        return found
    return Found(f"^{found.source}", found.name, found.aliased)
