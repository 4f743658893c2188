"""What retrieval knows of a database's columns before any question: names, keys, codes, vectors of their names."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from grounding.embed import Encoder
from grounding.index import ValueIndex
from grounding.schema import Database
from grounding.text import fold, name_parts, name_stems

CODE_VALUES = 12  # the most frequent texts of a column tell whether it holds codes
CODE_CHARS = 3
YES = frozenset({"yes", "y", "true", "t", "1"})
NO = frozenset({"no", "n", "false", "f", "0"})


class Profile:
    """Columns by (table, column); `names_CD` are unit vectors of "table column", None without an encoder."""

    def __init__(self, database: Database, index: ValueIndex, encoder: Encoder | None):
        self.columns = {(table.name, column.name): column for table in database.tables for column in table.columns}
        self.place = {key: i for i, key in enumerate(self.columns)}
        self.primary = {key for key, column in self.columns.items() if column.primary_key}
        self.foreign = {(key.table, key.column) for key in database.foreign_keys}
        self.referred = {(key.ref_table, key.ref_column) for key in database.foreign_keys}
        self.schema_stems = frozenset().union(*(name_stems(name) for key in self.columns for name in key))
        self._index = index
        phrases = [_phrase(f"{table} {column}") for table, column in self.columns]
        self.names_CD: np.ndarray | None = encoder.encode(phrases) if encoder and phrases else None

    @cached_property
    def code_columns(self) -> frozenset[tuple[str, str]]:
        """Columns whose frequent texts are all of at most three characters."""
        return frozenset(place for place, texts in self._frequent.items()
                         if texts and all(len(text) <= CODE_CHARS for text in texts))

    @cached_property
    def flags(self) -> dict[tuple[str, str], tuple[str, ...]]:
        """The texts of columns that say yes or no; `f` beside `m` does not."""
        found = {}
        for place, texts in self._frequent.items():
            answers = tuple(text for text in texts if text in YES | NO)
            is_number = any(text.isdigit() for text in texts) and not set(texts) <= {"0", "1"}
            if answers and "m" not in texts and not is_number:
                found[place] = answers
        return found

    @cached_property
    def _frequent(self) -> dict[tuple[str, str], tuple[str, ...]]:
        return {place: tuple(dict.fromkeys(fold(text) for text in self._index.samples(*place, CODE_VALUES)))
                for place in self.columns}


def _phrase(name: str) -> str:
    """A name as words: `Order_Date` and `orderDate` are `order date`."""
    return " ".join(part.lower() for part in name_parts(name)) or name
