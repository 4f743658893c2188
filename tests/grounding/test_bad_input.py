"""Databases and caches in every bad state: each works, or is one clear line."""

import resource
import sqlite3
import subprocess
import sys

import pytest

from grounding.cli import main
from grounding.embed import CachedEncoder
from grounding.errors import InputError
from grounding.grounded import GroundingConfig
from grounding.index import ValueIndex
from grounding.schema import Database
from grounding.text import trigrams


def open_index(path, cache, encoder=None):
    return ValueIndex.open(Database.read(path), cache, encoder, GroundingConfig())


def texts_of(index):
    return {cell.text for _, cell in index.cells(range(index.manifest["counts"]["strings"]))}


@pytest.mark.parametrize(
    ("content", "what"),
    [(b"name,age\n" * 500, "not a database"), (b"", "no tables"), ("folder", "a directory"), (None, "missing")],
)
def test_what_is_no_database_is_one_line_and_exit_code_2(tmp_path, capsys, content, what):
    path = tmp_path / "x.sqlite"
    if content == "folder":
        path.mkdir()
    elif content is not None:
        path.write_bytes(content)
    code = main(["query", "--db", str(path), "a question", "--encoder", "none", "--cache", str(tmp_path / "cache")])
    err = capsys.readouterr().err
    assert code == 2 and err.count("\n") == 1 and "x.sqlite" in err and what in err


