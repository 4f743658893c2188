"""Predictions by question id, and what was wrong with the file they came from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from serl.data.example import Example


@dataclass(frozen=True)
class Predictions:
    """Predicted SQL by question id. A prediction may be blank, where the model gave nothing.

    `missing` are ids of questions without a prediction; `duplicate` those with more than one, of which the first
    counts; `extra` names predictions that belong to no question, by their place in the file.
    """

    sql: dict[str, str]
    missing: tuple[str, ...] = ()
    duplicate: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()


Entry = tuple[str, Example | None, str]
"""Place in the file, the question that the prediction belongs to (None: to none), SQL."""


def collect(entries: Iterable[Entry], examples: Sequence[Example]) -> Predictions:
    """Predictions out of a file's entries."""
    sql: dict[str, str] = {}
    duplicate: dict[str, None] = {}
    extra = []
    for place, example, text in entries:
        if example is None:
            extra.append(place)
        elif example.question_id in sql:
            duplicate[example.question_id] = None
        else:
            sql[example.question_id] = text
    missing = tuple(example.question_id for example in examples if example.question_id not in sql)
    return Predictions(sql, missing, tuple(duplicate), tuple(extra))


def wrong_database(place: str, db_id: str, example: Example) -> str:
    """The message for a prediction that says it is for another database than its question."""
    return (
        f"{place}: the prediction is for database {db_id}, question {example.question_id} is about {example.db_id}; "
        "predictions are shifted, or are for another split"
    )
