"""Names of tables and columns as SQL must write them.

A name is bare where SQLite takes it so, and in double quotes elsewhere, spaces and other white space as they are. SQL
has no second spelling of a name, so that one with a line break, a hidden character or control text must be altered:
it is parted, or loses these characters, as `grounding.safety` does, and stays another name than its neighbours'.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from grounding.safety import is_harmless, seams, split, without_hidden
from grounding.schema import Database
from grounding.sqlite import quote, quote_if_needed

_CONTROLS = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029]+")  # a tab is white space like others


class Names:
    """How the names of one database are written."""

    def __init__(self, database: Database):
        self._tables = {table.name: table for table in database.tables}
        self._altered: dict[str | None, dict[str, str]] = {}

    @staticmethod
    @lru_cache(maxsize=100_000)  # the names of a schema come again with every question
    def is_altered(name: str) -> bool:
        """Whether it is not written as it is stored."""
        return not is_harmless(name.replace("\t", " "))

    def table(self, name: str) -> str:
        """A table's name."""
        if not self.is_altered(name):
            return quote_if_needed(name)
        if None not in self._altered:
            self._altered[None] = _alter(self._tables)
        return self._altered[None][name]

    def column(self, table: str, name: str) -> str:
        """A column's name."""
        if not self.is_altered(name):
            return quote_if_needed(name)
        if table not in self._altered:
            self._altered[table] = _alter(column.name for column in self._tables[table].columns)
        return self._altered[table][name]


def _alter(names: Iterable[str]) -> dict[str, str]:
    """The altered names among some that must differ, by what is stored; SQLite takes upper and lower case for one."""
    names = list(names)
    taken = {name.lower() for name in names}
    written = {}
    for name in filter(Names.is_altered, names):
        text = _CONTROLS.sub(" ", without_hidden(name))
        text = " ".join(split(text, seams(text)))
        if text.lower().startswith("sqlite_"):  # SQLite keeps such names to itself
            text = f"_{text}"
        number, candidate = 1, text
        while candidate.lower() in taken:
            number += 1
            candidate = f"{text} {number}"
        taken.add(candidate.lower())
        written[name] = quote(candidate)
    return written
