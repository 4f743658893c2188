"""Reading SParC's and CoSQL's layouts."""

import json
from pathlib import Path

import pytest

from serl.data import Example, Interaction, load, load_interactions
from serl.data.interaction import Intent
from serl.data.turns import earlier_turns
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
        split="dev", db_path=database, position=1, interaction="0", turn=2, tables_path=tmp_path / "tables.json",
    )  # fmt: skip
    places = [(turn.question_id, turn.position, turn.interaction, turn.turn) for turn in turns]
    assert places == [("0/1", 0, "0", 1), ("0/2", 1, "0", 2), ("1/1", 2, "1", 1)]


def test_an_interaction_keeps_its_turns_in_order_and_its_final_intent(tmp_path: Path) -> None:
    make_database(tmp_path / "database" / "shop" / "shop.sqlite")
    final = {"utterance": "Which are at least 2?", "query": "SELECT a FROM t WHERE a > = 2"}
    write(tmp_path, [{**dialogue(), "final": final}, {"database_id": "shop", "interaction": TURNS[:1]}])
    turns = load("sparc", tmp_path, "dev")
    first, second = load_interactions("sparc", tmp_path, "dev")
    assert first == Interaction("0", tuple(turns[:2]), Intent("Which are at least 2?", "SELECT a FROM t WHERE a >= 2"))
    assert second == Interaction("1", tuple(turns[2:]), None)
    assert (first.db_id, first.before(1), first.before(2)) == ("shop", (), (turns[0],))
    assert earlier_turns([*first.turns, *second.turns]) == {"0/1": (), "0/2": (turns[0],), "1/1": ()}


def test_gold_loses_the_spaces_inside_of_its_operators_only(tmp_path: Path) -> None:
    make_database(tmp_path / "database" / "shop" / "shop.sqlite")
    write(tmp_path, [dialogue([{"utterance": "?", "query": "SELECT a FROM t WHERE a ! =  1 AND a <> '> ='"}])])
    assert load("cosql", tmp_path, "dev")[0].gold_sql == "SELECT a FROM t WHERE a !=  1 AND a <> '> ='"


def test_descriptions_beside_a_database_are_found(tmp_path: Path) -> None:
    make_database(tmp_path / "database" / "shop" / "shop.sqlite")
    write(tmp_path, [dialogue()])
    assert load("sparc", tmp_path, "dev")[0].description_dir is None
    (tmp_path / "database" / "shop" / "database_description").mkdir()
    assert load("sparc", tmp_path, "dev")[0].description_dir == tmp_path / "database" / "shop" / "database_description"


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
        ([TURNS[0], {"utterance": "?"}], r'dev\.json, record 0, turn 2: "query" is missing'),
        ([TURNS[0], {"utterance": "?", "query": " "}], r'dev\.json, record 0, turn 2: "query" is missing'),
    ],
)
def test_wrong_input_is_named(tmp_path: Path, turns: list, message: str) -> None:
    make_database(tmp_path / "database" / "shop" / "shop.sqlite")
    write(tmp_path, [dialogue(turns)])
    with pytest.raises(InputError, match=message):
        load("sparc", tmp_path, "dev")


@pytest.mark.parametrize(
    ("final", "message"),
    [("text", r'dev\.json, record 0: "final" should hold'),
     ({"query": "x"}, r'dev\.json, record 0, final: "utterance" is missing')],
)
def test_a_final_intent_that_is_none_is_named(tmp_path: Path, final: object, message: str) -> None:
    make_database(tmp_path / "database" / "shop" / "shop.sqlite")
    write(tmp_path, [{**dialogue(), "final": final}])
    with pytest.raises(InputError, match=message):
        load("sparc", tmp_path, "dev")


def test_a_format_without_dialogues_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="'bird' is no format of dialogues, should be one of: sparc, cosql"):
        load_interactions("bird", tmp_path, "dev")


@pytest.mark.parametrize(("format", "dialogues", "turns"), [("sparc", 422, 1203), ("cosql", 293, 1007)])
def test_reads_the_real_data(shared_data: Path, format: str, dialogues: int, turns: int) -> None:
    dev = load_interactions(format, shared_data / format, "dev")
    flat = [turn for interaction in dev for turn in interaction.turns]
    assert (len(dev), len(flat)) == (dialogues, turns)
    assert flat == load(format, shared_data / format, "dev")
    assert all([turn.turn for turn in each.turns] == list(range(1, len(each.turns) + 1)) for each in dev)
    assert all(each.final and {turn.db_id for turn in each.turns} == {each.db_id} for each in dev)


@pytest.mark.parametrize(("format", "joined"), [("sparc", 3), ("cosql", 24)])
def test_real_gold_with_spaces_inside_its_operators_is_counted(shared_data: Path, format: str, joined: int) -> None:
    raw = json.loads((shared_data / format / "dev.json").read_text(encoding="utf-8"))
    queries = [turn["query"] for session in raw for turn in session["interaction"]]
    read = [turn.gold_sql for turn in load(format, shared_data / format, "dev")]
    assert sum(one != other for one, other in zip(queries, read, strict=True)) == joined
    assert [" ".join(one.split()) for one in queries if not any(apart in one for apart in ("! =", "< =", "> ="))] == [
        " ".join(other.split()) for one, other in zip(queries, read) if one == other]
