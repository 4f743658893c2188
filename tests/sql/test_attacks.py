"""Statements that take sandboxes down. Each has its outcome, and none leaves a trace."""

import os
from pathlib import Path

import pytest

from serl.sql.sandbox import Sandbox

ENDLESS = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r)"
MANY = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r LIMIT 100000)"

# DIR in a statement stands for the database's folder.
ATTACKS = {
    # time
    "endless recursion": (f"{ENDLESS} SELECT count(*) FROM r", "timeout"),
    "cross join": (f"{MANY} SELECT count(*) FROM r a, r b, r c", "timeout"),
    "endless distinct": (f"{ENDLESS} SELECT DISTINCT n % 7 FROM r", "timeout"),
    "one long C call": ("SELECT printf('%.*c', 2000000000, 'x')", "timeout"),
    # size
    "zeroblob bomb": ("SELECT length(hex(zeroblob(400000000)))", "too_large"),
    "replace bomb": ("SELECT replace(printf('%.9999c', 'x'), 'x', printf('%.9999c', 'y'))", "too_large"),
    "group_concat bomb": (f"{MANY} SELECT group_concat('0123456789') FROM r", "too_large"),
    "rows without end": (f"{ENDLESS} SELECT n FROM r", "too_large"),
    "few wide rows": (f"{MANY} SELECT zeroblob(90000) FROM r", "too_large"),
    "sort that fills memory": (f"{MANY} SELECT hex(randomblob(40000)) AS x FROM r ORDER BY x", "too_large"),
    "long SQL text": (f"SELECT 1{' + 1' * 100_000}", "too_large"),
    # writing
    "insert": ("INSERT INTO item VALUES (9, 'x', 1)", "denied"),
    "insert returning": ("INSERT INTO item VALUES (9, 'x', 1) RETURNING id", "denied"),
    "delete": ("DELETE FROM item", "denied"),
    "update": ("UPDATE item SET price = 0", "denied"),
    "replace": ("REPLACE INTO item VALUES (1, 'x', 1)", "denied"),
    "delete behind a CTE": ("WITH x AS (SELECT 1) DELETE FROM item", "denied"),
    "explained delete": ("EXPLAIN DELETE FROM item", "denied"),
    "drop": ("DROP TABLE item", "denied"),
    "create": ("CREATE TABLE loot(a)", "denied"),
    "create temporary": ("CREATE TEMP TABLE loot AS SELECT * FROM item", "denied"),
    "create virtual": ("CREATE VIRTUAL TABLE loot USING fts5(a)", "denied"),
    "alter": ("ALTER TABLE item RENAME TO loot", "denied"),
    "reindex": ("REINDEX", "denied"),
    "analyze": ("ANALYZE", "denied"),
    "vacuum": ("VACUUM", "denied"),
    "vacuum into a file": ("VACUUM INTO 'DIR/loot.sqlite'", "denied"),
    "attach a new file": ("ATTACH 'DIR/loot.sqlite' AS loot", "denied"),
    "attach memory": ("ATTACH ':memory:' AS loot", "denied"),
    "write by pragma": ("PRAGMA user_version = 7", "denied"),
    "pragma that unlocks the schema": ("PRAGMA writable_schema = ON", "denied"),
    "pragma that lifts the memory limit": ("PRAGMA hard_heap_limit = 0", "denied"),
    "pragma as a table": ("SELECT * FROM pragma_journal_mode", "denied"),
    "begin": ("BEGIN EXCLUSIVE", "denied"),
    "savepoint": ("SAVEPOINT s", "denied"),
    "load an extension": ("SELECT load_extension('DIR/loot.so')", "denied"),
    "pointer to C code": ("SELECT fts3_tokenizer('simple')", "denied"),
    # not one statement
    "second statement": ("SELECT 1; DROP TABLE item", "denied"),
    "second statement behind a comment": ("SELECT 1 /* ; */; -- ;\n DELETE FROM item", "denied"),
    "empty text": ("", "no_statement"),
    "blank text": (" \n;; ", "no_statement"),
    "comment only": ("-- SELECT 1", "no_statement"),
    "comment that never closes": ("/* SELECT 1", "no_statement"),
    "byte order mark only": ("\ufeff", "no_statement"),
    # malformed text
    "string that never closes": ("SELECT 'abc", "error"),
    "lone surrogate": ("SELECT '\ud800'", "error"),
    "null character": ("SELECT 1 \0; DROP TABLE item", "error"),
    "deep nesting": (f"SELECT {'(' * 5000}1{')' * 5000}", "error"),
    "deep expression": (f"SELECT 1{' + 1' * 5000}", "error"),
    "too many UNIONs": (" UNION ALL ".join(["SELECT 1"] * 1000), "error"),
    "parameter": ("SELECT ?", "error"),
    "function that is not there": ("SELECT writefile('DIR/loot', 'x')", "error"),
    "operator that is not there": ("SELECT 1 WHERE 'a' REGEXP 'a'", "error"),
    # harmless, must work
    "text that is not UTF-8": ("SELECT CAST(x'ff41' AS TEXT)", "ok"),
    "infinity": ("SELECT 9e999, -9e999, 9e999 - 9e999", "ok"),
    "schema": ("SELECT name FROM sqlite_master", "ok"),
    "view": ("SELECT * FROM cheap", "ok"),
    "JSON table function": ("SELECT value FROM json_each('[1, 2]')", "ok"),
    "VALUES": ("VALUES (1), (2)", "ok"),
}


@pytest.mark.parametrize(("sql", "status"), ATTACKS.values(), ids=ATTACKS.keys())
def test_attack_has_its_outcome_and_leaves_no_trace(
    sandbox: Sandbox, hasty: Sandbox, shop: Path, sql: str, status: str
) -> None:
    before = shop.read_bytes()
    sandbox = hasty if status == "timeout" else sandbox
    outcome = sandbox.run(shop, sql.replace("DIR", str(shop.parent)))
    assert outcome.status == status, outcome.error
    assert (outcome.error == "") == outcome.ran
    assert shop.read_bytes() == before
    assert os.listdir(shop.parent) == [shop.name]
    after = sandbox.run(shop, "SELECT id, name FROM item ORDER BY id")
    assert after.rows == ((1, "pen"), (2, "ink"), (3, "Ölfarbe"))


def test_attacks_side_by_side_do_not_touch_each_other(hasty: Sandbox, shop: Path) -> None:
    good = "SELECT count(*) FROM item"
    quick = [case for case in ATTACKS.values() if case[1] not in ("timeout", "too_large")]
    slow = [ATTACKS["one long C call"], ATTACKS["endless recursion"]]
    cases = [case for attack in (*quick, *slow) for case in (attack, (good, "ok"))]
    outcomes = hasty.run_many([(shop, sql.replace("DIR", str(shop.parent))) for sql, _ in cases])
    assert [outcome.status.value for outcome in outcomes] == [status for _, status in cases]
    assert all(outcome.rows == ((3,),) for outcome, (sql, _) in zip(outcomes, cases) if sql == good)
    assert os.listdir(shop.parent) == [shop.name]
