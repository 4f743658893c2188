"""Redaction: messages without what they quote, and answers without the action's own names."""

import importlib.util
import re
import sqlite3
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serl.agent.observation import render_outcome
from serl.hindsight.facts import Facts
from serl.hindsight.levels import ContextOptions, told
from serl.hindsight.redact import names, redact_message, redacted
from serl.sql.outcome import Outcome, Status
from tests.agent.test_env import ROWS

# Statements that are wrong in as many ways as SQLite quotes names in; each name occurs nowhere in its own words.
WRONG = [
    "SELECT xyzzy FROM city", "SELECT city.xyzzy FROM city", "SELECT xyzzy.name FROM city", 'SELECT [xyz zy] FROM city',
    "SELECT name FROM xyzzy", "SELECT name FROM city JOIN town", "SELECT name, name FROM city, town",
    "SELECT xyzzy(name) FROM city", "SELECT abs(name, 1) FROM city", "SELECT sum(sum(people)) FROM city",
    "SELECT name FROM city WHERE sum(people) > 1", "SELECT name FROM city WHERE 'xyzzy", "SELECT FROM city",
    "SELECT name xyzzy plugh FROM city", "SELECT name FROM city COLLATE xyzzy ORDER BY 1 COLLATE plugh",
    "WITH xyzzy AS (SELECT 1), xyzzy AS (SELECT 2) SELECT * FROM xyzzy", "WITH xyzzy AS (SELECT * FROM plugh), "
    "plugh AS (SELECT * FROM xyzzy) SELECT * FROM plugh", "WITH xyzzy(a) AS (SELECT 1, 2) SELECT * FROM xyzzy",
    "SELECT * FROM city JOIN town USING (xyzzy)", "SELECT * FROM city a JOIN town b USING (people)",
    "SELECT row_number() FROM city", "SELECT name FROM city WHERE row_number() OVER () > 1",
    "SELECT abs(name) OVER () FROM city", "SELECT count(DISTINCT name) OVER () FROM city",
    "SELECT abs(name) FILTER (WHERE 1) FROM city", "SELECT sum(people) OVER xyzzy FROM city",
    "SELECT count(people) AS plugh FROM city GROUP BY plugh", "SELECT name FROM city ORDER BY xyzzy",
    "SELECT name MATCH 'x' FROM city", "SELECT * FROM pragma_table_info(1, 2, 3, 4)", "SELECT 0x11112222333344445",
    "WITH RECURSIVE xyzzy AS (SELECT 1 UNION SELECT * FROM (SELECT * FROM xyzzy)) SELECT * FROM xyzzy",
    "WITH RECURSIVE xyzzy AS (SELECT 1 UNION SELECT a.* FROM xyzzy a, xyzzy b) SELECT * FROM xyzzy",
]


@pytest.fixture(scope="module")
def city():
    connection = sqlite3.connect(":memory:")
    connection.executescript("CREATE TABLE city(name TEXT, people INT); CREATE TABLE town(name TEXT);"
                             "INSERT INTO city VALUES ('Lima', 1)")
    yield connection
    connection.close()


def message_of(connection, sql: str) -> str | None:
    try:
        connection.execute(sql).fetchall()
    except sqlite3.Error as error:
        return str(error)
    return None


