"""Invented databases, and a minibird kept apart from another; without them the same bytes as ever."""

from __future__ import annotations

import hashlib
import json
import random
import sqlite3
from pathlib import Path

import pytest

from serl.cli import main
from serl.data.minibird import generate, schema
from serl.data.minibird.compose import questions
from serl.data.minibird.domains import SEEN, UNSEEN
from serl.data.minibird.invent import invent
from serl.data.minibird.invent.lexicon import PEOPLE, THINGS
from serl.data.minibird.invent.naming import Namer, short_form
from serl.data.minibird.invent.vocabulary import Vocabulary
from serl.data.minibird.paths import paths
from serl.data.minibird.phrases import plural
from serl.data.minibird.schema import Database, Role, quote
from serl.data.minibird.world import World
from serl.errors import InputError

INVENTED, EACH = 12, 15
SMALL = {"train": 24, "dev": 12, "unseen": 4}


@pytest.fixture(scope="module")
def databases() -> list[Database]:
    return [invent(number, seed=0) for number in range(100)]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("invented")
    generate(root, seed=1, **SMALL, invented=INVENTED, invented_questions=EACH)
    return root


def read(root: Path, split: str) -> list[dict]:
    return json.loads((root / f"{split}.json").read_text())


def texts(root: Path) -> set[tuple[str, str]]:
    entries = read(root, "train") + read(root, "dev")
    return {(entry["db_id"], text) for entry in entries for text in (entry["SQL"], entry["question"].lower())}


def test_without_invented_databases_the_bytes_are_as_before_there_were_any(tmp_path: Path) -> None:
    generate(tmp_path, seed=0, **SMALL)
    written = hashlib.sha256()
    for path in sorted(tmp_path.rglob("*")):
        if path.suffix in (".json", ".csv"):  # what is in a .sqlite file depends on the SQLite that wrote it
            written.update(path.read_bytes())
    assert written.hexdigest() == "118245c611f1818e01ee971051701db6b5641d4f11f5e37eeccf1f3ba8b93ffc"


def test_a_number_and_a_seed_give_one_database() -> None:
    assert invent(5, seed=0) == invent(5, seed=0)
    assert invent(5, seed=0).tables != invent(5, seed=1).tables
    assert invent(5, seed=0).tables != invent(6, seed=0).tables


def test_names_are_valid_and_differ_in_more_than_case(databases: list[Database]) -> None:
    for database in databases:
        world = World(database, seed=0)
        for table in database.tables:
            for column in table.columns:
                world.run(f"SELECT {quote(column.name)} FROM {quote(table.name)} LIMIT 1")
            names = [column.name.lower() for column in table.columns]
            assert len(names) == len(set(names)), table
            assert not any(set(name) & set("\"'./`[]") for name in (table.name, *names)), table
        names = [table.name.lower() for table in database.tables]
        assert len(names) == len(set(names)), names
    assert len({database.name for database in databases + [*SEEN, *UNSEEN]}) == len(databases) + len(SEEN + UNSEEN)


def test_what_questions_say_points_at_one_thing(databases: list[Database]) -> None:
    for database in databases:
        for table in database.tables:
            said = [words for column in table.columns if column.role is not Role.KEY for words in column.said]
            assert len(said) == len(set(said)), (table.name, said)
        nouns = [noun for table in database.tables for noun in table.said]
        assert len(nouns) == len(set(nouns)), nouns
        columns = [column for table in database.tables for column in table.columns]
        values = [value.lower() for column in columns for value in (*column.spoken, column.yes, column.no) if value]
        values += [column.notion.word for column in columns if column.notion]
        assert len(values) == len(set(values)), values


def test_every_sort_of_column_of_path_and_of_name_occurs(databases: list[Database]) -> None:
    tables = [table for database in databases for table in database.tables]
    columns = [column for table in tables for column in table.columns]
    assert {len(database.tables) for database in databases} == {2, 3, 4}
    assert {len(table.columns) for table in tables} <= set(range(3, 8))
    assert {column.role for column in columns} == set(Role)
    for trait in ("null", "coded", "unit", "counted", "summable", "notion", "more", "most", "adjective", "phrases"):
        assert 0.01 < sum(bool(getattr(column, trait)) for column in columns) / len(columns) < 0.6, trait
    assert any(column.coded and not column.documented for column in columns)
    assert any(len(column.said) > 1 for column in columns) and any(len(table.said) > 1 for table in tables)
    for steps in ("up", "down", "up up", "down up", "down down"):
        assert sum(bool(paths(database, steps)) for database in databases) > 0.3 * len(databases), steps
    quoted = {name for item in tables + columns if quote(name := item.name) != name}
    assert any(" " in name for name in quoted) and {"order", "group"} <= {name.lower() for name in quoted}
    links = [(column.name, database.table(column.target).key.name) for database in databases
             for table in database.tables for column in table.of(Role.REF)]
    assert 0.2 < sum(name == key for name, key in links) / len(links) < 0.8


