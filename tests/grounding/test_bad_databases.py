"""Databases in every bad state, through the library, `grounding build` and `grounding query`: an answer or one line."""

import os
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from grounding import sqlite
from grounding.cli import main
from grounding.errors import InputError
from grounding.schema import Database

MONACO = "CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT); INSERT INTO t VALUES (1, 'Monaco');"


def commands(path, cache, capsys):
    """For build and query: the exit code and what is said; and what query prints."""
    shared = ["--encoder", "none", "--cache", str(cache)]
    said, printed = [], ""
    for command in (["build", "--root", str(path.parent)], ["query", "--db", str(path), "Who won in Monaco?"]):
        code = main([*command, *shared])
        captured = capsys.readouterr()
        lines = [line for line in captured.err.splitlines() if line.startswith("grounding: ")]
        said.append((code, lines))
        printed = captured.out
    return *said, printed


def write(path: Path, content) -> Path:
    path.parent.mkdir(exist_ok=True)
    if content == "folder":
        path.mkdir()
    elif content == "pipe":
        os.mkfifo(path)
    else:
        path.write_bytes(content)
    return path


@pytest.fixture(scope="module")
def database_bytes(tmp_path_factory) -> bytes:
    path = tmp_path_factory.mktemp("whole") / "whole.sqlite"
    connection = sqlite3.connect(path)
    connection.executescript(MONACO)
    connection.executemany("INSERT INTO t (a) VALUES (?)", ((f"value number {i}",) for i in range(5000)))
    connection.commit()
    connection.close()
    return path.read_bytes()


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ("text", "file is not a database; it is encrypted, damaged or another kind"),
        ("encrypted", "file is not a database; it is encrypted, damaged or another kind"),
        ("garbled header", "file is not a database; it is encrypted, damaged or another kind"),
        ("cut off", "check it with PRAGMA integrity_check"),
        ("empty", "has no tables"),
        ("folder", "is a directory"),
        ("pipe", "is no ordinary file"),
    ],
)
def test_what_cannot_be_read_is_one_line(tmp_path, capsys, database_bytes, state, said):
    contents = {
        "text": b"name,age\n" * 500, "encrypted": bytes(range(255, -1, -1)) * 64, "empty": b"",
        "garbled header": database_bytes[:16] + b"\xff" * 84 + database_bytes[100:], "cut off": database_bytes[:9000],
    }  # fmt: skip
    path = write(tmp_path / "db" / "x.sqlite", contents.get(state, state))
    with pytest.raises(InputError, match="x.sqlite") as caught:
        Database.read(path)
    assert said in str(caught.value) and "\n" not in str(caught.value)
    line = f"grounding: {caught.value}"
    assert commands(path, tmp_path / "cache", capsys) == ((1, [line]), (2, [line]), "")


def test_a_missing_file_and_one_without_anything_to_ask_of_are_one_line(make_database, tmp_path, capsys):
    assert main(["query", "--db", str(tmp_path / "x.sqlite"), "?", "--encoder", "none"]) == 2
    assert "x.sqlite: the database file is missing" in capsys.readouterr().err
    path = make_database("CREATE VIEW gone AS SELECT * FROM nowhere;")
    (built, lines), (asked, _), _ = commands(path, tmp_path / "cache", capsys)
    assert (built, asked) == (1, 2)
    assert "nothing in the database can be read: view gone is left out: no such table: main.nowhere" in lines[0]


