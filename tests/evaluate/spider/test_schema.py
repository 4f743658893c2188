"""Names from the database, foreign keys from tables.json."""

import json
import sqlite3
from pathlib import Path

import pytest

from serl.errors import InputError
from serl.evaluate.spider.schema import read_schema


def write(folder: Path, **changes: object) -> tuple[Path, Path]:
    connection = sqlite3.connect(folder / "a.sqlite")
    connection.executescript('CREATE TABLE "My T"(Id, A); CREATE TABLE u(Id, t_id, B); CREATE VIEW v AS SELECT 1;')
    connection.close()
    entry = {
        "db_id": "a",
        "table_names_original": ["My T", "u"],
        "column_names_original": [[-1, "*"], [0, "Id"], [0, "A"], [1, "Id"], [1, "t_id"], [1, "B"]],
        "foreign_keys": [[4, 1]],
        **changes,
    }
    (folder / "tables.json").write_text(json.dumps([entry]))
    return folder / "a.sqlite", folder / "tables.json"


def test_names_are_lower_case_and_views_are_no_tables(tmp_path: Path) -> None:
    schema = read_schema(*write(tmp_path), "a")
    assert schema.tables == {"my t": ("id", "a"), "u": ("id", "t_id", "b")}
    assert schema.same_as == {"my t.id": "my t.id", "u.t_id": "my t.id"}


def test_groups_that_a_later_key_connects_stay_apart(tmp_path: Path) -> None:
    # 1-2 and 3-4 are groups; 2-4 joins the first of them, and 4 is then in both. The later group has the last word.
    schema = read_schema(*write(tmp_path, foreign_keys=[[1, 2], [3, 4], [2, 4]]), "a")
    assert schema.same_as == {"my t.id": "my t.id", "my t.a": "my t.id", "u.id": "u.id", "u.t_id": "u.id"}


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    database, tables = write(tmp_path, foreign_keys=[[99, 1]])
    with pytest.raises(InputError, match=r"tables\.json: no entry with db_id 'b'"):
        read_schema(database, tables, "b")
    with pytest.raises(InputError, match=r"db_id 'a': not in the form of Spider's tables\.json"):
        read_schema(database, tables, "a")
