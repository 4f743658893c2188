"""BIRD's `database_description` folder: one CSV a table that says what columns and their codes mean.

The files come as people saved them: UTF-8 with or without a byte-order mark, or Windows-1252; header names and table
names in any case; some with fewer fields than the header.
"""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Description:
    column: str = ""
    values: str = ""


def read_descriptions(folder: Path) -> dict[tuple[str, str], Description]:
    """Descriptions by (table, column), both in lower case; empty if there is no such folder."""
    found: dict[tuple[str, str], Description] = {}
    if not folder.is_dir():
        return found
    for path in sorted(folder.iterdir()):
        if path.suffix.lower() == ".csv":
            for column, description in _read_file(path).items():
                found[path.stem.strip().lower(), column] = description
    return found


def _read_file(path: Path) -> dict[str, Description]:
    reader = csv.DictReader(io.StringIO(_decode(path.read_bytes()), newline=""))
    reader.fieldnames = [name.strip().lower() for name in reader.fieldnames or ()]
    columns = {}
    for row in reader:
        fields = {name: " ".join((row.get(name) or "").split()) for name in reader.fieldnames}
        name = fields.get("original_column_name", "")
        if name:
            said = fields.get("column_description", "") or fields.get("column_name", "")
            columns[name.lower()] = Description(said, fields.get("value_description", ""))
    return columns


def _decode(raw: bytes) -> str:
    """UTF-8 if it is valid, else Windows-1252, whose few undefined bytes become replacement characters."""
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        return raw.decode("cp1252", "replace")
