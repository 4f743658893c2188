"""Reading Spider's layout."""

from pathlib import Path

import pytest

from serl.data import Example, load
from serl.errors import InputError
from tests.data.layouts import make_spider

RECORD = {"db_id": "shop", "question": "How many?", "query": "SELECT count(*) FROM t", "sql": {"parse": 1}}


def test_dev(tmp_path: Path) -> None:
    make_spider(tmp_path, [RECORD])
    assert load("spider", tmp_path, "dev") == [
        Example(
            question_id="0", db_id="shop", question="How many?", evidence="", difficulty="",
            gold_sql="SELECT count(*) FROM t", split="dev", db_path=tmp_path / "database" / "shop" / "shop.sqlite",
            position=0,
        )
    ]  # fmt: skip


@pytest.mark.parametrize("file", ["train_spider.json", "train_spider_min.json"])
def test_train_in_either_file(tmp_path: Path, file: str) -> None:
    make_spider(tmp_path, [RECORD, RECORD], file)
    assert [example.question_id for example in load("spider", tmp_path, "train")] == ["0", "1"]


def test_questions_without_a_database_are_skipped_counted_and_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lost = {**RECORD, "db_id": "lost"}
    make_spider(tmp_path, [RECORD, lost, lost, {**RECORD, "db_id": "gone"}, RECORD])
    assert [example.question_id for example in load("spider", tmp_path, "dev")] == ["0", "4"]
    assert "skipped 3 questions without a database" in caplog.text
    assert "gone (1), lost (2)" in caplog.text


def test_wrong_input_is_named(tmp_path: Path) -> None:
    make_spider(tmp_path, [RECORD, {"db_id": "shop", "question": "?"}])
    with pytest.raises(InputError, match=r'dev\.json, record 1: "query" is missing'):
        load("spider", tmp_path, "dev")
    with pytest.raises(InputError, match=r"looked for: .*train_spider\.json, .*train_spider_min\.json"):
        load("spider", tmp_path, "train")


def test_reads_the_real_data(shared_data: Path, caplog: pytest.LogCaptureFixture) -> None:
    dev = load("spider", shared_data / "spider", "dev")
    assert (len(dev), len({example.db_id for example in dev})) == (1034, 20)
    assert not caplog.records
    train = load("spider", shared_data / "spider", "train")
    assert (len(train), len({example.db_id for example in train})) == (6904, 138)
    assert "skipped 96 questions" in caplog.text
    assert "baseball_1 (82), soccer_1 (14)" in caplog.text


def test_tables_json_and_places_in_the_file(tmp_path: Path) -> None:
    make_spider(tmp_path, [{**RECORD, "db_id": "lost"}, RECORD])
    (tmp_path / "tables.json").write_text("[]")
    (example,) = load("spider", tmp_path, "dev")
    assert (example.position, example.tables_path) == (1, tmp_path / "tables.json")
