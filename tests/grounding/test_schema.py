"""The schema as it is read from real files."""

import sqlite3

import pytest

from grounding import Grounder, GroundingConfig, Request, read
from grounding.errors import InputError
from grounding.schema import Database, ForeignKey


def types_of(database: Database, table: str) -> dict[str, str]:
    return {column.name: column.type for column in database.by_name[table].columns}


def test_types_follow_what_is_stored_not_what_is_declared(make_database):
    path = make_database(
        """CREATE TABLE t (year BLOB, price INTEGER, day INTEGER, photo TEXT, empty VARCHAR(9), anything);
        INSERT INTO t VALUES ('1999', 2.5, '2020-01-31', x'00ff', NULL, 7);
        INSERT INTO t VALUES ('2001', 3, '2020-02-01 10:00', x'01', NULL, NULL);"""
    )
    assert types_of(Database.read(path), "t") == {
        "year": "text",
        "price": "real",
        "day": "date",
        "photo": "blob",
        "empty": "text",
        "anything": "integer",
    }


def test_a_foreign_key_that_names_no_column_means_the_primary_key(racing):
    assert ForeignKey("race", "circuit_id", "circuit", "id") in Database.read(racing).foreign_keys


def test_a_composite_foreign_key_is_one_join_in_the_other_tables_spelling(make_database):
    path = make_database(
        """CREATE TABLE Room (Building TEXT, Number INTEGER, PRIMARY KEY (Number, Building));
        CREATE TABLE lesson (b TEXT, n INTEGER, FOREIGN KEY (n, b) REFERENCES room);
        CREATE TABLE exam (b TEXT, n INTEGER, FOREIGN KEY (b, n) REFERENCES ROOM (building, number));"""
    )
    assert set(Database.read(path).joins) == {
        (
            ForeignKey("lesson", "n", "Room", "Number", composite=0),
            ForeignKey("lesson", "b", "Room", "Building", composite=0),
        ),
        (
            ForeignKey("exam", "b", "Room", "Building", composite=0),
            ForeignKey("exam", "n", "Room", "Number", composite=0),
        ),
    }


def test_a_composite_key_is_kept_whole_where_its_tables_are_joined(make_database, tmp_path):
    path = make_database(
        """CREATE TABLE room (building TEXT, number INTEGER, seats INTEGER, PRIMARY KEY (building, number));
        CREATE TABLE lesson (b TEXT, n INTEGER, topic TEXT, FOREIGN KEY (b, n) REFERENCES room);"""
    )
    grounder = Grounder(tmp_path, "none", GroundingConfig(keep_all_columns=0, keep_table_columns=0))
    grounded = grounder.ground(Request("topic of lessons by seats", path))
    assert {table.name: {column.name for column in table.columns} for table in grounded.tables} == {
        "room": {"building", "number", "seats"}, "lesson": {"b", "n", "topic"}
    }  # fmt: skip


def test_two_foreign_keys_between_the_same_tables_are_two_joins(make_database):
    path = make_database(
        """CREATE TABLE team (id INTEGER PRIMARY KEY);
        CREATE TABLE game (home INTEGER REFERENCES team, away INTEGER REFERENCES team);"""
    )
    keys = Database.read(path).joins
    assert sorted(pair.column for (pair,) in keys) == ["away", "home"]
    assert {pair.composite for (pair,) in keys} == {None}


def test_a_composite_key_of_which_one_column_is_missing_is_no_join_at_all(make_database):
    path = make_database(
        """CREATE TABLE room (building TEXT, number INTEGER, PRIMARY KEY (building, number));
        CREATE TABLE lesson (b TEXT, n INTEGER, FOREIGN KEY (b, n) REFERENCES room (building, floor));
        CREATE TABLE exam (r INTEGER REFERENCES nowhere);"""
    )
    database = Database.read(path, infer_keys=False)
    assert database.foreign_keys == ()
    assert database.warnings == (
        "foreign key lesson.b, n refers to nothing: room.building, floor",
        "foreign key exam.r refers to nothing: nowhere.its primary key",
    )


def test_tables_that_differ_in_the_case_of_an_accent_are_two(make_database):
    path = make_database(
        """CREATE TABLE "Élan" (a TEXT, "É" INTEGER, "é" TEXT); CREATE TABLE "élan" (b TEXT);
        INSERT INTO "Élan" VALUES ('x', 1, 'y');"""
    )
    database = Database.read(path)
    assert [table.name for table in database.tables] == ["Élan", "élan"]
    assert database.by_name["Élan"].by_name["É"].type == "integer"
    assert database.by_name["élan"].columns[0].name == "b"


def test_columns_named_like_keywords_and_generated_ones_are_read(make_database):
    path = make_database(
        """CREATE TABLE "order" ("select" TEXT PRIMARY KEY, "group" AS (length("select")) VIRTUAL) WITHOUT ROWID;
        INSERT INTO "order" VALUES ('abc');"""
    )
    assert types_of(Database.read(path), "order") == {"select": "text", "group": "integer"}


def test_a_table_that_needs_a_function_or_module_from_elsewhere_is_left_out_with_a_warning(make_database):
    path = make_database("CREATE TABLE t (a TEXT); INSERT INTO t VALUES ('x');")
    connection = sqlite3.connect(path)
    connection.create_function("own", 1, lambda value: value, deterministic=True)
    connection.executescript("CREATE TABLE g (a TEXT, b AS (own(a))); PRAGMA writable_schema = ON;")
    virtual = "'CREATE VIRTUAL TABLE v USING nowhere'"
    connection.execute(f"INSERT INTO sqlite_master VALUES ('table', 'v', 'v', 0, {virtual})")
    connection.commit()
    connection.close()
    database = Database.read(path)
    assert [table.name for table in database.tables] == ["t"]
    assert database.warnings == (
        "table g is left out: unknown function: own()", "table v is left out: no such module: nowhere"
    )  # fmt: skip


