"""Reading SParC's and CoSQL's layouts."""

import json
from pathlib import Path

import pytest

from serl.data import Example, load
from serl.errors import InputError
from tests.data.layouts import make_database

TURNS = [
    {"utterance": "How many?", "query": "SELECT count(*) FROM t"},
    {"utterance": "Which?", "query": "SELECT a FROM t"},
]


def write(root: Path, dialogues: list, file: str = "dev.json") -> None:
    (root / file).parent.mkdir(parents=True, exist_ok=True)
    (root / file).write_text(json.dumps(dialogues))


def dialogue(turns: list = TURNS, db_id: str = "shop") -> dict:
    return {"database_id": db_id, "interaction": turns, "final": {"utterance": "...", "query": "..."}}


def test_every_turn_is_a_question(tmp_path: Path) -> None:
    database = tmp_path / "database" / "shop" / "shop.sqlite"
    make_database(database)
    write(tmp_path, [dialogue(), dialogue(TURNS[1:])])
    (tmp_path / "tables.json").write_text("[]")
    turns = load("sparc", tmp_path, "dev")
    assert turns[1] == Example(
        question_id="0/2", db_id="shop", question="Which?", evidence="", difficulty="", gold_sql="SELECT a FROM t",
        split="dev", db_path=database, position=1, interaction="0", tables_path=tmp_path / "tables.json",
    )  # fmt: skip
    places = [(turn.question_id, turn.position, turn.interaction) for turn in turns]
    assert places == [("0/1", 0, "0"), ("0/2", 1, "0"), ("1/1", 2, "1")]


def test_spiders_databases_and_cosqls_folder(tmp_path: Path) -> None:
    make_database(tmp_path / "spider" / "database" / "shop" / "shop.sqlite")
    write(tmp_path / "cosql", [dialogue()], "sql_state_tracking/cosql_train.json")
    assert [turn.question_id for turn in load("cosql", tmp_path / "cosql", "train")] == ["0/1", "0/2"]


def test_dialogues_without_a_database_are_skipped_counted_and_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    make_database(tmp_path / "database" / "shop" / "shop.sqlite")
    write(tmp_path, [dialogue(db_id="lost"), dialogue()])
    assert [(turn.question_id, turn.position) for turn in load("sparc", tmp_path, "dev")] == [("1/1", 2), ("1/2", 3)]
    assert "skipped 1 dialogues without a database" in caplog.text
    assert "lost (1)" in caplog.text


@pytest.mark.parametrize(
    ("turns", "message"),
    [
        ([], r'dev\.json, record 0: "interaction" should be a list of turns'),
        ("text", r'dev\.json, record 0: "interaction" should be a list of turns'),
        ([TURNS[0], {"utterance": "?"}], r'dev\.json, record 0, record 1: "query" is missing'),
    ],
)
def test_wrong_input_is_named(tmp_path: Path, turns: list, message: str) -> None:
    make_database(tmp_path / "database" / "shop" / "shop.sqlite")
    write(tmp_path, [dialogue(turns)])
    with pytest.raises(InputError, match=message):
        load("sparc", tmp_path, "dev")


@pytest.mark.parametrize(("format", "dialogues", "turns"), [("sparc", 422, 1203), ("cosql", 293, 1007)])
def test_reads_the_real_data(shared_data: Path, format: str, dialogues: int, turns: int) -> None:
    dev = load(format, shared_data / format, "dev")
    assert (len({turn.interaction for turn in dev}), len(dev)) == (dialogues, turns)
