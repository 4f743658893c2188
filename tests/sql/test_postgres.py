"""PostgreSQL in the sandbox: the same outcomes, limits and read-only guarantee, on a real server."""

import asyncio
import math
import time
from collections.abc import Iterator

import pytest

from serl.sql.outcome import Outcome, Status
from serl.sql.sandbox import Sandbox
from tests.sql.postgres import server
from tests.sql.shops import HASTY, LIMITS

psycopg = pytest.importorskip("psycopg")
pytestmark = pytest.mark.slow  # the server takes seconds to start

ENDLESS = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r)"
SHOP = """
    CREATE TABLE item(id integer PRIMARY KEY, name text, price numeric(10, 2));
    INSERT INTO item VALUES (1, 'pen', 1.5), (2, 'ink', NULL), (3, 'Ölfarbe', 12.25);
    CREATE VIEW cheap AS SELECT name FROM item WHERE price < 10;
    CREATE SEQUENCE numbers;
    CREATE TABLE secret AS SELECT 1;
    CREATE FUNCTION clear_items() RETURNS void LANGUAGE sql AS 'DELETE FROM item';
    CREATE EXTENSION dblink;
    CREATE ROLE writer LOGIN;
    GRANT ALL ON item, cheap, numbers TO writer;
    CREATE ROLE programmer LOGIN IN ROLE pg_execute_server_program;
"""

# The role may write to item: what keeps it from that is the sandbox.
ATTACKS = {
    "endless recursion": (f"{ENDLESS} SELECT count(*) FROM r", "timeout"),
    "endless rows into a sort": ("SELECT * FROM generate_series(1, 100000000000) n ORDER BY -n", "timeout"),
    "cross join": ("SELECT count(*) FROM generate_series(1, 100000) a, generate_series(1, 100000) b", "timeout"),
    "sleep": ("SELECT pg_sleep(100)", "timeout"),
    "sleep for each row": ("SELECT pg_sleep(10) FROM item", "timeout"),
    "rows without end": (f"{ENDLESS} SELECT n FROM r", "too_large"),
    "few wide rows": ("SELECT repeat('x', 90000) FROM generate_series(1, 1000)", "too_large"),
    "one wide cell": ("SELECT repeat('x', 200000)", "too_large"),
    "repeat beyond any limit": ("SELECT repeat('x', 2000000000)", "too_large"),
    "1 MB of SQL": (f"SELECT 1{' + 1' * 262_144}", "too_large"),
    "insert": ("INSERT INTO item VALUES (9, 'x', 1)", "denied"),
    "insert returning": ("INSERT INTO item VALUES (9, 'x', 1) RETURNING id", "denied"),
    "delete": ("DELETE FROM item", "denied"),
    "delete within a CTE": ("WITH x AS (DELETE FROM item RETURNING id) SELECT * FROM x", "denied"),
    "delete behind a CTE": ("WITH x AS (SELECT 1) DELETE FROM item", "denied"),
    "delete in a function": ("SELECT clear_items()", "denied"),
    "merge": ("MERGE INTO item USING item AS u ON item.id = u.id WHEN MATCHED THEN DELETE", "denied"),
    "truncate": ("TRUNCATE item", "denied"),
    "select into": ("SELECT * INTO loot FROM item", "denied"),
    "select into a temporary table": ("SELECT * INTO TEMP loot FROM item", "denied"),
    "lock of rows": ("SELECT * FROM item FOR UPDATE", "denied"),
    "drop": ("DROP TABLE item", "denied"),
    "create": ("CREATE TABLE loot(a int)", "denied"),
    "create temporary": ("CREATE TEMP TABLE loot(a int)", "denied"),
    "next of a sequence": ("SELECT nextval('numbers')", "denied"),
    "reset of a sequence": ("SELECT setval('numbers', 7)", "denied"),
    "block of code": ("DO $$ BEGIN DELETE FROM item; END $$", "denied"),
    "call": ("CALL anything()", "denied"),
    "copy to a program": ("COPY item TO PROGRAM 'cat'", "denied"),
    "copy to the client": ("COPY item TO STDOUT", "denied"),
    "copy from a file": ("COPY item FROM '/etc/passwd'", "denied"),
    "explained delete": ("EXPLAIN ANALYZE DELETE FROM item", "denied"),
    "set": ("SET transaction_read_only = off", "denied"),
    "set by a function": ("SELECT set_config('transaction_read_only', 'off', true)", "denied"),
    "timeout lifted": ("SELECT set_config('statement_timeout', '0', false)", "denied"),
    "commit": ("COMMIT", "denied"),
    "begin": ("BEGIN READ WRITE", "denied"),
    "listen": ("LISTEN loot", "denied"),
    "notify": ("SELECT pg_notify('loot', 'x')", "denied"),
    "lock of a table": ("LOCK TABLE item", "denied"),
    "advisory lock": ("SELECT pg_advisory_lock(1)", "denied"),
    "advisory lock, tried": ("SELECT PG_TRY_ADVISORY_XACT_LOCK(1)", "denied"),
    "other sessions ended": ("SELECT pg_terminate_backend(pid) FROM pg_stat_activity", "denied"),
    "other statements ended": ('SELECT "pg_cancel_backend"(pid) FROM pg_stat_activity', "denied"),
    "name in code points": (r'SELECT U&"\0070g_terminate_backend"(1)', "denied"),
    "name in a string of SQL": ("SELECT query_to_xml('SELECT pg_sl' || 'eep(1)', true, true, '')", "denied"),
    "name behind a string trick": ("SELECT E'a'\n'b\\'', pg_terminate_backend(1), '''", "denied"),
    "read a file": ("SELECT pg_read_file('/etc/passwd')", "denied"),
    "list a folder": ("SELECT pg_ls_dir('/')", "denied"),
    "import a file": ("SELECT lo_import('/etc/passwd')", "denied"),
    "export to a file": ("SELECT lo_export(1, '/tmp/loot')", "denied"),
    "large object": ("SELECT lo_create(0)", "denied"),
    "another connection": ("SELECT * FROM dblink('', 'DELETE FROM item RETURNING id') AS x(id int)", "denied"),
    "exported snapshot": ("SELECT pg_export_snapshot()", "denied"),
    "reset of statistics": ("SELECT pg_stat_reset()", "denied"),
    "reload of the configuration": ("SELECT pg_reload_conf()", "denied"),
    "table without a grant": ("SELECT * FROM secret", "denied"),
    "second statement": ("SELECT 1; DROP TABLE item", "denied"),
    "second statement behind a dollar quote": ("SELECT $$;$$; DELETE FROM item", "denied"),
    "empty text": ("", "no_statement"),
    "nested comment only": ("/* /* SELECT 1 */ SELECT 2 */", "no_statement"),
    "not SQL": ("How many items?", "error"),
    "unknown column": ("SELECT nme FROM item", "error"),
    "division by zero": ("SELECT 1 / 0", "error"),
    "parameter": ("SELECT $1", "error"),
    "null character": ("SELECT 1 \0", "error"),
    "lone surrogate": ("SELECT '\ud800'", "error"),
    "deep nesting": (f"SELECT {'(' * 40_000}1{')' * 40_000}", "error"),
    "too many columns": (f"SELECT {', '.join(['1'] * 2000)}", "error"),
    "sequence not yet used": ("SELECT currval('numbers')", "error"),
    "view": ("SELECT * FROM cheap", "ok"),
    "VALUES": ("(VALUES (1), (2))", "ok"),
    "TABLE": ("TABLE item", "ok"),
    "no rows": ("SELECT * FROM item WHERE false", "empty"),
}


