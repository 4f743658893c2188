"""DuckDB in the sandbox: the same outcomes, limits and read-only guarantee as SQLite."""

import math
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from serl.sql.outcome import Outcome, Status
from serl.sql.sandbox import Sandbox
from tests.sql.shops import HASTY, LIMITS

duckdb = pytest.importorskip("duckdb")

ENDLESS = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r)"

# DIR in a statement stands for the database's folder.
ATTACKS = {
    "endless recursion": (f"{ENDLESS} SELECT count(*) FROM r", "timeout"),
    "cross join": ("SELECT count(*) FROM range(1000000) a, range(1000000) b", "timeout"),
    "endless counting": ("SELECT count(*) FROM range(1000000000000)", "timeout"),
    "rows without end": ("SELECT * FROM range(100000000000)", "too_large"),
    "few wide rows": ("SELECT repeat('x', 90000) FROM range(1000)", "too_large"),
    "one wide cell": ("SELECT repeat('x', 200000)", "too_large"),
    "repeat bomb": ("SELECT length(repeat('x', 2000000000))", "too_large"),
    "list bomb": ("SELECT list(range) FROM range(1000000000)", "too_large"),
    "1 MB of SQL": (f"SELECT 1{' + 1' * 262_144}", "too_large"),
    "insert": ("INSERT INTO item VALUES (9, 'x', 1)", "denied"),
    "insert within a CTE": ("WITH x AS (INSERT INTO item VALUES (9, 'x', 1) RETURNING id) SELECT * FROM x", "denied"),
    "update": ("UPDATE item SET price = 0", "denied"),
    "delete": ("DELETE FROM item", "denied"),
    "merge": ("MERGE INTO item USING item AS u ON item.id = u.id WHEN MATCHED THEN DELETE", "denied"),
    "truncate": ("TRUNCATE item", "denied"),
    "drop": ("DROP TABLE item", "denied"),
    "create": ("CREATE TABLE loot(a INT)", "denied"),
    "create temporary": ("CREATE TEMP TABLE loot AS SELECT 1", "denied"),
    "create macro": ("CREATE MACRO loot() AS 1", "denied"),
    "alter": ("ALTER TABLE item RENAME TO loot", "denied"),
    "next of a sequence": ("SELECT nextval('numbers')", "denied"),
    "copy out": ("COPY item TO 'DIR/loot.csv'", "denied"),
    "copy in": ("COPY item FROM '/etc/passwd'", "denied"),
    "export": ("EXPORT DATABASE 'DIR/loot'", "denied"),
    "import": ("IMPORT DATABASE 'DIR'", "denied"),
    "attach": ("ATTACH 'DIR/loot.duckdb' AS loot", "denied"),
    "install": ("INSTALL httpfs", "denied"),
    "load": ("LOAD 'DIR/loot.duckdb_extension'", "denied"),
    "set": ("SET enable_external_access = true", "denied"),
    "unlock": ("SET lock_configuration = false", "denied"),
    "pragma": ("PRAGMA memory_limit = '10GB'", "denied"),
    "checkpoint": ("CHECKPOINT", "denied"),
    "vacuum": ("VACUUM", "denied"),
    "begin": ("BEGIN", "denied"),
    "prepare": ("PREPARE p AS SELECT 1", "denied"),
    "call": ("CALL pragma_version()", "denied"),
    "use": ("USE main", "denied"),
    "comment on": ("COMMENT ON TABLE item IS 'x'", "denied"),
    "read a file": ("SELECT * FROM read_text('/etc/passwd')", "denied"),
    "read a file as csv": ("SELECT * FROM read_csv('/etc/passwd')", "denied"),
    "list a folder": ("SELECT * FROM glob('/etc/*')", "denied"),
    "second statement": ("SELECT 1; DROP TABLE item", "denied"),
    "empty text": ("", "no_statement"),
    "comment only": ("-- SELECT 1", "no_statement"),
    "file as a table": ("SELECT * FROM '/etc/passwd'", "error"),
    "variable of the caller as a table": ("SELECT * FROM statement", "error"),
    "query from a string": ("SELECT * FROM query('DELETE FROM item')", "error"),
    "environment": ("SELECT getenv('HOME')", "error"),
    "not SQL": ("How many items?", "error"),
    "unknown column": ("SELECT nme FROM item", "error"),
    "failing function": ("SELECT error('x')", "error"),
    "null character": ("SELECT 1 \0", "error"),
    "lone surrogate": ("SELECT '\ud800'", "error"),
    "deep nesting": (f"SELECT {'(' * 5000}1{')' * 5000}", "error"),
    "deep subqueries": ("SELECT * FROM (" * 2000 + "SELECT 1" + ")" * 2000, "error"),
    "deep list": (f"SELECT {'[' * 5000}1{']' * 5000}", "error"),
    "parameter": ("SELECT ?", "error"),
    "from first": ("FROM item", "ok"),
    "view": ("SELECT * FROM cheap", "ok"),
    "schema": ("DESCRIBE item", "ok"),
    "no rows": ("SELECT * FROM item WHERE false", "empty"),
}


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("duck") / "shop.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute(
            """
            CREATE TABLE item(id INTEGER PRIMARY KEY, name VARCHAR, price DECIMAL(10, 2));
            INSERT INTO item VALUES (1, 'pen', 1.5), (2, 'ink', NULL), (3, 'Ölfarbe', 12.25);
            CREATE VIEW cheap AS SELECT name FROM item WHERE price < 10;
            CREATE SEQUENCE numbers;
            """
        )
    return path


