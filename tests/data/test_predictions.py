"""Reading prediction files: keyed by question, never shifted, every irregularity reported."""

import json
from pathlib import Path

import pytest

from serl.data.example import Example
from serl.data.predictions import read_predictions
from serl.errors import InputError


def question(position: int, db_id: str = "shop", question_id: str = "") -> Example:
    return Example(
        question_id or str(position), db_id, f"Question {position}?", "", f"SELECT {position}", "",
        Path("unused.sqlite"), "dev", position=position,
    )  # fmt: skip


SPLIT = [question(0), question(1), question(2, "zoo")]


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_lines_with_and_without_a_database(tmp_path: Path) -> None:
    path = write(tmp_path, "pred.txt", "SELECT 0\nSELECT\t1\tshop\nSELECT 2\t----- bird -----\tzoo\n\n")
    predictions = read_predictions(path, SPLIT)
    assert predictions.sql == {"0": "SELECT 0", "1": "SELECT\t1", "2": "SELECT 2"}
    assert (predictions.missing, predictions.duplicate, predictions.extra) == ((), (), ())


def test_a_blank_line_is_a_question_without_a_prediction(tmp_path: Path) -> None:
    predictions = read_predictions(write(tmp_path, "pred.sql", "SELECT 0\r\n\r\nSELECT 2\r\n"), SPLIT)
    assert predictions.sql == {"0": "SELECT 0", "1": "", "2": "SELECT 2"}


def test_blank_lines_between_interactions_do_not_count(tmp_path: Path) -> None:
    predictions = read_predictions(write(tmp_path, "pred.txt", "SELECT 0\nSELECT 1\n\nSELECT 2\n"), SPLIT)
    assert predictions.sql == {"0": "SELECT 0", "1": "SELECT 1", "2": "SELECT 2"}
    with pytest.raises(InputError, match="2 lines with SQL and 2 blank ones for 3 questions"):
        read_predictions(write(tmp_path, "pred.txt", "SELECT 0\n\n\nSELECT 2\n"), SPLIT)


def test_too_few_and_too_many_lines_are_reported(tmp_path: Path) -> None:
    assert read_predictions(write(tmp_path, "pred.txt", "SELECT 0\n"), SPLIT).missing == ("1", "2")
    many = read_predictions(write(tmp_path, "pred.txt", "a\nb\nc\nd\n"), SPLIT)
    assert many.extra == (f"{tmp_path / 'pred.txt'}, line 4",)
    assert list(many.sql.values()) == ["a", "b", "c"]


def test_a_shifted_file_is_found_by_its_databases(tmp_path: Path) -> None:
    path = write(tmp_path, "pred.txt", "SELECT 1\tshop\nSELECT 2\tzoo\n")
    with pytest.raises(InputError, match=r"line 2: the prediction is for database zoo, question 1 is about shop"):
        read_predictions(path, SPLIT)


def test_lines_go_by_the_place_in_the_file_when_questions_were_left_out(tmp_path: Path) -> None:
    predictions = read_predictions(write(tmp_path, "pred.txt", "a\nb\nc\n"), [SPLIT[0], SPLIT[2]])
    assert (predictions.sql, predictions.extra) == ({"0": "a", "2": "c"}, ())


def test_birds_object_with_its_irregularities(tmp_path: Path) -> None:
    text = '{"2": "SELECT 2\\t----- bird -----\\tzoo", "0": 0, "2": "again", "9": "SELECT 9\\t----- bird -----\\tshop"}'
    path = write(tmp_path, "pred.json", text)
    predictions = read_predictions(path, SPLIT)
    assert predictions.sql == {"2": "SELECT 2", "0": ""}
    assert (predictions.missing, predictions.duplicate, predictions.extra) == (("1",), ("2",), (f"{path}, key '9'",))


