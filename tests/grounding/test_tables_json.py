"""tables.json beside what the database itself says."""

import json

import pytest

from grounding import Grounder, GroundingConfig, Request
from grounding.cli import main
from grounding.errors import InputError
from grounding.schema import DECLARED, TABLES_JSON, Database, ForeignKey

TABLES = ["Stu", "dorm", "room"]
COLUMNS = [
    [-1, "*"], [0, "StuID"], [0, "DormID"], [0, "ht"], [1, "DormID"], [2, "block"], [2, "no"], [0, "rb"], [0, "rn"]
]  # fmt: skip
READABLE = [
    [-1, "*"], [0, "student id"], [0, "dorm id"], [0, "height"], [1, "dorm id"], [2, "block"], [2, "no"], [0, "room"],
    [0, "room"],
]  # fmt: skip
SCRIPT = """CREATE TABLE STU (StuID INTEGER, DormID INTEGER, ht REAL, rb TEXT, rn INTEGER);
    CREATE TABLE dorm (DormID INTEGER); CREATE TABLE room (block TEXT, no INTEGER);"""


@pytest.fixture
def read(make_database, tmp_path):
    """Reads a database of students with an entry of tables.json that has some fields changed."""

    def make(script=SCRIPT, **changes):
        entry = {
            "db_id": "d", "table_names_original": TABLES, "table_names": ["student", "dorm", "room"],
            "column_names_original": COLUMNS, "column_names": READABLE, "primary_keys": [1, 4, [5, 6]],
            "foreign_keys": [[2, 4], [7, 5], [8, 6]],
        } | changes  # fmt: skip
        tables = tmp_path / "some.json"
        tables.write_text(json.dumps([{"db_id": "other"}, entry]), encoding="utf-8")
        return Database.read(make_database(script, name="d"), tables_json=tables, infer_keys=False)

    return make


def test_names_and_keys_are_taken_and_marked(read):
    database = read()
    student = database.by_name["stu"]
    assert student.description == "student", "Stu does not say it"
    assert [column.description for column in student.columns] == ["student id", "", "height", "room", "room"]
    assert database.by_name["dorm"].description == "", "it says no more than the name"
    assert [table.primary_key for table in database.tables] == [("StuID",), ("DormID",), ("block", "no")]
    assert {table.key_origin for table in database.tables} == {TABLES_JSON}
    assert database.joins == (
        (ForeignKey("STU", "DormID", "dorm", "DormID", TABLES_JSON),),
        (
            ForeignKey("STU", "rb", "room", "block", TABLES_JSON, composite=-2),
            ForeignKey("STU", "rn", "room", "no", TABLES_JSON, composite=-2),
        ),
    )
    assert database.warnings == ()


def test_what_the_database_declares_goes_first(read):
    script = """CREATE TABLE dorm (DormID INTEGER, number INTEGER PRIMARY KEY);
        CREATE TABLE stu (StuID INTEGER, DormID INTEGER REFERENCES dorm (number), ht, rb, rn);
        CREATE TABLE room (block TEXT, no INTEGER);"""
    database = read(script, foreign_keys=[[2, 4]])
    assert database.foreign_keys == (ForeignKey("stu", "DormID", "dorm", "number"),)
    dorm, student, _ = database.tables
    assert (dorm.primary_key, dorm.key_origin) == (("number",), DECLARED)
    assert (student.primary_key, student.key_origin) == (("StuID",), TABLES_JSON)


def test_a_key_that_is_declared_in_the_other_direction_is_not_taken_again(read):
    script = """CREATE TABLE stu (StuID INTEGER PRIMARY KEY, DormID INTEGER, ht, rb, rn);
        CREATE TABLE dorm (DormID INTEGER REFERENCES stu (DormID)); CREATE TABLE room (block TEXT, no INTEGER);"""
    assert [key.table for key in read(script, foreign_keys=[[2, 4]]).foreign_keys] == ["dorm"]


