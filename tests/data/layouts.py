"""Tiny data sets in the layouts that the readers know."""

import json
import sqlite3
from pathlib import Path
from typing import Any


def make_database(path: Path) -> None:
    """t(a): the rows 1 and 2."""
    path.parent.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(path)
    connection.executescript("CREATE TABLE t(a INTEGER); INSERT INTO t VALUES (1), (2);")
    connection.close()


def bird_record(**changes: Any) -> dict[str, Any]:
    return {
        "question_id": 7, "db_id": "shop", "question": "How many?", "evidence": "all of them",
        "SQL": "SELECT count(*) FROM t", "difficulty": "simple", **changes,
    }  # fmt: skip


def make_bird(json_path: Path, databases: Path, records: list[dict]) -> None:
    json_path.parent.mkdir(parents=True, exist_ok=True)
    json_path.write_text(json.dumps(records))
    make_database(databases / "shop" / "shop.sqlite")


def make_spider(root: Path, records: list[dict], file: str = "dev.json") -> None:
    root.mkdir(parents=True, exist_ok=True)
    (root / file).write_text(json.dumps(records))
    make_database(root / "database" / "shop" / "shop.sqlite")


def synsql_record(**changes: Any) -> dict[str, Any]:
    return {
        "db_id": "shop", "sql_complexity": "Simple", "question_style": "Formal", "question": "How many?",
        "external_knowledge": "all of them", "cot": "Count the rows of t.", "sql": "SELECT count(*) FROM t", **changes,
    }  # fmt: skip


def make_synsql(root: Path, records: list[Any], format: str = "json", split: str = "data") -> Path:
    """The questions in one of the reader's formats, and the database shop."""
    if not (root / "databases").exists():
        make_database(root / "databases" / "shop" / "shop.sqlite")
    path = root / f"{split}.{format}"
    if format == "parquet":
        import pyarrow
        import pyarrow.parquet

        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(records), path)
    else:
        documents = [json.dumps(record, indent=1 if format == "json" else None) for record in records]
        path.write_text("[\n" + ",\n".join(documents) + "\n]\n" if format == "json" else "\n".join(documents))
    return path
