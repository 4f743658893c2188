"""Reader of BIRD's layout.

    ROOT/{split}.json            question_id, db_id, question, evidence, SQL, difficulty
    ROOT/{split}_databases/DB/DB.sqlite
    ROOT/{split}_databases/DB/database_description/*.csv
    ROOT/{split}_tables.json            names and foreign keys; may be absent, only exact match needs it

Also with everything in ROOT/{split}/, and with the folder doubled as in {split}_databases/{split}_databases:
that is what unpacking the official archives leaves. question_id is the position where it is absent
(as in BIRD's train set), evidence and difficulty may be absent too.
"""

from __future__ import annotations

from pathlib import Path

from serl.data.example import Example
from serl.data.records import first_existing, read_records, require_root, text_field
from serl.errors import InputError


def load_bird(root: Path | str, split: str) -> list[Example]:
    """The questions of a split in the file's order. InputError where a file, field or database is missing."""
    root = require_root(root, "BIRD")
    homes = (root, root / split)
    questions = first_existing([home / f"{split}.json" for home in homes], f"BIRD's {split} questions")
    folder = f"{split}_databases"
    candidates = [path for home in homes for path in (home / folder / folder, home / folder)]
    databases = first_existing(candidates, f"BIRD's {split} databases")
    tables = questions.with_name(f"{split}_tables.json")
    examples: list[Example] = []
    checked: set[str] = set()
    for index, record in enumerate(read_records(questions)):
        db_id = text_field(record, "db_id", questions, index)
        db_dir = databases / db_id
        if db_id not in checked:
            first_existing([db_dir / f"{db_id}.sqlite"], f"{questions}, record {index}: its database")
            checked.add(db_id)
        description_dir = db_dir / "database_description"
        examples.append(
            Example(
                question_id=str(record.get("question_id", index)),
                db_id=db_id,
                question=text_field(record, "question", questions, index),
                evidence=record.get("evidence") or "",
                gold_sql=text_field(record, "SQL", questions, index),
                difficulty=record.get("difficulty") or "",
                db_path=db_dir / f"{db_id}.sqlite",
                split=split,
                description_dir=description_dir if description_dir.is_dir() else None,
                position=index,
                tables_path=tables if tables.exists() else None,
            )
        )
    _require_unique_ids(examples, questions)
    return examples


def _require_unique_ids(examples: list[Example], path: Path) -> None:
    seen: dict[str, int] = {}
    for index, example in enumerate(examples):
        if example.question_id in seen:
            duplicate = f"question_id {example.question_id} is record {seen[example.question_id]}'s too"
            raise InputError(f"{path}, record {index}: {duplicate}")
        seen[example.question_id] = index
