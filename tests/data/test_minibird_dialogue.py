"""Generated dialogues: the same bytes again, SParC's layout, and follow-ups that need what was said before."""

from __future__ import annotations

import json
import random
import re
import sqlite3
from collections import Counter
from pathlib import Path

import pytest

from serl.cli import main
from serl.data import Interaction, load, load_interactions
from serl.data.minibird import generate
from serl.data.minibird.conditions import Condition
from serl.data.minibird.dialogue import generate_dialogues
from serl.data.minibird.dialogue.compose import dialogues
from serl.data.minibird.dialogue.context import needs_context, says
from serl.data.minibird.dialogue.moves import MOVES, superlative
from serl.data.minibird.dialogue.talk import Talk
from serl.data.minibird.dialogue.topic import Ask, Filter, Topic
from serl.data.minibird.domains import SEEN, UNSEEN
from serl.data.minibird.paths import paths
from serl.data.minibird.phrases import plural
from serl.data.minibird.schema import Column, Database, Role, category, key, table
from serl.data.minibird.world import World
from serl.data.turn_notes import KINDS, Carried, TurnNote, carried_over, load_turn_notes
from serl.errors import InputError
from serl.evaluate.judged import Judged
from serl.evaluate.metrics.em import em
from serl.sql.clauses import read_clauses
from serl.sql.outcome import Outcome, Status
from serl.sql.tree.schema import schema_of

TRAIN, DEV, ON_UNSEEN = 72, 24, 12
FREE = ("start", "switch")  # kinds of turns that stand alone


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("dialogues")
    generate_dialogues(root, seed=3, train=TRAIN, dev=DEV, unseen=ON_UNSEEN)
    return root


@pytest.fixture(scope="module")
def made(root: Path) -> list[Interaction]:
    return [*load_interactions("sparc", root, "train"), *load_interactions("sparc", root, "dev")]


@pytest.fixture(scope="module")
def notes(root: Path) -> dict[tuple[str, str], TurnNote]:
    """By split and question id."""
    return {(split, key): note for split in ("train", "dev") for key, note in load_turn_notes(root, split).items()}


def test_the_same_seed_gives_the_same_bytes_and_another_seed_does_not(tmp_path: Path) -> None:
    for name, seed in (("first", 0), ("second", 0), ("other", 1)):
        generate_dialogues(tmp_path / name, seed, train=12, dev=12, unseen=4)
    first, second, other = ({str(path.relative_to(tmp_path / name)): path.read_bytes()
                             for path in (tmp_path / name).rglob("*") if path.is_file()}
                            for name in ("first", "second", "other"))
    assert first == second and first.keys() == other.keys()
    assert first["train.json"] != other["train.json"] and first["dev_turns.json"] != other["dev_turns.json"]


def test_the_databases_are_minibirds_own(root: Path, tmp_path: Path) -> None:
    generate(tmp_path, seed=3, train=12, dev=12, unseen=4)
    files = {str(path.relative_to(root / "database")): path.read_bytes()
             for path in (root / "database").rglob("*") if path.is_file()}
    dev = tmp_path / "dev_databases"
    assert files == {str(path.relative_to(dev)): path.read_bytes() for path in dev.rglob("*") if path.is_file()}
    assert json.loads((root / "tables.json").read_text()) == json.loads((tmp_path / "dev_tables.json").read_text())


