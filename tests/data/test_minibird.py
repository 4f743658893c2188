"""The embedded benchmark: the same bytes again, BIRD's layout, and one clear answer to every question."""

from __future__ import annotations

import csv
import hashlib
import json
import random
import re
import sqlite3
from collections import Counter
from pathlib import Path

import pytest

from serl.data.minibird import generate, schema
from serl.data.minibird.compose import answerable, questions
from serl.data.minibird.domains import SEEN, UNSEEN
from serl.data.minibird.kinds import KINDS
from serl.data.minibird.phrases import plural
from serl.data.minibird.schema import Role
from serl.data.minibird.world import World
from serl.data.minibird.writer import HEADER, sqlite_bytes, tables_entry
from serl.errors import InputError

TRAIN, DEV, UNSEEN_QUESTIONS = 1200, 240, 120


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("minibird")
    generate(root, seed=3, train=TRAIN, dev=DEV, unseen=UNSEEN_QUESTIONS)
    return root


@pytest.fixture(scope="module")
def entries(root: Path) -> dict[str, list[dict]]:
    return {split: json.loads((root / f"{split}.json").read_text()) for split in ("train", "dev")}


def open_database(root: Path, split: str, name: str) -> sqlite3.Connection:
    path = root / f"{split}_databases" / name / f"{name}.sqlite"
    return sqlite3.connect(f"file:{path}?mode=ro", uri=True)


