"""Predictions that carry a key: BIRD's JSON object, and records with question_id and sql."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from serl.data.example import Example
from serl.data.predictions.prediction import Entry, Predictions, collect, wrong_database
from serl.errors import InputError
from serl.io import read_json, read_jsonl

BIRD_MARK = "----- bird -----"

_Pairs = tuple[tuple[str, Any], ...]


def read_json_file(path: Path, examples: Sequence[Example]) -> Predictions:
    """BIRD's object from key to SQL, or a list of records."""
    document = read_json(path, make_object=tuple)  # pairs: a dict would hide keys that stand twice
    if isinstance(document, list):
        records = [dict(record) if isinstance(record, tuple) else record for record in document]
        return _from_records(path, records, examples)
    if not isinstance(document, tuple):
        raise InputError(f"{path}: should be an object from question to SQL, or a list of objects, one a prediction")
    questions = _questions_by_key(document, examples)
    return collect(_bird_entries(path, document, questions), examples)


def read_jsonl_file(path: Path, examples: Sequence[Example]) -> Predictions:
    """One record with question_id, sql and perhaps db_id a line."""
    return _from_records(path, read_jsonl(path), examples)


def split_bird_value(text: str) -> tuple[str, str]:
    """SQL and db_id of `SQL\\t----- bird -----\\tdb_id`; db_id is "" where it is absent."""
    sql, mark, db_id = text.rpartition(BIRD_MARK)
    return (sql.strip(), db_id.strip()) if mark else (text.strip(), "")


def _bird_entries(path: Path, document: _Pairs, questions: dict[str, Example]) -> Iterator[Entry]:
    for key, value in document:
        place = f"{path}, key {key!r}"
        # Official files have a number where the model gave nothing.
        sql, db_id = split_bird_value(value) if isinstance(value, str) else ("", "")
        example = questions.get(key)
        if example is not None and db_id and db_id != example.db_id:
            raise InputError(wrong_database(place, db_id, example))
        yield place, example, sql


def _questions_by_key(document: _Pairs, examples: Sequence[Example]) -> dict[str, Example]:
    """Keys are positions in the split's file (as in the official evaluation) or question ids: whichever fit better.

    The two are the same in BIRD's dev set, but not in mini-dev.
    """
    by_id = {example.question_id: example for example in examples}
    by_position = {str(example.position): example for example in examples}

    def fitting(questions: dict[str, Example]) -> int:
        databases = {key: split_bird_value(value)[1] if isinstance(value, str) else "" for key, value in document}
        return sum(
            key in questions and db_id in ("", questions[key].db_id) for key, db_id in databases.items()
        )

    return by_position if fitting(by_position) > fitting(by_id) else by_id


def _from_records(path: Path, records: list[Any], examples: Sequence[Example]) -> Predictions:
    by_id = {example.question_id: example for example in examples}

    def entries() -> Iterator[Entry]:
        for number, record in enumerate(records, start=1):
            place = f"{path}, record {number}"
            if not isinstance(record, dict) or "question_id" not in record or "sql" not in record:
                raise InputError(f'{place}: should be an object with "question_id" and "sql"')
            sql = record["sql"]
            if not isinstance(sql, str | None):
                raise InputError(f'{place}: "sql" should be a text, or null where there is no prediction')
            example = by_id.get(str(record["question_id"]))
            db_id = record.get("db_id")
            if example is not None and db_id and db_id != example.db_id:
                raise InputError(wrong_database(place, db_id, example))
            yield place, example, sql or ""

    return collect(entries(), examples)