def test_counts_are_as_asked_and_unseen_databases_are_for_dev_alone(root: Path) -> None:
    train, dev = (Counter(each.db_id for each in load_interactions("cosql", root, split)) for split in ("train", "dev"))
    assert train == {database.name: TRAIN // 12 for database in SEEN}
    assert dev == ({database.name: DEV // 12 for database in SEEN}
                   | {database.name: ON_UNSEEN // 4 for database in UNSEEN})


def test_no_query_of_a_database_occurs_in_two_dialogues_and_none_twice_in_one(made: list[Interaction]) -> None:
    queries = [(turn.db_id, turn.gold_sql) for dialogue in made for turn in dialogue.turns]
    assert len(set(queries)) == len(queries)
    starts = [(dialogue.db_id, dialogue.turns[0].question.lower()) for dialogue in made]
    assert len(set(starts)) == len(starts)


def test_every_kind_of_turn_occurs_and_every_turn_has_its_note(made: list[Interaction], notes: dict) -> None:
    turns = [turn for dialogue in made for turn in dialogue.turns]
    assert [(turn.split, turn.question_id) for turn in turns] == list(notes)
    kinds = Counter(note.kind for note in notes.values())
    assert set(kinds) == set(KINDS)
    assert kinds["start"] == len(made) and min(kinds.values()) / len(turns) > 0.04
    assert min(len(dialogue.turns) for dialogue in made) >= 2 and max(len(dialogue.turns) for dialogue in made) > 4
    assert all(notes[dialogue.turns[0].split, dialogue.turns[0].question_id].kind == "start" for dialogue in made)


def test_every_gold_query_runs_and_is_not_trivial(made: list[Interaction]) -> None:
    for dialogue in made:
        with sqlite3.connect(f"file:{dialogue.turns[0].db_path}?mode=ro", uri=True) as connection:
            answers = [connection.execute(turn.gold_sql).fetchall() for turn in dialogue.turns]
        assert all(any(cell is not None for row in rows for cell in row) and rows != [(0,)] for rows in answers)
        assert all(len(rows) <= 100 for rows in answers)
        assert dialogue.final.gold_sql == dialogue.turns[-1].gold_sql


def test_exact_match_reads_every_gold_query(made: list[Interaction]) -> None:
    nothing = Outcome(Status.EMPTY)
    assert {em(Judged(turn, nothing, turn.gold_sql, nothing, None)).score
            for dialogue in made for turn in dialogue.turns} == {1.0}


def test_what_a_turn_carries_over_is_in_its_query_and_was_in_the_one_that_said_it(
        made: list[Interaction], notes: dict) -> None:
    for dialogue in made:
        schema = schema_of(dialogue.turns[0].db_path)
        clauses = [read_clauses(turn.gold_sql, schema) for turn in dialogue.turns]
        for turn, own, told in zip(dialogue.turns, clauses, carried_over(clauses)):
            note = notes[turn.split, turn.question_id]
            assert bool(note.carried) == (note.kind not in FREE)
            if " before: " not in turn.question and " earlier " not in turn.question:  # no return to another topic
                assert items_of(note.carried) <= items_of(told), (dialogue, note)
            for each in note.carried:
                assert own.holds(each.clause, each.item) and each.since < turn.turn
                assert clauses[each.since - 1].holds(each.clause, each.item), (dialogue, each)


def items_of(carried: tuple[Carried, ...]) -> set[tuple[str, str]]:
    return {(each.clause, each.item) for each in carried}


def test_no_follow_up_can_be_answered_without_what_was_said_before(made: list[Interaction], notes: dict) -> None:
    """Neither the literals that it carries over are in its words, nor how questions call them, nor what they are of."""
    databases = {database.name: database for database in (*SEEN, *UNSEEN)}
    for turn in (turn for dialogue in made for turn in dialogue.turns):
        note = notes[turn.split, turn.question_id]
        if note.kind in FREE:
            continue
        conditions = [each.item for each in note.carried if each.clause == "where"]
        for item in conditions:
            words = [word for word in re.findall(r"'%?([^']*?)%?'|(?<![\w.])(\d+(?:\.\d+)?)", item)]
            told = [text or number for text, number in words] + spoken(databases[turn.db_id], item)
            assert not [word for word in told if says(turn.question, word)], (turn.question, item)
        if not conditions:
            tables = [each.item for each in note.carried if each.clause == "from" and "=" not in each.item]
            nouns = [said for name in tables for said in databases[turn.db_id].table(name).said]
            assert nouns and not [noun for noun in nouns if says(turn.question, noun) or says(
                turn.question, plural(noun))], turn.question


def spoken(database: Database, item: str) -> list[str]:
    """How a question calls the value of `table.column = 'cell'`, in more than one way for a flag."""
    found = re.fullmatch(r"(\w+)\.(\w+) (?:=|<>) (?:'(.*)'|(\d+))", item)
    column = found and column_of(database, *found.groups()[:2])
    if column and column.role is Role.FLAG:
        return [column.yes if found[4] == "1" else column.no]
    return [column.spoken[column.cells.index(found[3])]] if column and column.cells else []


def column_of(database: Database, table_name: str, name: str) -> Column:
    columns = next(each for each in database.tables if each.name.lower() == table_name).columns
    return next(column for column in columns if column.name.lower() == name)


def test_every_condition_makes_a_difference_to_the_answer(made: list[Interaction], notes: dict) -> None:
    """So losing one that is carried over is a wrong answer."""
    for turn in (turn for dialogue in made for turn in dialogue.turns):
        conditions = re.search(r" WHERE (.*?)(?: GROUP BY| ORDER BY|$)", turn.gold_sql)
        if conditions is None:
            continue
        parts = re.split(r" AND (?!\d)", conditions[1])
        with sqlite3.connect(f"file:{turn.db_path}?mode=ro", uri=True) as connection:
            rows = connection.execute(turn.gold_sql).fetchall()
            for gone in parts:
                rest = " AND ".join(part for part in parts if part is not gone)
                without = turn.gold_sql.replace(f"WHERE {conditions[1]}", f"WHERE {rest}" if rest else "")
                assert Counter(connection.execute(without).fetchall()) != Counter(rows), (turn.gold_sql, gone)


def test_what_is_known_of_turns_is_not_in_what_the_reader_returns(made: list[Interaction], root: Path) -> None:
    entries = json.loads((root / "train.json").read_text())
    assert {tuple(entry) for entry in entries} == {("database_id", "interaction", "final")}
    assert {tuple(turn) for entry in entries for turn in entry["interaction"]} == {("utterance", "query")}
    assert not any("carried" in repr(turn) or "refine" in repr(turn) for dialogue in made for turn in dialogue.turns)


def test_questions_are_filled_in_and_tidy(made: list[Interaction]) -> None:
    texts = [text for each in made for text in (*(turn.question for turn in each.turns), each.final.question)]
    assert not [text for text in texts if re.search(r"[{}]|  |\bNone\b", text)]
    assert not [text for text in texts if not re.fullmatch(r"[A-Z].*[.?]", text)]


CLINIC = World(SEEN[0], seed=0)


def topic(*filters: Filter, name: str = "patient") -> Topic:
    path = next(path for path in paths(CLINIC.database, "") if path.tables[0].name == name)
    return Topic(path, (path.tables[0].said[0],), (1,), Ask.COUNT, 1, filters=filters)


def test_a_follow_up_that_says_what_it_carries_over_does_not_need_it() -> None:
    sex = column_of(CLINIC.database, "patient", "sex")
    female = Filter(sex, Condition(" = 'F'", "female", 0, adjective=True), since=1)
    carrying, said_now = topic(female), topic(Filter(sex, female.condition, since=2))
    assert carrying.sql == "SELECT COUNT(*) FROM patient WHERE sex = 'F'"
    assert needs_context(carrying, "How many patients are there?", 2)
    assert not needs_context(carrying, "How many Female ones are there?", 2)
    assert not needs_context(carrying, "How many are 'F'?", 2)
    assert not needs_context(said_now, "How many female patients are there?", 2)
    assert needs_context(said_now, "How many female ones are there?", 2)


def test_moves_that_need_rows_are_not_made_from_a_single_one() -> None:
    name = column_of(CLINIC.database, "patient", "name")
    one = topic(Filter(name, Condition(" = 'Ann Bell'", "Ann Bell", 0, proper=True), since=1))
    assert one.is_one
    talk = Talk(CLINIC, 2, random.Random(0))
    for move in (*MOVES["aggregate"], superlative):
        assert all(move(talk, one) is None for _ in range(20)), move


def test_a_database_that_runs_out_of_dialogues_says_so() -> None:
    pet = table("pet", "pet", 5, key(), category("kind", ("cat", "dog")))
    with pytest.raises(InputError, match="database tiny gives no further dialogue after .* ask for fewer"):
        dialogues(World(Database("tiny", (pet,)), seed=0), 50, random.Random(0))


def test_the_command_writes_what_the_reader_reads(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    out = str(tmp_path / "out")
    command = ["data", "minibird", "--dialogue", "--out", out, "--train", "12", "--dev", "12", "--unseen", "4"]
    assert main([*command, "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert (summary["train"]["dialogues"], summary["dev"]["dialogues"]) == (12, 16)
    assert summary["train"]["questions"] == len(load("sparc", tmp_path / "out", "train"))
    assert main([*command, "--invented", "1"]) == 2
    assert "--invented is for questions, leave it out with --dialogue" in capsys.readouterr().err
    assert main(["data", "minibird", "--dialogue", "--out", out, "--dev", "0"]) == 2
    assert "dev=0" in capsys.readouterr().err
