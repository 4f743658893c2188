"""Reading BIRD's layout."""

import json
from pathlib import Path

import pytest

from serl.data import Example, load
from serl.errors import InputError
from tests.data.layouts import bird_record, make_bird, make_database


def test_flat_layout(tmp_path: Path) -> None:
    databases = tmp_path / "dev_databases"
    make_bird(tmp_path / "dev.json", databases, [bird_record()])
    (databases / "shop" / "database_description").mkdir()
    assert load("bird", tmp_path, "dev") == [
        Example(
            question_id="7", db_id="shop", question="How many?", evidence="all of them",
            gold_sql="SELECT count(*) FROM t", difficulty="simple", split="dev",
            db_path=databases / "shop" / "shop.sqlite",
            description_dir=databases / "shop" / "database_description", position=0,
        )
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("questions", "databases"),
    [
        ("train/train.json", "train/train_databases"),
        ("train/train.json", "train/train_databases/train_databases"),
        ("train.json", "train/train_databases"),
    ],
)
def test_nested_layouts(tmp_path: Path, questions: str, databases: str) -> None:
    make_bird(tmp_path / questions, tmp_path / databases, [bird_record()])
    (example,) = load("bird", tmp_path, "train")
    assert example.db_path == tmp_path / databases / "shop" / "shop.sqlite"
    assert example.description_dir is None


def test_absent_id_is_the_position_and_other_absent_fields_are_empty(tmp_path: Path) -> None:
    bare = {"db_id": "shop", "question": "?", "SQL": "SELECT 1"}
    make_bird(tmp_path / "train.json", tmp_path / "train_databases", [bare, bare, {**bare, "evidence": None}])
    examples = load("bird", tmp_path, "train")
    assert [example.question_id for example in examples] == ["0", "1", "2"]
    assert {(example.evidence, example.difficulty) for example in examples} == {("", "")}


@pytest.mark.parametrize(
    ("records", "message"),
    [
        ([bird_record(), bird_record(SQL=None)], r'dev\.json, record 1: "SQL" is missing or not a text'),
        ([bird_record(question=" ")], r'record 0: "question" is missing'),
        ([bird_record(), bird_record()], r"record 1: question_id 7 is record 0's too"),
        ([bird_record(db_id="none")], r"record 0: its database not found, looked for: .*none/none\.sqlite"),
        ({"a": 1}, r"dev\.json: should be a JSON list of objects"),
    ],
)
def test_wrong_record_is_named(tmp_path: Path, records: list, message: str) -> None:
    make_bird(tmp_path / "dev.json", tmp_path / "dev_databases", records)
    with pytest.raises(InputError, match=message):
        load("bird", tmp_path, "dev")


def test_missing_files_are_named_with_every_path_that_was_tried(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nowhere: no such folder; it should be the BIRD data's root"):
        load("bird", tmp_path / "nowhere", "dev")
    with pytest.raises(InputError, match=rf"looked for: {tmp_path}/dev\.json, {tmp_path}/dev/dev\.json"):
        load("bird", tmp_path, "dev")
    (tmp_path / "dev.json").write_text("[]")
    with pytest.raises(InputError, match=r"BIRD's dev databases not found"):
        load("bird", tmp_path, "dev")


def test_unknown_format_lists_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"unknown data format 'wikisql', should be one of: bird, spider"):
        load("wikisql", tmp_path, "dev")


def test_reads_the_official_dev_questions(shared_data: Path, tmp_path: Path) -> None:
    questions = json.loads((shared_data / "bird" / "dev_1534_from_mars.json").read_text())
    (tmp_path / "dev.json").write_text(json.dumps(questions))
    for db_id in {question["db_id"] for question in questions}:
        make_database(tmp_path / "dev_databases" / db_id / f"{db_id}.sqlite")
    examples = load("bird", tmp_path, "dev")
    assert len(examples) == 1534
    assert len({example.db_id for example in examples}) == 11
    assert sum(example.evidence != "" for example in examples) > 1000