def test_a_database_that_is_locked_while_its_values_are_read_is_one_line(racing, tmp_path, monkeypatch):
    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *args, **options: connect(*args, **{**options, "timeout": 0.05}))
    database = Database.read(racing)
    holder = connect(racing, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    with pytest.raises(InputError, match="racing.sqlite.*locked"):
        ValueIndex.open(database, tmp_path / "cache", None, GroundingConfig())
    holder.close()
    assert not list((tmp_path / "cache").glob(".building*"))
    assert "monaco" in open_index(racing, tmp_path / "cache").exact(["monaco"])


def test_a_database_with_a_damaged_page_is_one_line(make_database, tmp_path):
    rows = ", ".join(f"('value number {i}')" for i in range(5000))
    path = make_database(f"CREATE TABLE t (a TEXT); INSERT INTO t VALUES {rows};")
    with open(path, "r+b") as file:
        file.seek(8 * 4096)
        file.write(b"\xff" * 4096 * 8)
    with pytest.raises(InputError, match="racing.sqlite.*integrity_check"):
        open_index(path, tmp_path / "cache")


def test_a_view_that_fails_is_left_out_and_said_in_the_manifest(make_database, tmp_path):
    path = make_database(
        """CREATE TABLE t (a TEXT); INSERT INTO t VALUES ('x');
        CREATE VIEW gone AS SELECT * FROM missing;
        CREATE VIEW broken AS SELECT abs(-9223372036854775807 - 1) AS n FROM t;"""
    )
    index = open_index(path, tmp_path / "cache")
    assert texts_of(index) == {"x"}
    assert [any(name in line for line in index.manifest["warnings"]) for name in ("gone", "broken")] == [True, True]


def test_a_table_of_two_thousand_columns_is_indexed(make_database, tmp_path):
    columns = ", ".join(f"c{i}" for i in range(2000))
    row = "INSERT INTO wide (c0, c399, c400, c1999) VALUES ('a', 'b', 3, 'd');"
    path = make_database(f"CREATE TABLE wide ({columns}); {row}")
    index = open_index(path, tmp_path / "cache")
    assert texts_of(index) == {"a", "b", "3", "d"}
    assert len(index.manifest["columns"]) == 2000
    assert index.manifest["columns"][7]["why"] == "nothing is stored in it"


def test_blobs_nul_characters_and_broken_utf8_are_survived(make_database, minilm, tmp_path):
    path = make_database(
        """CREATE TABLE t (a);
        INSERT INTO t VALUES (x'00ff'), ('before' || char(0) || 'after'), (char(0) || 'x'), (CAST(x'636166e9' AS TEXT)),
            (CAST(x'636166ea' AS TEXT)), ('plain');"""
    )
    index = open_index(path, tmp_path / "cache", minilm)
    assert texts_of(index) == {"before", "caf\ufffd", "plain"}
    (column,) = index.manifest["columns"]
    assert column["cells"] == {"text": 5, "numbers": 0, "blobs": 1} and "blobs are not indexed" in column["why"]
    assert index.trigram(trigrams("befor"))[0][1] == "before"


def test_utf16_databases_are_read(tmp_path):
    path = tmp_path / "wide.sqlite"
    connection = sqlite3.connect(path)
    connection.executescript("PRAGMA encoding = 'UTF-16'; CREATE TABLE t (a TEXT); INSERT INTO t VALUES ('Zürich');")
    connection.close()
    assert texts_of(open_index(path, tmp_path / "cache")) == {"Zürich"}


def test_names_of_any_kind_are_kept_as_they_are(make_database, tmp_path, capsys):
    path = make_database(
        """CREATE TABLE "the ""best""\nlist" ("a'b" TEXT, "城 市" TEXT, "x;y--" INTEGER, "rows" TEXT, "value" TEXT);
        INSERT INTO "the ""best""\nlist" VALUES ('q', '北京', 7, 'r', 'v');"""
    )
    index = open_index(path, tmp_path / "cache")
    cells = [cell for _, cell in index.cells(range(5))]
    assert {cell.table for cell in cells} == {'the "best"\nlist'}
    assert {cell.column: cell.text for cell in cells} == {
        "a'b": "q", "城 市": "北京", "x;y--": "7", "rows": "r", "value": "v"
    }  # fmt: skip
    assert index.samples('the "best"\nlist', "城 市", 1) == ("北京",)


def test_a_wal_database_that_is_written_to_is_read_as_it_was_committed(make_database, tmp_path):
    path = make_database("PRAGMA journal_mode = WAL; CREATE TABLE t (a TEXT); INSERT INTO t VALUES ('first');")
    writer = sqlite3.connect(path)
    writer.execute("INSERT INTO t VALUES ('second')")
    writer.commit()
    writer.execute("INSERT INTO t VALUES ('third')")  # not committed
    index = open_index(path, tmp_path / "cache")
    assert texts_of(index) == {"first", "second"}
    writer.commit()
    assert texts_of(open_index(path, tmp_path / "cache")) == {"first", "second", "third"}
    writer.close()


def test_a_wal_database_at_rest_is_read_without_a_trace(make_database, tmp_path):
    path = make_database("PRAGMA journal_mode = WAL; CREATE TABLE t (a TEXT); INSERT INTO t VALUES ('first');")
    assert [file.name for file in path.parent.iterdir()] == [path.name]
    assert texts_of(open_index(path, tmp_path / "cache")) == {"first"}
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_a_cache_that_cannot_be_written_is_one_line(racing, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    query = ["query", "--db", str(racing), "Monaco", "--encoder", "none"]
    code = main([*query, "--cache", str(tmp_path / "file" / "cache")])
    err = capsys.readouterr().err
    assert code == 2 and err.count("\n") == 1 and "cannot be written" in err


def test_vectors_that_cannot_be_kept_are_still_computed(tmp_path, minilm):
    (tmp_path / "file").write_text("")
    vectors = CachedEncoder(minilm, tmp_path / "file" / "vectors").encode(["a", "b", "a"])
    assert vectors.shape == (3, 384) and (vectors[0] == vectors[2]).all()


def test_a_full_disk_is_one_line_and_leaves_nothing_half_made(make_database, tmp_path):
    rows = ", ".join(f"('value number {i}')" for i in range(20_000))
    path = make_database(f"CREATE TABLE t (a TEXT); INSERT INTO t VALUES {rows};", name="large")
    command = [sys.executable, "-m", "grounding", "build", "--root", path.parent, "--encoder", "none"]
    result = subprocess.run(
        [*map(str, command), "--cache", str(tmp_path / "cache")],
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000)),
    )
    said = [line for line in result.stderr.splitlines() if line.startswith("grounding: ")]
    assert result.returncode == 1, result.stderr
    assert len(said) == 1 and "large.sqlite" in said[0] and "Traceback" not in result.stderr
    assert [file.name for file in (tmp_path / "cache").iterdir() if file.name != "hashes"] == []