def test_about_a_third_of_the_nouns_can_only_be_copied(databases: list[Database]) -> None:
    known = {word for entry in PEOPLE + THINGS for word in entry.split("/")} | schema.RESERVED
    heads = [table.said[0].split()[-1] for database in databases for table in database.tables]
    assert 0.2 < sum(head not in known for head in heads) / len(heads) < 0.45


def test_no_table_is_called_as_one_that_is_never_trained_on() -> None:
    ours = {word for entry in PEOPLE + THINGS for word in entry.split("/")}
    assert not ours & {noun for database in UNSEEN for table in database.tables for noun in (table.name, *table.said)}


def test_names_are_made_of_spoken_words() -> None:
    namer = Namer(random.Random(0))
    names = {namer.name("start of the season", set()).text for _ in range(1000)}
    assert {"start_season", "StartSeason", "startSeason", "startseason", "Start Season", "START_SEASON"} <= names
    assert short_form("quantity", 0) == "qty" and short_form("harvest", 0) == "hrvst"
    taken: set[str] = set()
    for _ in range(8):
        namer.name("date", taken)
    assert len(taken) == 8


def test_pseudo_words_come_once_each() -> None:
    vocabulary = Vocabulary(random.Random(0))
    words = [vocabulary.pseudo() for _ in range(500)]
    assert len(set(words)) == 500
    assert all(word.isalpha() and word.islower() and plural(word) == word + "s" for word in words)


def test_invented_questions_are_in_train_only_and_their_gold_runs(root: Path) -> None:
    train = [entry for entry in read(root, "train") if entry["db_id"].startswith("invented")]
    assert len(train) == INVENTED * EACH and len({entry["db_id"] for entry in train}) == INVENTED
    assert not any(entry["db_id"].startswith("invented") for entry in read(root, "dev"))
    assert len(json.loads((root / "train_tables.json").read_text())) == len(SEEN) + INVENTED
    for entry in train:
        path = root / "train_databases" / entry["db_id"] / f"{entry['db_id']}.sqlite"
        rows = sqlite3.connect(f"file:{path}?mode=ro", uri=True).execute(entry["SQL"]).fetchall()
        assert any(cell is not None for row in rows for cell in row), entry


def test_a_database_may_give_fewer_questions_than_asked() -> None:
    pet = schema.table("pet", "pet", 5, schema.key(), schema.category("kind", ("cat", "dog")))
    made = questions(World(Database("tiny", (pet,)), seed=0), 1000, random.Random(0), may_be_fewer=True)
    assert 0 < len(made) < 100


def test_nothing_of_the_other_minibird_comes_again(root: Path, tmp_path: Path) -> None:
    sizes = SMALL | {"invented": INVENTED, "invented_questions": EACH}
    generate(tmp_path / "apart", seed=1, **sizes, apart_from=root)  # the same seed would give the same questions
    assert not texts(root) & texts(tmp_path / "apart")
    for split in ("train", "dev"):
        assert len(read(tmp_path / "apart", split)) == len(read(root, split))


def test_the_command_line_has_both(root: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    options = ["--train", "12", "--dev", "12", "--unseen", "4", "--invented", "2", "--invented-questions", "3"]
    command = ["data", "minibird", "--out", str(tmp_path / "out"), *options, "--apart-from"]
    assert main([*command, str(root)]) == 0
    assert len(read(tmp_path / "out", "train")) == 12 + 2 * 3
    capsys.readouterr()
    assert main([*command, str(tmp_path / "none")]) == 2
    assert f"{tmp_path / 'none'}: no such folder" in capsys.readouterr().err
    assert main([*command, str(tmp_path)]) == 2
    assert f"{tmp_path / 'train.json'}: cannot be read" in capsys.readouterr().err


def test_counts_that_cannot_be_are_refused(tmp_path: Path) -> None:
    for name, count in (("invented", -1), ("invented_questions", 0)):
        with pytest.raises(InputError, match=f"{name}={count}"):
            generate(tmp_path, **SMALL, **{name: count})