@pytest.mark.parametrize("sql", WRONG)
def test_no_message_of_sqlite_repeats_a_name_of_the_statement(city, sql):
    message = message_of(city, sql)
    if message is None:
        pytest.skip("this version of SQLite runs it")
    shown = redact_message(message)
    quoted = {name for name in names(sql) if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", message)}
    left = {name for name in quoted if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", shown)}
    assert not left - {"name"}, shown  # SQLite says "column name" itself
    assert not quoted or "<name>" in shown


@pytest.mark.parametrize(("message", "shown"), [
    ("no such column: x", "no such column: <name>"),
    ('no such column: "x" - should this be a string literal in single-quotes?',
     "no such column: <name> - should this be a string literal in single-quotes?"),
    ('near "FROM": syntax error', "near <name>: syntax error"),
    ('near """: syntax error', "near <name>: syntax error"),
    ('near "a very long na…', "near <name>"),
    ("ambiguous column name: race.name", "ambiguous column name: <name>"),
    ("misuse of aggregate: AVG()", "misuse of aggregate: <name>"),
    ("wrong number of arguments to function abs()", "wrong number of arguments to function <name>"),
    ("cannot join using column xyzzy - column not present in both tables",
     "cannot join using column <name> - column not present in both tables"),
    ("PRAGMA is not allowed, only SELECT", "<name> is not allowed, only SELECT"),
    # what repeats nothing stays as it is
    ("incomplete input", "incomplete input"),
    ("2 statements, but only one is allowed", "2 statements, but only one is allowed"),
    ("a GROUP BY clause is required before HAVING", "a GROUP BY clause is required before HAVING"),
    ("sub-select returns 2 columns - expected 1", "sub-select returns 2 columns - expected 1"),
    # PostgreSQL
    ('column "nam" does not exist', "column <name> does not exist"),
    ("column t.nam does not exist", "column <name> does not exist"),
    ("function foo(integer) does not exist", "function <name> does not exist"),
    ("operator does not exist: text = integer", "operator does not exist: text = integer"),
    ('missing FROM-clause entry for table "x"', "missing FROM-clause entry for table <name>"),
    ('column reference "x" is ambiguous', "column reference <name> is ambiguous"),
    ('invalid input syntax for type integer: "abc"', "invalid input syntax for type integer: <name>"),
    # DuckDB
    ('Binder Error: Referenced column "x" not found in FROM clause! Candidate bindings: "a", "b.c"',
     "Binder Error: Referenced column <name> not found in FROM clause! Candidate bindings: <name>, <name>"),
    ('Catalog Error: Table with name x does not exist! Did you mean "y"?',
     "Catalog Error: Table with name <name> does not exist! Did you mean <name>?"),
    ("Conversion Error: Could not convert string 'abc' to INT32",
     "Conversion Error: Could not convert string <name> to INT32"),
])
def test_what_a_message_quotes_becomes_a_placeholder(message, shown):
    assert redact_message(message) == shown


@pytest.mark.skipif(importlib.util.find_spec("duckdb") is None, reason="DuckDB is not installed")
@pytest.mark.parametrize("sql", ["SELECT xyzzy FROM city", "SELECT n FROM xyzzy", "SELECT xyzzy(n) FROM city",
                                 "SELECT city.xyzzy FROM city", "SELECT n xyzzy plugh FROM city",
                                 "SELECT sum(n) FROM city", "SELECT xyzzy.n FROM city"])
def test_no_message_of_duckdb_repeats_a_name_of_the_statement(sql):
    import duckdb

    with duckdb.connect(":memory:") as connection:
        connection.execute("CREATE TABLE city(n TEXT)")
        with pytest.raises(duckdb.Error) as caught:
            connection.execute(sql)
    message = " ".join(str(caught.value).partition("\n\nLINE ")[0].split())
    shown = redact_message(message)
    assert "xyzzy" not in shown and "plugh" not in shown and "<name>" in shown
    assert shown.startswith(message.split(":")[0])


def test_modes_of_redaction():
    error = Outcome(Status.ERROR, error="no such column: city.nam")
    facts = Facts(error, "SELECT city.nam FROM city")
    expected = {"none": "error: no such column: city.nam", "messages": "error: no such column: <name>",
                "action": "error: no such column: <name>"}
    whole = "2 rows\nname | people\nLima | 10\nCusco | NULL"
    rows = {"none": whole, "messages": whole, "action": whole.replace("name | people", "2 columns")}
    for mode in expected:
        options = ContextOptions(redact=mode)
        assert told(facts, options)[0] == expected[mode]
        assert told(replace(facts, outcome=ROWS), options)[0] == rows[mode]
    other = replace(facts, outcome=Outcome(Status.ERROR, error="something about City"))
    assert told(other, ContextOptions(redact="messages"))[0] == "error: something about City"
    assert told(other, ContextOptions(redact="action"))[0] == "error: something about <name>"


def test_a_message_cut_short_by_the_cap_is_redacted_too():
    error = Outcome(Status.ERROR, error=f'near "{"secret " * 60}": syntax error')
    shown = told(Facts(error), ContextOptions(redact="messages", chars=10))[0]
    assert shown == "error: near <name>"


words = st.text(st.characters(codec="utf-8", categories=("L", "Nd"), include_characters=" _-"), min_size=1, max_size=12)


@given(st.lists(words, min_size=1, max_size=4), st.lists(st.tuples(words, words), max_size=3), words)
def test_nothing_of_a_redacted_answer_but_its_cells_repeats_the_action(columns, rows, said):
    sql = "SELECT " + ", ".join(f'"{column}"' for column in columns) + ' FROM "table"'
    used = names(sql)
    for outcome in (Outcome(Status.OK, tuple(columns), tuple(rows), len(rows)),
                    Outcome(Status.ERROR, error=f'{said} {columns[0]}, {columns[-1]}: "{columns[0]}"')):
        answer = redacted(render_outcome(outcome, 5, 40), outcome, sql, "action")
        body = answer.split("\n")[:2] if outcome.ran else [answer.partition(": ")[2]]
        for line in body:
            left = re.sub("<name>|^\\d+ (row|column)s?$", "", line)
            assert not [name for name in used if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", left, re.IGNORECASE)]
