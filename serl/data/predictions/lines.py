"""Predictions without a key: one SQL a line, in the split's order, with an optional tab and db_id.

Line i belongs to the question at position i of the split's file. A blank line is a question without a prediction,
unless the other lines are as many as the questions: then blank lines stand between interactions, as in SParC's and
CoSQL's files. Where a line has a db_id it must be its question's, so that a shifted file is found.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from serl.data.example import Example
from serl.data.predictions.keyed import split_bird_value
from serl.data.predictions.prediction import Entry, Predictions, collect, wrong_database
from serl.errors import InputError
from serl.io import read_text


def read_lines(path: Path, examples: Sequence[Example]) -> Predictions:
    """The predictions of a file of lines."""
    by_position = {example.position: example for example in examples}
    if len(by_position) != len(examples):
        raise ValueError("the examples' positions are not set")
    lines = [(number, line.strip()) for number, line in enumerate(read_text(path).split("\n"), start=1)]
    while lines and not lines[-1][1]:
        lines.pop()
    full = [entry for entry in lines if entry[1]]
    questions = max(by_position, default=-1) + 1
    if len(lines) != len(full) != questions and len(lines) > questions:
        raise InputError(
            f"{path}: {len(full)} lines with SQL and {len(lines) - len(full)} blank ones for {questions} questions; "
            "blank lines are either predictions that are missing or ends of interactions, neither fits"
        )
    return collect(_entries(path, full if len(full) == questions else lines, by_position), examples)


def _entries(path: Path, lines: list[tuple[int, str]], by_position: dict[int, Example]) -> Iterator[Entry]:
    databases = {example.db_id for example in by_position.values()}
    last = max(by_position, default=-1)
    for position, (number, line) in enumerate(lines):
        place = f"{path}, line {number}"
        example = by_position.get(position)
        sql, db_id = _split(line, databases)
        if example is None and position <= last:
            continue  # its question was left out when the data were read, and counted there
        if example is not None and db_id and db_id != example.db_id:
            raise InputError(wrong_database(place, db_id, example))
        yield place, example, sql


def _split(line: str, databases: set[str]) -> tuple[str, str]:
    """SQL and db_id. A tab may also stand inside SQL: only what is a database of the split is a db_id."""
    sql, db_id = split_bird_value(line)
    if not db_id:
        head, tab, tail = line.rpartition("\t")
        if tab and tail.strip() in databases:
            sql, db_id = head.strip(), tail.strip()
    return sql, db_id