def test_a_view_without_end_is_kept_with_its_declared_types(make_database, monkeypatch):
    monkeypatch.setattr(read, "MAX_STEPS", 100_000)
    path = make_database(
        """CREATE TABLE t (a VARCHAR(9));
        CREATE VIEW endless AS WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r)
            SELECT (SELECT sum(n) FROM r) AS total, a FROM t UNION ALL SELECT sum(n), '' FROM r;"""
    )
    database = Database.read(path)
    assert types_of(database, "endless") == {"total": "blob", "a": "text"}
    assert database.warnings == ("view endless: the types are those declared, since it takes long to read",)


def test_the_tables_in_which_full_text_search_keeps_its_words_are_left_out(make_database):
    path = make_database("CREATE VIRTUAL TABLE doc USING fts5 (body); INSERT INTO doc VALUES ('some words');")
    (table,) = Database.read(path).tables
    assert table.name == "doc" and [column.name for column in table.columns] == ["body"]


def test_a_collation_that_only_the_databases_own_program_has_is_no_obstacle(make_database):
    path = make_database("CREATE TABLE t (a TEXT);")
    connection = sqlite3.connect(path)
    connection.create_collation("LOCALIZED", lambda left, right: (left > right) - (left < right))
    connection.executescript(
        """CREATE TABLE word (word_id TEXT COLLATE LOCALIZED PRIMARY KEY); INSERT INTO word VALUES ('b'), ('a');
        CREATE TABLE use (word_id TEXT); INSERT INTO use VALUES ('a');"""
    )
    connection.close()
    (key,) = Database.read(path).foreign_keys
    assert (key.table, key.ref_table, key.origin) == ("use", "word", "inferred")


def test_names_with_spaces_quotes_and_other_scripts_are_read(make_database):
    path = make_database(
        """CREATE TABLE "the ""best"" list" ("Order Date" TEXT, "a'b" INTEGER, "城市" TEXT, "x]y" REAL);
        INSERT INTO "the ""best"" list" VALUES ('a', 1, '北京', 0.5);"""
    )
    (table,) = Database.read(path).tables
    assert table.name == 'the "best" list'
    assert [(c.name, c.type) for c in table.columns] == [
        ("Order Date", "text"),
        ("a'b", "integer"),
        ("城市", "text"),
        ("x]y", "real"),
    ]


def test_views_are_tables_and_a_broken_view_is_left_out_with_a_warning(make_database):
    path = make_database(
        """CREATE TABLE t (a TEXT); INSERT INTO t VALUES ('x');
        CREATE VIEW good AS SELECT a, length(a) AS size FROM t;
        CREATE VIEW bad AS SELECT * FROM missing;"""
    )
    database = Database.read(path)
    assert [(table.name, table.is_view) for table in database.tables] == [("t", False), ("good", True)]
    assert types_of(database, "good") == {"a": "text", "size": "integer"}
    assert len(database.warnings) == 1 and "bad" in database.warnings[0]


def test_text_that_is_not_utf8_and_nul_characters_do_not_stop_the_reading(make_database):
    path = make_database("CREATE TABLE t (a TEXT); INSERT INTO t VALUES (CAST(x'636166e9' AS TEXT)), ('a' || char(0));")
    assert types_of(Database.read(path), "t") == {"a": "text"}


def test_a_table_of_two_thousand_columns_is_read(make_database):
    columns = ", ".join(f"c{i} INTEGER" for i in range(2000))
    path = make_database(f"CREATE TABLE wide ({columns}); INSERT INTO wide (c1999) VALUES ('text');")
    database = Database.read(path)
    assert database.column_count == 2000
    assert types_of(database, "wide")["c1999"] == "text"


def test_descriptions_are_read_in_both_encodings_and_any_case(racing):
    folder = racing.parent / "database_description"
    folder.mkdir()
    header = "original_column_name,column_name,column_description,data_format,value_description\n"
    (folder / "Result.csv").write_bytes(
        b"\xef\xbb\xbf" + (header + "STATUS ,,how it ended,text,F: finished\n").encode()
    )
    (folder / "circuit.csv").write_bytes((header + 'name,name,"the café’s\ntrack"\n').encode("cp1252"))
    database = Database.read(racing)
    status = database.by_name["result"].by_name["status"]
    assert (status.description, status.values_description) == ("how it ended", "F: finished")
    assert database.by_name["circuit"].by_name["name"].description == "the café’s track"


@pytest.mark.parametrize("content", [b"this is no database\n" * 100, None])
def test_a_file_that_is_no_database_or_is_missing_is_one_clear_line(tmp_path, content):
    path = tmp_path / "x.sqlite"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match="x.sqlite") as caught:
        Database.read(path)
    assert "\n" not in str(caught.value)


def test_a_directory_and_a_database_without_tables_are_refused(tmp_path, make_database):
    with pytest.raises(InputError, match="a directory"):
        Database.read(tmp_path)
    with pytest.raises(InputError, match="no tables"):
        Database.read(make_database("", name="empty"))


def test_reading_does_not_write(racing):
    before = racing.read_bytes()
    Database.read(racing)
    assert racing.read_bytes() == before
    assert [path.name for path in racing.parent.iterdir()] == ["racing.sqlite"]


def test_a_locked_database_is_one_clear_line(racing, monkeypatch):
    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *args, **options: connect(*args, **{**options, "timeout": 0.05}))
    holder = connect(racing, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    with pytest.raises(InputError, match="locked"):
        Database.read(racing)
    holder.close()
