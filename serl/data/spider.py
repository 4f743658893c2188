"""Reader of Spider's layout.

    ROOT/dev.json, ROOT/train_spider.json               db_id, question, query (and parses that are not read)
    ROOT/database/DB/DB.sqlite
    ROOT/tables.json                                    names and foreign keys; only exact match needs it

train_spider_min.json, the same without the parses, is read where train_spider.json is absent. A question's
id is its position in the file, as in the official evaluation. Spider has no evidence; its difficulty is
computed from gold by the official evaluator and not part of the file.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from serl.data.example import Example
from serl.data.records import first_existing, read_records, report_missing, require_root, text_field

_FILES = {"train": ("train_spider.json", "train_spider_min.json")}


def load_spider(root: Path | str, split: str) -> list[Example]:
    """The questions of a split in the file's order. InputError where a file or field is missing.

    Questions whose database is missing are left out with a warning that counts and names them; ids of the
    others stay as they are.
    """
    root = require_root(root, "Spider")
    names = _FILES.get(split, (f"{split}.json",))
    questions = first_existing([root / name for name in names], f"Spider's {split} questions")
    databases = first_existing([root / "database"], "Spider's databases")
    tables = root / "tables.json"
    examples: list[Example] = []
    missing: Counter[str] = Counter()
    for index, record in enumerate(read_records(questions)):
        db_id = text_field(record, "db_id", questions, index)
        db_path = databases / db_id / f"{db_id}.sqlite"
        if db_id in missing or not db_path.exists():
            missing[db_id] += 1
            continue
        examples.append(
            Example(
                question_id=str(index),
                db_id=db_id,
                question=text_field(record, "question", questions, index),
                evidence="",
                gold_sql=text_field(record, "query", questions, index),
                difficulty="",
                db_path=db_path,
                split=split,
                position=index,
                tables_path=tables if tables.exists() else None,
            )
        )
    report_missing(questions, "questions", missing, databases)
    return examples
