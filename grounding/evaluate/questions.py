"""Questions of a data set with their gold SQL, as Spider's and BIRD's archives unpack.

    spider   ROOT/{split}.json or train_spider.json, train_spider_min.json    db_id, question, query
             ROOT/database/DB/DB.sqlite
    bird     ROOT/{split}.json or ROOT/{split}/{split}.json                   db_id, question, evidence, SQL
             ROOT/{split}_databases/DB/DB.sqlite, in either place
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from grounding.errors import InputError

FORMATS = ("spider", "bird")


@dataclass(frozen=True)
class Question:
    """`index` is the record's place in its file, from 0."""

    index: int
    question: str
    evidence: str
    db_id: str
    database: Path
    gold_sql: str


@dataclass(frozen=True)
class Split:
    """Questions whose database is there, in the file's order; `missing` counts those of each absent database."""

    questions: tuple[Question, ...]
    missing: dict[str, int]

    def sample(self, limit: int | None) -> Split:
        """At most `limit` questions, evenly spread; None: all."""
        step = 1 if limit is None else max(1, len(self.questions) / limit)
        places = range(len(self.questions) if limit is None else min(limit, len(self.questions)))
        return Split(tuple(self.questions[int(place * step)] for place in places), self.missing)


def read_split(
    form: str, root: Path, split: str, questions: Path | None = None, databases: Path | None = None
) -> Split:
    """A split of a data set; `questions` and `databases` stand in for the usual places below `root`.

    Raises InputError for a file, folder or field that is not there, and where no database is found at all.
    """
    homes = (root, root / split)
    if form == "spider":
        names = ("train_spider.json", "train_spider_min.json") if split == "train" else (f"{split}.json",)
        files, folders = [root / name for name in names], [root / "database"]
    else:
        name = f"{split}_databases"
        files = [home / f"{split}.json" for home in homes]
        folders = [path for home in homes for path in (home / name / name, home / name)]
    file = _first_existing([questions] if questions else files, f"{split} questions", "--questions FILE")
    folder = _first_existing([databases] if databases else folders, f"{split} databases", "--databases DIR")
    found, missing = [], {}
    for index, record in enumerate(_read_records(file)):
        question = _question(record, index, file, folder, "query" if form == "spider" else "SQL")
        if question.database.is_file():
            found.append(question)
        else:
            missing[question.db_id] = missing.get(question.db_id, 0) + 1
    if not found:
        raise InputError(f"{folder}: none of the databases that {file} asks about is in it")
    return Split(tuple(found), missing)


def _first_existing(paths: Sequence[Path], what: str, option: str) -> Path:
    for path in paths:
        if path.exists():
            return path
    raise InputError(f"no {what}: looked for {', '.join(map(str, paths))}; name them by {option}")


def _read_records(path: Path) -> list:
    try:
        records = json.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: cannot be read as JSON ({error})") from error
    if not isinstance(records, list):
        raise InputError(f"{path}: not a JSON list of questions")
    return records


def _question(record: object, index: int, file: Path, folder: Path, sql_field: str) -> Question:
    try:
        db_id, question, sql = (record[name] for name in ("db_id", "question", sql_field))
        evidence = record.get("evidence") or ""
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{file}, record {index}: not a question with db_id, question and {sql_field} ({error!r})"
                         ) from error
    if not all(isinstance(text, str) for text in (db_id, question, sql, evidence)):
        raise InputError(f"{file}, record {index}: db_id, question, evidence and {sql_field} must be strings")
    return Question(index, question, evidence, db_id, folder / db_id / f"{db_id}.sqlite", sql)