@pytest.fixture(scope="module")
def pool() -> Iterator[Sandbox]:
    with Sandbox(workers=1, limits=LIMITS, dialect="duckdb") as sandbox:
        yield sandbox


@pytest.fixture(scope="module")
def hasty_pool() -> Iterator[Sandbox]:
    with Sandbox(workers=1, limits=HASTY, dialect="duckdb") as sandbox:
        yield sandbox


@pytest.mark.parametrize(("sql", "status"), ATTACKS.values(), ids=ATTACKS.keys())
def test_attack_has_its_outcome_and_leaves_no_trace(
    pool: Sandbox, hasty_pool: Sandbox, shop: Path, sql: str, status: str
) -> None:
    before = shop.read_bytes()
    sandbox = hasty_pool if status == "timeout" else pool
    start = time.monotonic()
    outcome = sandbox.run(shop, sql.replace("DIR", str(shop.parent)))
    assert outcome.status == status, outcome.error
    assert (outcome.error == "") == outcome.ran
    assert "\n" not in outcome.error
    assert time.monotonic() - start < 10
    assert shop.read_bytes() == before
    assert os.listdir(shop.parent) == [shop.name]
    after = pool.run(shop, "SELECT id, name FROM item ORDER BY id")
    assert after.rows == ((1, "pen"), (2, "ink"), (3, "Ölfarbe"))


def test_every_type_becomes_a_plain_cell(pool: Sandbox, shop: Path) -> None:
    cells = {
        "true": 1,
        "7::UTINYINT": 7,
        "170141183460469231731687303715884105727::HUGEINT": 2**127 - 1,
        "1.50::DECIMAL(10, 2)": 1.5,
        "7::DECIMAL(10, 0)": 7,
        "0.1::DOUBLE": 0.1,
        "'inf'::DOUBLE": math.inf,
        "'Öl'": "Öl",
        "'\\x00a'::BLOB": b"\x00a",
        "'101'::BIT": "101",
        "DATE '2020-01-31'": "2020-01-31",
        "TIMESTAMP '2020-01-31 08:00:00'": "2020-01-31 08:00:00",
        "TIMESTAMP '2020-01-31 08:00:00.25'": "2020-01-31 08:00:00.250000",
        "TIMESTAMPTZ '2020-01-31 08:00:00+02'": "2020-01-31 06:00:00+00:00",
        "TIME '08:00:00'": "08:00:00",
        "INTERVAL '3 days 2 hours'": "3 days, 2:00:00",
        "UUID '00000000-0000-0000-0000-00000000000a'": "00000000-0000-0000-0000-00000000000a",
        "[1, NULL, 3]": "[1, null, 3]",
        "{'a': 1.5::DECIMAL(3, 1), 'd': DATE '2020-01-31', 'x': 'a'::BLOB}": '{"a": 1.5, "d": "2020-01-31", "x": "61"}',
        "MAP {1: 'x'}": '{"1": "x"}',
        "NULL": None,
    }
    outcome = pool.run(shop, f"SELECT {', '.join(cells)}")
    assert outcome.rows == (tuple(cells.values()),), outcome.error
    assert [type(cell) for cell in outcome.rows[0]] == [type(cell) for cell in cells.values()]
    assert Outcome.from_json(outcome.to_json()).rows == outcome.rows


def test_many_rows_keep_their_order_and_names(pool: Sandbox, shop: Path) -> None:
    outcome = pool.run(shop, 'SELECT range AS "the n" FROM range(1000) ORDER BY range DESC')
    assert (outcome.columns, outcome.row_count) == (("the n",), 1000)
    assert outcome.rows == tuple((n,) for n in reversed(range(1000)))


@pytest.mark.parametrize("name", ["missing", "folder", "not a database"])
def test_unreadable_database_is_infrastructure(pool: Sandbox, tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    if name == "folder":
        path.mkdir()
    elif name == "not a database":
        path.write_text("hello, this is a letter " * 1000)
    outcome = pool.run(path, "SELECT 1")
    assert outcome.status is Status.INFRASTRUCTURE
    assert str(path) in outcome.error
    assert os.listdir(tmp_path) == ([] if name == "missing" else [name])


def test_database_that_a_writer_holds_is_infrastructure(pool: Sandbox, tmp_path: Path) -> None:
    path = tmp_path / "held.duckdb"
    with duckdb.connect(str(path)) as writer:
        writer.execute("CREATE TABLE t AS SELECT 1")
        assert pool.run(path, "SELECT * FROM t").status is Status.INFRASTRUCTURE
    assert pool.run(path, "SELECT * FROM t").rows == ((1,),)