def files_of(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_the_same_seed_gives_the_same_bytes_and_another_seed_does_not(tmp_path: Path) -> None:
    for name, seed in (("first", 0), ("second", 0), ("other", 1)):
        generate(tmp_path / name, seed, train=24, dev=12, unseen=4)
    first, second, other = (files_of(tmp_path / name) for name in ("first", "second", "other"))
    assert first == second
    assert first.keys() == other.keys()
    assert first["train.json"] != other["train.json"]
    assert first["train_databases/clinic/clinic.sqlite"] != other["train_databases/clinic/clinic.sqlite"]


def test_a_seeds_questions_stay_those_that_the_embedded_model_was_trained_on(minibird: Path) -> None:
    texts = [(minibird / f"{split}.json").read_bytes() for split in ("train", "dev")]
    assert [hashlib.sha256(text).hexdigest()[:16] for text in texts] == ["33b93378f6520ab9", "a6f9360ef689424f"]


def test_counts_are_as_asked_and_spread_over_the_databases(entries: dict[str, list[dict]]) -> None:
    train = Counter(entry["db_id"] for entry in entries["train"])
    dev = Counter(entry["db_id"] for entry in entries["dev"])
    assert train == {database.name: TRAIN // 12 for database in SEEN}
    assert dev == ({database.name: DEV // 12 for database in SEEN}
                   | {database.name: UNSEEN_QUESTIONS // 4 for database in UNSEEN})
    assert not {database.name for database in UNSEEN} & train.keys()


def test_no_question_and_no_sql_of_a_database_occurs_twice_in_train_or_dev(
        entries: dict[str, list[dict]]) -> None:
    both = entries["train"] + entries["dev"]
    assert len({(entry["db_id"], entry["SQL"]) for entry in both}) == len(both)
    assert len({(entry["db_id"], entry["question"].lower()) for entry in both}) == len(both)


@pytest.mark.parametrize("split", ["train", "dev"])
def test_every_gold_query_runs_on_the_written_file_and_is_not_empty(
        root: Path, entries: dict[str, list[dict]], split: str) -> None:
    connections: dict[str, sqlite3.Connection] = {}
    for entry in entries[split]:
        name = entry["db_id"]
        if name not in connections:
            connections[name] = open_database(root, split, name)
        rows = connections[name].execute(entry["SQL"]).fetchall()
        assert any(cell is not None for row in rows for cell in row), entry


def test_entries_have_birds_fields_and_shares_near_birds(entries: dict[str, list[dict]]) -> None:
    both = entries["train"] + entries["dev"]
    for split in entries.values():
        assert [entry["question_id"] for entry in split] == list(range(len(split)))
    assert all(set(entry) == {"question_id", "db_id", "question", "evidence", "SQL", "difficulty"}
               for entry in both)
    share = {name: count / len(both) for name, count in Counter(e["difficulty"] for e in both).items()}
    assert share == pytest.approx({"simple": 0.5, "moderate": 0.35, "challenging": 0.15}, abs=0.05)
    assert sum(bool(entry["evidence"]) for entry in both) / len(both) == pytest.approx(0.4, abs=0.05)


def test_every_question_is_filled_in_and_tidy(entries: dict[str, list[dict]]) -> None:
    for entry in entries["train"] + entries["dev"]:
        assert not re.search(r"[{}]|  |\bNone\b", entry["question"] + entry["SQL"] + entry["evidence"]), entry
        assert re.fullmatch(r"[A-Z].*[.?]", entry["question"]), entry


def test_every_kind_of_question_occurs_also_on_databases_never_trained_on(tmp_path: Path) -> None:
    summary = generate(tmp_path, train=2400, dev=12, unseen=400)
    kinds = {kind.name for _, group in KINDS.values() for kind in group}
    assert kinds == summary["train"]["kinds"].keys()
    assert len(kinds & summary["dev"]["kinds"].keys()) > 0.9 * len(kinds)


def test_foreign_keys_are_declared_and_hold(root: Path) -> None:
    for database in SEEN + UNSEEN:
        connection = open_database(root, "dev", database.name)
        declared = [row for table in database.tables
                    for row in connection.execute("SELECT * FROM pragma_foreign_key_list(?)", (table.name,))]
        assert len(declared) == sum(len(table.of(Role.REF)) for table in database.tables) >= 2
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def test_databases_have_the_sizes_and_the_dirt_of_real_ones(root: Path) -> None:
    text = ""
    for database in SEEN + UNSEEN:
        assert 3 <= len(database.tables) <= 5
        assert all(3 <= len(table.columns) <= 7 and 40 <= table.rows <= 400 for table in database.tables)
        columns = [column for table in database.tables for column in table.columns]
        assert any(column.null for column in columns), database.name
        assert any(column.coded or column.cells != column.spoken for column in columns), database.name
        text += "\n".join(open_database(root, "dev", database.name).iterdump())
    assert "O''Brien" in text
    assert '"Order Date"' in text and '"group"' in text and '"transaction"' in text


def test_no_two_columns_of_a_table_go_by_the_same_words() -> None:
    for database in SEEN + UNSEEN:
        for table in database.tables:
            words = [said for column in table.columns if column.role is not Role.KEY for said in column.said]
            assert len(words) == len(set(words)), (database.name, table.name, words)
        nouns = [said for table in database.tables for said in table.said]
        assert len(nouns) == len(set(nouns)), database.name


def test_descriptions_and_tables_json_match_the_database(root: Path) -> None:
    for split, databases in (("train", SEEN), ("dev", SEEN + UNSEEN)):
        documents = json.loads((root / f"{split}_tables.json").read_text())
        assert [document["db_id"] for document in documents] == [database.name for database in databases]
        for database in databases:
            folder = root / f"{split}_databases" / database.name / "database_description"
            connection = open_database(root, split, database.name)
            for table in database.tables:
                with open(folder / f"{table.name}.csv", newline="") as file:
                    rows = list(csv.reader(file))
                stored = connection.execute("SELECT name FROM pragma_table_info(?)", (table.name,)).fetchall()
                assert tuple(rows[0]) == HEADER
                assert [(row[0],) for row in rows[1:]] == stored


def test_tables_json_numbers_columns_as_spider_does() -> None:
    entry = tables_entry(next(database for database in SEEN if database.name == "library"))
    names = entry["column_names_original"]
    assert names[:3] == [[-1, "*"], [0, "id"], [0, "name"]]
    assert len(entry["column_types"]) == len(names) == len(entry["column_names"])
    links = [(names[child][1], entry["table_names_original"][names[parent][0]], names[parent][1])
             for child, parent in entry["foreign_keys"]]
    assert links == [("author_id", "author", "id"), ("book_id", "book", "id"), ("member_id", "member", "id")]
    assert [names[number][1] for number in entry["primary_keys"]] == ["id"] * 4


def test_answers_that_ties_nulls_or_emptiness_decide_are_refused() -> None:
    world = World(SEEN[0], seed=0)
    world.connection.executescript(
        "CREATE TABLE t (a, b); INSERT INTO t VALUES ('p', 3), ('q', 2), ('r', 2), ('s', NULL)")
    assert answerable(world, "SELECT a FROM t ORDER BY b DESC LIMIT 1")
    assert not answerable(world, "SELECT a FROM t ORDER BY b DESC LIMIT 2"), "q and r tie"
    assert not answerable(world, "SELECT a FROM t ORDER BY b ASC LIMIT 1"), "NULL comes first"
    assert not answerable(world, "SELECT a FROM t WHERE b > 9"), "no rows"
    assert not answerable(world, "SELECT AVG(b) FROM t WHERE b > 9"), "only NULL"
    assert not answerable(world, "SELECT COUNT(*) FROM t WHERE b > 9"), "a count of 0"


def test_a_database_file_does_not_depend_on_what_was_asked_of_it() -> None:
    asked, fresh = World(SEEN[1], seed=5), World(SEEN[1], seed=5)
    asked.run("SELECT 1")
    assert sqlite_bytes(asked) == sqlite_bytes(fresh)


def test_plurals() -> None:
    words = {"city": "cities", "day": "days", "class": "classes", "match": "matches", "aircraft": "aircraft",
             "date of birth": "dates of birth", "price per night": "prices per night"}
    assert {word: plural(word) for word in words} == words


def test_an_empty_split_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="dev=0"):
        generate(tmp_path, train=12, dev=0, unseen=4)
    assert not list(tmp_path.iterdir())


def test_a_database_that_runs_out_of_questions_says_so() -> None:
    pet = schema.table("pet", "pet", 5, schema.key(), schema.category("kind", ("cat", "dog")))
    tiny = schema.Database("tiny", (pet,))
    with pytest.raises(InputError, match="database tiny gives no further .* ask for fewer"):
        questions(World(tiny, seed=0), 1000, random.Random(0))