@pytest.mark.parametrize(
    ("script", "warnings"),
    [
        (
            "CREATE VIEW gone AS SELECT * FROM nowhere; CREATE VIEW much AS SELECT abs(-9223372036854775807 - 1) AS n;"
            "CREATE VIEW wide AS SELECT zeroblob(2000000000) AS z;"
            "CREATE VIEW bad AS SELECT json_extract('{', '$') AS j;",
            ["view gone", "view much", "view wide", "view bad"],
        ),
        (
            "CREATE TABLE own (a TEXT REFERENCES nowhere (b), c TEXT, FOREIGN KEY (a, c) REFERENCES t (a, z));",
            ["foreign key own.a, c", "foreign key own.a refers"],
        ),
        (f"CREATE TABLE columns ({', '.join(f'c{i}' for i in range(2000))});", []),
        (
            "CREATE TABLE b (a, b);"
            "INSERT INTO b VALUES (x'00ff', 'a' || char(0)), (CAST(x'ff41' AS TEXT), zeroblob(9));",
            [],
        ),
        ("CREATE TABLE g (a TEXT, b AS (upper(a)) VIRTUAL, c AS (a || 'x') STORED); INSERT INTO g VALUES ('q');", []),
        ("CREATE TABLE w (k TEXT PRIMARY KEY, v BLOB) WITHOUT ROWID; INSERT INTO w VALUES ('a', x'00');", []),
        ('CREATE TABLE "table" ("select" TEXT, "from" INTEGER, "order" TEXT PRIMARY KEY, "" TEXT);', []),
        ('CREATE TABLE "Élan" ("É" TEXT, "é" TEXT); CREATE TABLE "élan" (a TEXT); INSERT INTO "élan" VALUES (1);', []),
        ("CREATE VIRTUAL TABLE doc USING fts5 (body); INSERT INTO doc VALUES ('words');", []),
        ("CREATE TABLE s (a INT, b ANY) STRICT; CREATE INDEX i ON s (a, lower(b));", []),
    ],
    ids="views keys 2000-columns blobs generated without-rowid keywords accents fts strict".split(),
)
def test_what_is_odd_hides_nothing_else(make_database, tmp_path, capsys, script, warnings):
    path = make_database(MONACO + script)
    (built, said), (asked, said_again), printed = commands(path, tmp_path / "cache", capsys)
    assert built == asked == 0 and "t.a = 'Monaco'" in printed
    assert said == said_again and len(said) == len(warnings)
    assert all(f"{path}: {warning}" in line for warning, line in zip(warnings, said))


def test_a_database_that_another_process_holds_is_one_line_after_a_short_wait(racing, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(sqlite, "BUSY_S", 0.2)
    hold = (
        "import sqlite3, sys; holder = sqlite3.connect(sys.argv[1]);"
        " holder.execute('BEGIN EXCLUSIVE'); print(flush=True); input()"
    )
    holder = subprocess.Popen([sys.executable, "-c", hold, racing], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        holder.stdout.readline()
        with pytest.raises(InputError, match="database is locked; another process is writing to it: try again"):
            Database.read(racing)
        (built, said), (asked, said_again), _ = commands(racing, tmp_path / "cache", capsys)
        assert (built, asked) == (1, 2) and said == said_again and "locked" in said[0]
    finally:
        holder.communicate(b"\n")
    (built, _), (asked, _), printed = commands(racing, tmp_path / "cache", capsys)
    assert built == asked == 0 and "Monaco" in printed


def test_a_wal_database_on_a_medium_that_cannot_be_written(monkeypatch):
    """At rest it is read; with a log that has to be recovered it is one line. (Root writes anywhere: be nobody.)"""
    with tempfile.TemporaryDirectory() as root:
        os.chmod(root, 0o755)
        paths = [Path(root) / name / f"{name}.sqlite" for name in ("rest", "old_log", "log")]
        for path in paths:
            path.parent.mkdir()
            connection = sqlite3.connect(path)
            connection.executescript("PRAGMA journal_mode = WAL; CREATE TABLE t (a TEXT);")
            log = path.with_name(f"{path.name}-wal").read_bytes()
            connection.close()
            if path.stem != "rest":
                path.with_name(f"{path.name}-wal").write_bytes(log if path.stem == "log" else b"")
            path.parent.chmod(0o555)
        Database.read(paths[0])  # loads what it needs, which nobody may perhaps not read
        user = os.geteuid()
        try:
            if user == 0:
                os.seteuid(65534)
            assert [Database.read(path).tables[0].name for path in paths[:2]] == ["t", "t"]
            with pytest.raises(InputError, match="log.sqlite: cannot be read.*copy both elsewhere"):
                Database.read(paths[2])
        finally:
            os.seteuid(user)
            for path in paths:
                path.parent.chmod(0o755)


@pytest.mark.slow
def test_ten_thousand_tables_are_read_indexed_and_asked(make_database, tmp_path, capsys):
    columns = [f"id INTEGER PRIMARY KEY, t{i * 7 % 10_000}_id INTEGER, a TEXT" for i in range(10_000)]
    tables = "".join(f"CREATE TABLE t{i} ({each});" for i, each in enumerate(columns))
    path = make_database(f"BEGIN; {tables} INSERT INTO t77 VALUES (1, 1, 'Monaco'); COMMIT;")
    (built, _), (asked, _), printed = commands(path, tmp_path / "cache", capsys)
    assert built == asked == 0 and "t77.a = 'Monaco'" in printed