@pytest.fixture(scope="module")
def admin() -> Iterator[str]:
    with server() as conninfo:
        with psycopg.connect(conninfo, autocommit=True) as connection:
            connection.execute(SHOP)
        yield conninfo


@pytest.fixture(scope="module")
def shop(admin: str) -> str:
    return admin.replace("user=postgres", "user=writer")


@pytest.fixture(scope="module")
def pool() -> Iterator[Sandbox]:
    with Sandbox(workers=2, limits=LIMITS, dialect="postgres") as sandbox:
        yield sandbox


@pytest.fixture(scope="module")
def hasty_pool() -> Iterator[Sandbox]:
    with Sandbox(workers=1, limits=HASTY, dialect="postgres") as sandbox:
        yield sandbox


def backends(admin: str) -> int:
    """Sessions of the sandbox that the server still has."""
    with psycopg.connect(admin) as connection:
        query = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'serl sandbox'"
        return connection.execute(query).fetchone()[0]


def wait_for_no_backend(admin: str, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while backends(admin) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert backends(admin) == 0


@pytest.mark.parametrize(("sql", "status"), ATTACKS.values(), ids=ATTACKS.keys())
def test_attack_has_its_outcome_and_leaves_no_trace(
    pool: Sandbox, hasty_pool: Sandbox, shop: str, sql: str, status: str
) -> None:
    outcome = (hasty_pool if status == "timeout" else pool).run(shop, sql)
    assert outcome.status == status, outcome.error
    assert (outcome.error == "") == outcome.ran
    assert "\n" not in outcome.error
    after = pool.run(shop, "SELECT id, name FROM item ORDER BY id")
    assert after.rows == ((1, "pen"), (2, "ink"), (3, "Ölfarbe")), after.error


def test_nothing_is_left_in_the_server(admin: str) -> None:
    """Runs after the attacks: no table, large object, used sequence or session of theirs."""
    with psycopg.connect(admin) as connection:
        tables = connection.execute("SELECT relname FROM pg_class WHERE relname = 'loot'").fetchall()
        objects = connection.execute("SELECT count(*) FROM pg_largeobject_metadata").fetchone()[0]
        used = connection.execute("SELECT is_called FROM numbers").fetchone()[0]
    assert (tables, objects, used) == ([], 0, False)
    wait_for_no_backend(admin, seconds=5)


def test_every_type_becomes_a_plain_cell(pool: Sandbox, shop: str) -> None:
    cells = {
        "true": 1,
        "7::smallint": 7,
        "9223372036854775807": 2**63 - 1,
        "sum(id)": 6,
        "1.50::numeric": 1.5,
        "7::numeric": 7,
        "'NaN'::numeric IS NULL": 0,
        "'Infinity'::float8": math.inf,
        "0.1::float8": 0.1,
        "power(10::numeric, 5000)": math.inf,
        "'Öl'": "Öl",
        "'\\x00ff'::bytea": b"\x00\xff",
        "date '2020-01-31'": "2020-01-31",
        "timestamp '2020-01-31 08:00:00'": "2020-01-31 08:00:00",
        "timestamptz '2020-01-31 08:00:00+02'": "2020-01-31 06:00:00+00",
        "interval '1 month 2 days'": "1 mon 2 days",
        "'00000000-0000-0000-0000-00000000000A'::uuid": "00000000-0000-0000-0000-00000000000a",
        "array[1, NULL, 3]": "{1,NULL,3}",
        "row(1, 'x')": "(1,x)",
        "'{\"a\": 1}'::jsonb": '{"a": 1}',
        "NULL": None,
    }
    outcome = pool.run(shop, f"SELECT {', '.join(cells)} FROM item")
    assert outcome.rows == (tuple(cells.values()),), outcome.error
    assert [type(cell) for cell in outcome.rows[0]] == [type(cell) for cell in cells.values()]
    assert Outcome.from_json(outcome.to_json()).rows == outcome.rows


def test_many_rows_keep_their_order_and_no_rows_have_names(pool: Sandbox, shop: str) -> None:
    outcome = pool.run(shop, 'SELECT n AS "the n" FROM generate_series(1, 1000) n ORDER BY n DESC')
    assert (outcome.columns, outcome.row_count) == (("the n",), 1000)
    assert outcome.rows == tuple((n,) for n in range(1000, 0, -1))
    empty = pool.run(shop, "SELECT id, name AS ä FROM item WHERE id > 3")
    assert (empty.status, empty.columns, empty.rows) == (Status.EMPTY, ("id", "ä"), ())


@pytest.mark.parametrize(
    ("user", "why"), [("postgres", "is a superuser"), ("programmer", "may reach files and programs of the server")]
)
def test_powerful_roles_are_refused(pool: Sandbox, admin: str, user: str, why: str) -> None:
    outcome = pool.run(admin.replace("user=postgres", f"user={user}"), "SELECT 1")
    assert (outcome.status, why in outcome.error) == (Status.INFRASTRUCTURE, True)


def test_locked_table_and_absent_server_are_infrastructure(pool: Sandbox, admin: str, shop: str) -> None:
    with psycopg.connect(admin) as connection:
        connection.execute("LOCK TABLE item")
        outcome = pool.run(shop, "SELECT * FROM item")
    assert outcome.status is Status.INFRASTRUCTURE, outcome.error
    for conninfo in ("host=127.0.0.1 port=1 user=writer", "nonsense", shop.replace("dbname=postgres", "dbname=none")):
        assert pool.run(conninfo, "SELECT 1").status is Status.INFRASTRUCTURE


def test_cancel_also_ends_the_query_in_the_server(admin: str, shop: str) -> None:
    async def cancel() -> None:
        task = asyncio.create_task(pool.arun(shop, f"{ENDLESS} SELECT count(*) FROM r"))
        while not backends(admin):
            await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        wait_for_no_backend(admin, seconds=3)
        assert (await pool.arun(shop, "SELECT 1")).rows == ((1,),)

    with Sandbox(workers=1, limits=LIMITS, dialect="postgres") as pool:
        asyncio.run(cancel())