def test_birds_keys_are_positions_or_ids_whichever_fit(tmp_path: Path) -> None:
    mini = [question(0, "shop", "1"), question(1, "zoo", "2"), question(2, "zoo", "700")]
    mark = "\t----- bird -----\t"
    by_position = {"0": f"a{mark}shop", "1": f"b{mark}zoo", "2": f"c{mark}zoo"}
    by_id = {"1": f"a{mark}shop", "2": f"b{mark}zoo", "700": f"c{mark}zoo"}
    for document in (by_position, by_id):
        predictions = read_predictions(write(tmp_path, "pred.json", json.dumps(document)), mini)
        assert predictions.sql == {"1": "a", "2": "b", "700": "c"}
    with pytest.raises(InputError, match="for database moon, question 1 is about shop"):
        read_predictions(write(tmp_path, "pred.json", json.dumps({"1": f"a{mark}moon"})), SPLIT)


def test_records(tmp_path: Path) -> None:
    records = [{"question_id": 1, "sql": "b", "db_id": "shop"}, {"question_id": "0", "sql": None},
               {"question_id": 1, "sql": "later"}, {"question_id": 8, "sql": "h"}]  # fmt: skip
    lines = write(tmp_path, "pred.jsonl", "\n".join(map(json.dumps, records)))
    listed = write(tmp_path, "pred.json", json.dumps(records))
    for path in (lines, listed):
        predictions = read_predictions(path, SPLIT)
        assert predictions.sql == {"1": "b", "0": ""}
        assert (predictions.missing, predictions.duplicate) == (("2",), ("1",))
        assert predictions.extra == (f"{path}, record 4",)
    with pytest.raises(InputError, match=r'record 1: should be an object with "question_id" and "sql"'):
        read_predictions(write(tmp_path, "bad.jsonl", '{"id": 1, "sql": "a"}'), SPLIT)
    with pytest.raises(InputError, match="for database zoo"):
        read_predictions(write(tmp_path, "bad.jsonl", '{"question_id": 1, "sql": "a", "db_id": "zoo"}'), SPLIT)


def test_csv_goes_by_the_questions_own_text(tmp_path: Path) -> None:
    twice = [question(0), question(1), question(1)]
    twice[2] = Example(**{**vars(twice[2]), "question_id": "2", "position": 2})
    header = "NLQ,PREDICTED SQL,GOLD SQL,DATABASE\n"
    text = header + 'Question 1?,"SELECT\n1, 1",SELECT 1,shop\nQuestion 0?,a,SELECT 0,shop\n'
    predictions = read_predictions(write(tmp_path, "pred.csv", text), twice)
    assert predictions.sql == {"1": "SELECT\n1, 1", "0": "a"}
    assert predictions.missing == ("2",)
    three_more = text + "Question 1?,b,SELECT 1,shop\nQuestion 1?,c,SELECT 1,shop\nNever asked?,d,SELECT 1,shop\n"
    path = write(tmp_path, "pred.csv", three_more)
    predictions = read_predictions(path, twice)
    assert predictions.sql == {"1": "SELECT\n1, 1", "0": "a", "2": "b"}
    assert (predictions.duplicate, predictions.extra) == (("1",), (f"{path}, line 7",))


def test_csv_with_question_ids(tmp_path: Path) -> None:
    predictions = read_predictions(write(tmp_path, "pred.csv", "question_id,sql\n2,c\n0,a\n"), SPLIT)
    assert (predictions.sql, predictions.missing) == ({"2": "c", "0": "a"}, ("1",))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty"),
        ("question_id,answer\n", "no column of predictions"),
        ("sql,db_id\n", "nothing says which question"),
        ("question_id,sql\n1\n", r"line 2: 1 cells, the header has 2"),
        ('question_id,sql\n0,"a\n1,b\n2,c\n', r"not valid CSV \(unexpected end of data\)"),
    ],
)
def test_wrong_csv_is_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_predictions(write(tmp_path, "pred.csv", text), SPLIT)


def test_wrong_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.txt: cannot be read"):
        read_predictions(tmp_path / "none.txt", SPLIT)
    with pytest.raises(InputError, match="an object from question to SQL"):
        read_predictions(write(tmp_path, "pred.json", "3"), SPLIT)


def test_real_files_are_read_whole(shared_data: Path) -> None:
    from serl.data import load

    dev = load("spider", shared_data / "spider", "dev")
    for path in (shared_data / "predictions" / "spider_dev").iterdir():
        predictions = read_predictions(path, dev)
        assert list(predictions.sql) == [example.question_id for example in dev]
        assert (predictions.missing, predictions.duplicate, predictions.extra) == ((), (), ())