def test_a_description_file_goes_first(read, tmp_path):
    folder = tmp_path / "d" / "database_description"
    folder.mkdir(parents=True)
    (folder / "stu.csv").write_text("original_column_name,column_description\nht,in centimetres\n")
    columns = read().by_name["stu"].by_name
    assert (columns["ht"].description, columns["stuid"].description) == ("in centimetres", "student id")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"foreign_keys": [[2, 99]]}, "foreign key [2, 99] names no two columns"),
        ({"foreign_keys": [[2]]}, "foreign key [2] names no two columns"),
        ({"foreign_keys": [[0, 1], [True, 1]]}, "foreign key [0, 1] names no two columns"),
        ({"foreign_keys": [["a", None]]}, "foreign key ['a', None] names no two columns"),
        ({"foreign_keys": [[2, 2]]}, "foreign key stu.dormid → stu.dormid: it refers to itself"),
        ({"primary_keys": [0]}, "primary key 0 names no column"),
        ({"primary_keys": [[1, -1]]}, "primary key [1, -1] names no column"),
        ({"primary_keys": "1"}, None),
        ({"column_names": [[0]], "table_names": None}, None),
        ({"column_names_original": [[0, "a"], [7, "b"]]}, "not in the form of tables.json"),
        ({"column_names_original": 5}, "not in the form of tables.json"),
        ({"table_names_original": [1, 2]}, "not in the form of tables.json"),
        (
            {"column_names_original": [*COLUMNS[:8], [0, "gone"]]},
            "tables.json: foreign key stu.gone → room.no: the database has no such columns",
        ),
        ({"table_names_original": ["Stu", "gone", "room"]}, "primary key gone.dormid: the database has no such column"),
    ],
)
def test_wrong_entries_are_warned_about(read, changes, said):
    database = read(**changes)
    assert len(database.tables) == 3
    assert any(said in warning for warning in database.warnings) if said else database.warnings == ()


@pytest.mark.parametrize("content", ["not json", '{"db_id": "d"}', "[1]", None])
def test_a_file_that_is_no_tables_json_is_one_clear_line(racing, tmp_path, capsys, content):
    path = tmp_path / "tables.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(InputError, match="tables.json"):
        Database.read(racing, tables_json=path)
    query = ["query", "--db", str(racing), "Monaco", "--encoder", "none", "--cache", str(tmp_path / "cache")]
    assert main([*query, "--tables", str(path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_database_without_entry_is_warned_about(racing, tmp_path):
    (tmp_path / "tables.json").write_text("[]")
    (warning,) = Database.read(racing, tables_json=tmp_path / "tables.json").warnings
    assert "no entry with db_id 'racing'" in warning


@pytest.mark.parametrize(
    ("home", "tables"),
    [
        ("database", "tables.json"),
        ("test_database", "test_tables.json"),
        ("dev_databases", "dev_tables.json"),
        ("train/train_databases/train_databases", "train/train_tables.json"),
    ],
)
def test_the_data_sets_file_is_found_where_its_archive_has_it(make_database, tmp_path, home, tables):
    folder = tmp_path / "root" / home
    folder.mkdir(parents=True)
    make_database("CREATE TABLE t (nm TEXT);", name="d").parent.rename(folder / "d")
    columns = {"column_names_original": [[-1, "*"], [0, "nm"]], "column_names": [[-1, "*"], [0, "name"]]}
    entry = {"db_id": "d", "table_names_original": ["t"], "table_names": ["t"], **columns}
    (tmp_path / "root" / tables).write_text(json.dumps([entry]))
    database = Database.read(folder / "d" / "d.sqlite")
    assert database.tables[0].columns[0].description == "name"
    (tmp_path / "root" / tables).write_text("damaged")
    (warning,) = Database.read(folder / "d" / "d.sqlite").warnings
    assert tables.rpartition("/")[2] in warning and "not JSON" in warning


def test_a_question_may_say_a_tables_readable_name(make_database, tmp_path):
    path = make_database("CREATE TABLE stu (a TEXT); CREATE TABLE dorm (b TEXT);", name="d")
    (tmp_path / "t.json").write_text(
        json.dumps([{"db_id": "d", "table_names_original": ["stu"], "table_names": ["student"],
                     "column_names_original": [[-1, "*"]]}])
    )  # fmt: skip
    grounder = Grounder(tmp_path / "cache", "none", GroundingConfig(keep_all_columns=0))
    request = Request("How many students are there?", path, tables_json=tmp_path / "t.json")
    assert [table.name for table in grounder.ground(request).tables] == ["stu"]


def test_an_index_does_not_depend_on_tables_json(make_database, tmp_path):
    """Its folder's name is made from the database's file: numbers that refer to a key of tables.json stay in it."""
    rows = ", ".join(f"({i}, {i})" for i in range(1, 201))
    path = make_database(f"CREATE TABLE dorm (id INTEGER, n INTEGER); INSERT INTO dorm VALUES {rows};", name="d")
    columns = [[-1, "*"], [0, "id"], [0, "n"]]
    entry = {"db_id": "d", "table_names_original": ["dorm"], "column_names_original": columns, "primary_keys": [1]}
    (tmp_path / "t.json").write_text(json.dumps([entry]))
    plans = []
    for cache, tables in (("a", None), ("b", tmp_path / "t.json")):
        _, index = Grounder(tmp_path / cache, "none").open(path, tables_json=tables)
        plans.append([column["why"] for column in index.manifest["columns"]])
    assert plans[0] == plans[1]
