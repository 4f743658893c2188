"""Predictions in a CSV file with a header.

A row belongs to the question with its question_id or, where there is no such column, to the next question in the
split's order that has the row's own question, database and gold SQL, as far as the file has these. DIN-SQL's files
(NLQ, PREDICTED SQL, GOLD SQL, DATABASE) are of the second kind.
"""

from __future__ import annotations

import csv
import io
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from pathlib import Path

from serl.data.example import Example
from serl.data.predictions.prediction import Entry, Predictions, collect, wrong_database
from serl.errors import InputError
from serl.io import read_text

_COLUMNS = {  # what a column holds → the names it goes by, in lower case
    "question_id": ("question_id",),
    "sql": ("predicted sql", "predicted_sql", "prediction", "sql"),
    "question": ("nlq", "question"),
    "db_id": ("database", "db_id"),
    "gold": ("gold sql", "gold_sql", "gold", "query"),
}
_KEYS = ("question", "gold", "db_id")


def read_csv(path: Path, examples: Sequence[Example]) -> Predictions:
    """The predictions of a CSV file."""
    # Strict, or a quote that is never closed would swallow the rest of the file.
    reader = csv.reader(io.StringIO(read_text(path), newline=""), strict=True)
    try:
        rows = [(reader.line_num, row) for row in reader if row]
    except csv.Error as error:
        raise InputError(f"{path}, line {reader.line_num}: not valid CSV ({error})") from error
    if not rows:
        raise InputError(f"{path}: empty; the first line should name the columns")
    columns = _find_columns(path, rows[0][1])
    records = []
    for line, row in rows[1:]:
        if len(row) != len(rows[0][1]):
            raise InputError(f"{path}, line {line}: {len(row)} cells, the header has {len(rows[0][1])}")
        records.append((f"{path}, line {line}", {what: row[place].strip() for what, place in columns.items()}))
    entries = _by_id if "question_id" in columns else _by_content
    return collect(entries(records, examples), examples)


def _find_columns(path: Path, header: list[str]) -> dict[str, int]:
    names = [name.strip().lower() for name in header]
    found = {
        what: next(names.index(alias) for alias in aliases if alias in names)
        for what, aliases in _COLUMNS.items()
        if any(alias in names for alias in aliases)
    }
    if "sql" not in found:
        raise InputError(f"{path}: no column of predictions; name it one of: {', '.join(_COLUMNS['sql'])}")
    if not {"question_id", "question", "gold"} & set(found):
        raise InputError(f"{path}: nothing says which question a row is for; add a column question_id")
    return found


def _by_id(records: list[tuple[str, dict[str, str]]], examples: Sequence[Example]) -> Iterator[Entry]:
    by_id = {example.question_id: example for example in examples}
    for place, record in records:
        example = by_id.get(record["question_id"])
        db_id = record.get("db_id")
        if example is not None and db_id and db_id != example.db_id:
            raise InputError(wrong_database(place, db_id, example))
        yield place, example, record["sql"]


def _by_content(records: list[tuple[str, dict[str, str]]], examples: Sequence[Example]) -> Iterator[Entry]:
    keys = [key for key in _KEYS if records and key in records[0][1]]
    waiting: dict[tuple[str, ...], deque[Example]] = defaultdict(deque)
    first: dict[tuple[str, ...], Example] = {}
    for example in examples:
        values = {"question": example.question, "gold": example.gold_sql, "db_id": example.db_id}
        content = tuple(_normal(values[key]) for key in keys)
        waiting[content].append(example)
        first.setdefault(content, example)
    for place, record in records:
        content = tuple(_normal(record[key]) for key in keys)
        # Once all questions with this content have a prediction, another one is a duplicate of the first.
        yield place, waiting[content].popleft() if waiting[content] else first.get(content), record["sql"]


def _normal(text: str) -> str:
    return " ".join(text.split())
