"""What the readers share: finding files among candidates, and checked access to records."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from serl.errors import InputError
from serl.io import read_json

_log = logging.getLogger(__name__)


def require_root(root: Path | str, what: str) -> Path:
    """`root` as a Path; InputError unless it is a folder."""
    root = Path(root)
    if not root.is_dir():
        raise InputError(f"{root}: no such folder; it should be the {what} data's root")
    return root


def first_existing(candidates: Sequence[Path], what: str) -> Path:
    """The first candidate that exists; else an InputError that says what was looked for and where."""
    for path in candidates:
        if path.exists():
            return path
    raise InputError(f"{what} not found, looked for: {', '.join(map(str, candidates))}")


def report_missing(path: Path, what: str, missing: Counter[str], databases: Path) -> None:
    """Warn, with counts and names, of the questions or dialogues (`what`) that are left out for want of a database."""
    if missing:
        named = ", ".join(f"{db_id} ({count})" for db_id, count in sorted(missing.items()))
        _log.warning("%s: skipped %d %s without a database in %s: %s", path, missing.total(), what, databases, named)


def read_records(path: Path) -> list[dict[str, Any]]:
    """The JSON list of objects in `path`."""
    records = read_json(path)
    if not isinstance(records, list) or not all(isinstance(record, dict) for record in records):
        raise InputError(f"{path}: should be a JSON list of objects, one a question")
    return records


def text_field(record: dict[str, Any], key: str, path: Path, index: int) -> str:
    """The text under `key` of record number `index` (from 0) of `path`; it must be there and not blank."""
    value = record.get(key)
    if not isinstance(value, str) or not value.strip():
        raise InputError(f'{path}, record {index}: "{key}" is missing or not a text')
    return value
