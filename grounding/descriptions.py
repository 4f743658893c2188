"""BIRD's `database_description` folder: one CSV a table that says what columns and their codes mean.

The files come as people saved them: UTF-8 with or without a byte-order mark, UTF-16 or Windows-1252; separated by
commas, semicolons or tabs; header and names in any case and with stray white space; some rows with fewer or more
fields than the header. What is of no use is left out with a warning.
"""

from __future__ import annotations

import codecs
import csv
import io
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from grounding.errors import InputError
from grounding.schema import Table

_NAME, _TEXTS, _CODES = "original_column_name", ("column_description", "column_name"), "value_description"
_Said = TypeVar("_Said")


@dataclass(frozen=True)
class Description:
    column: str = ""
    values: str = ""


@dataclass(frozen=True)
class Descriptions:
    """Descriptions by table and column, as the files spell them."""

    tables: Mapping[str, Mapping[str, Description]]
    warnings: tuple[str, ...] = ()

    def describe(self, tables: Sequence[Table]) -> tuple[tuple[Table, ...], list[str]]:
        """The tables with what is said of their columns, and the warnings."""
        find = _finder(self.tables)
        described = tuple(_describe(table, said) if (said := find(table.name)) else table for table in tables)
        names = {loose_name(table.name) for table in tables}
        strays = [name for name in self.tables if loose_name(name) not in names]
        return described, [*self.warnings, *(f"descriptions of {name}: there is no such table" for name in strays)]


def _describe(table: Table, said: Mapping[str, Description]) -> Table:
    find = _finder(said)
    columns = (
        replace(column, description=found.column, values_description=found.values)
        if (found := find(column.name)) else column
        for column in table.columns
    )  # fmt: skip
    return replace(table, columns=tuple(columns))


def _finder(said: Mapping[str, _Said]) -> Callable[[str], _Said | None]:
    """Finds what is said of a name: of just this spelling, else of one that differs in case, composition or blanks."""
    loosely = {loose_name(name): each for name, each in said.items()}
    return lambda name: said.get(name) or loosely.get(loose_name(name))


def loose_name(name: str) -> str:
    """A name without what file systems, editors and people change in it.

    >>> loose_name("\\ufeffOrder  Date ") == loose_name("order date")
    True
    """
    visible = "".join(c for c in unicodedata.normalize("NFC", name) if unicodedata.category(c) not in ("Cf", "Cc"))
    return " ".join(visible.split()).casefold()


def read_descriptions(folder: Path) -> Descriptions:
    """All files of the folder; nothing if there is no such folder."""
    tables: dict[str, Mapping[str, Description]] = {}
    warnings = []
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if path.suffix.lower() == ".csv":
            try:
                tables[path.stem.strip()] = _read_file(path)
            except InputError as error:
                warnings.append(str(error))
    return Descriptions(tables, tuple(warnings))


def _read_file(path: Path) -> dict[str, Description]:
    try:
        text = _decode(path.read_bytes()).replace("\0", "")
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=_separator(text.partition("\n")[0]))
        header = [loose_name(name) for name in next(reader, [])]
        rows = [dict(zip(header, (" ".join(field.split()) for field in row))) for row in reader]
    except (OSError, csv.Error) as error:
        raise InputError(f"{path}: the descriptions cannot be read ({error})") from error
    if _NAME not in header:
        raise InputError(f"{path}: no column {_NAME} in its first line; its descriptions are left out")
    columns = {}
    for row in rows:
        if name := row.get(_NAME):
            said = next((row[field] for field in _TEXTS if row.get(field)), "")
            columns[name] = Description(said, row.get(_CODES, ""))
    return columns


def _separator(header: str) -> str:
    """The sign that stands in the header most often."""
    return max(",;\t", key=header.count)


def _decode(raw: bytes) -> str:
    """UTF-16 by its mark or its zero bytes; else UTF-8 if it is valid; else Windows-1252.

    Bytes that Windows-1252 leaves undefined become replacement characters.
    """
    if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return raw.decode("utf-16", "replace")
    if raw.count(0) * 3 > len(raw):  # Latin letters in UTF-16 have every second byte zero
        return raw.decode("utf-16-be" if raw[0] == 0 else "utf-16-le", "replace")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        return raw.decode("cp1252", "replace")
