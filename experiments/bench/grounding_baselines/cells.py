"""What a baseline indexes: every distinct stored text of every column."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from grounding import Database, GroundingConfig
from grounding.evaluate.value_task import Found
from grounding.mentions import find_mentions
from grounding.sqlite import connect_readonly, quote

LONGEST = 200  # characters; longer texts are cut, as grounding cuts them


@dataclass(frozen=True)
class ColumnOf:
    """Where a cell stands."""

    table: str
    column: str
    primary_key: bool


@dataclass(frozen=True)
class Cells:
    """Distinct texts by column, in the order of the schema; a cell is named by its place."""

    columns: tuple[ColumnOf, ...]
    column_C: np.ndarray
    """Place in `columns` of each cell's column, int32."""
    texts: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.texts)

    def found(self, cells: Iterable[int]) -> list[Found]:
        """The cells as retrieved values."""
        columns = ((cell, self.columns[self.column_C[cell]]) for cell in cells)
        return [(column.table, column.column, self.texts[cell]) for cell, column in columns]

    def only(self, kept_D: np.ndarray) -> Cells:
        """The cells of the columns that are marked in kept_D [columns], bool."""
        places = np.flatnonzero(kept_D[self.column_C])
        return Cells(self.columns, self.column_C[places], tuple(self.texts[place] for place in places))


def read_cells(database: Path) -> Cells:
    """Distinct texts of every table's columns, by how each value is stored; numbers, blobs and views are left out."""
    columns, column_of, texts = [], [], []
    connection = connect_readonly(database)
    try:
        for table in Database.read(database).tables:
            for column in () if table.is_view else table.columns:
                name = quote(column.name)
                rows = connection.execute(
                    f"SELECT DISTINCT substr({name}, 1, {LONGEST}) FROM {quote(table.name)}"
                    f" WHERE typeof({name}) = 'text' AND trim({name}) <> ''").fetchall()
                texts += [text for (text,) in rows]
                column_of += [len(columns)] * len(rows)
                columns.append(ColumnOf(table.name, column.name, column.primary_key))
    finally:
        connection.close()
    return Cells(tuple(columns), np.array(column_of, dtype=np.int32), tuple(texts))


@dataclass(frozen=True)
class Strings:
    """The distinct texts of the cells, and the cells that hold each."""

    texts: tuple[str, ...]
    cells_C: np.ndarray
    """Cells by string, then in the order of the schema, int64."""
    start_S: np.ndarray
    """Where each string's cells start in cells_C; one entry more than strings."""

    @classmethod
    def of(cls, cells: Cells, key: Callable[[str], str] = str) -> Strings:
        """Texts that `key` makes equal are one string."""
        places: dict[str, int] = {}
        string_C = np.array([places.setdefault(key(text), len(places)) for text in cells.texts], dtype=np.int64)
        start_S = np.concatenate(([0], np.cumsum(np.bincount(string_C, minlength=len(places)))))
        return cls(tuple(places), np.argsort(string_C, kind="stable"), start_S)

    def cells_of(self, strings: Iterable[int]) -> list[int]:
        """The cells of these strings, in their order."""
        return [int(cell) for string in strings
                for cell in self.cells_C[self.start_S[string] : self.start_S[string + 1]]]


def keywords(question: str, evidence: str) -> list[str]:
    """What grounding looks up for a question, the likeliest to name a value first."""
    return [mention.text for mention in find_mentions(question, evidence, GroundingConfig().max_mentions)]


def best(scores: np.ndarray, k: int) -> np.ndarray:
    """Places of the k highest scores, highest first; the earlier place first among equals.

    >>> best(np.array([1.0, 3.0, 1.0, 3.0, 0.0]), 3).tolist()
    [1, 3, 0]
    """
    if k < len(scores):
        least = np.partition(scores, len(scores) - k)[len(scores) - k]
        places = np.flatnonzero(scores >= least)
    else:
        places = np.arange(len(scores))
    return places[np.argsort(-scores[places], kind="stable")][:k]


def folded(text: str) -> str:
    """Text in one case, with single spaces."""
    return " ".join(text.casefold().split())


def code_points(texts: Sequence[str]) -> np.ndarray:
    """The characters of all texts, one after the other, as uint32."""
    return np.frombuffer("".join(texts).encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
