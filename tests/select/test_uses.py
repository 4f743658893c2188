"""What of S' and the value index a candidate's SQL uses, on a real database."""

import sqlite3

import pytest

from grounding import Grounder, GroundingConfig, Request
from serl.select.uses import numbers, use_of, uses


@pytest.fixture(scope="module")
def racing(tmp_path_factory):
    folder = tmp_path_factory.mktemp("racing")
    with sqlite3.connect(folder / "racing.sqlite") as connection:
        connection.executescript("""
            CREATE TABLE race (race_id INTEGER PRIMARY KEY, title TEXT, city TEXT, laps INTEGER);
            CREATE TABLE driver (driver_id INTEGER PRIMARY KEY, surname TEXT, race_id INTEGER REFERENCES race);
            INSERT INTO race VALUES (1, 'Grand Prix', 'Monaco', 78), (2, 'Open', 'Spa', 44);
            INSERT INTO driver VALUES (1, 'Senna', 1), (2, 'Monza', 2);
        """)
    connection.close()
    return folder / "racing.sqlite"


@pytest.fixture(scope="module")
def grounder(tmp_path_factory):
    return Grounder(tmp_path_factory.mktemp("index"), "none", GroundingConfig(mode="full"))


QUESTION = "What is the surname of the driver in Monaco?"
GOOD = ("SELECT surname FROM driver JOIN race ON driver.race_id = race.race_id WHERE race.city = 'Monaco'")


def use(grounder, racing, sql):
    (found,) = uses(grounder, [Request(QUESTION, racing)], [[sql]])
    return found[sql]


def test_a_query_that_follows_the_question(grounder, racing):
    (grounded,) = grounder.ground_many([Request(QUESTION, racing)])
    evident = {column.name for table in grounded.tables for column in table.columns if column.has_evidence}
    assert {"surname", "city"} <= evident and {match.value for match in grounded.values} == {"Monaco"}
    found = use(grounder, racing, GOOD)
    assert (found.columns, found.literals, found.stored, found.values, found.said) == (4, 1, 1, 1, 1)
    assert found.linked >= 2 and found.linked + found.missed >= len(evident & {"surname", "city"})


def test_a_text_counts_as_stored_in_its_own_column_only(grounder, racing):
    wrong_column = use(grounder, racing, "SELECT surname FROM driver WHERE surname = 'monaco'")
    assert (wrong_column.literals, wrong_column.stored, wrong_column.said) == (1, 0, 0)
    assert use(grounder, racing, "SELECT 1 FROM driver WHERE surname = ' SENNA '").stored == 1  # as it is folded
    assert use(grounder, racing, "SELECT 1 FROM race WHERE city LIKE '%Monaco%'").said == 1
    several = use(grounder, racing, "SELECT 1 FROM race WHERE city IN ('Monaco', 'Rome')")
    assert (several.columns, several.literals, several.stored, several.said) == (1, 2, 1, 1)


def test_numbers_are_those_that_question_and_evidence_say(grounder, racing):
    sql = "SELECT title FROM race WHERE laps BETWEEN 40 AND 78.0 ORDER BY laps LIMIT 1"
    request = Request("Which race has from 40 to 50 laps?", racing, "long means laps > 78")
    (found,) = uses(grounder, [request], [[sql]])
    assert (found[sql].numbers, found[sql].unsaid_numbers, found[sql].missed_numbers) == (2, 0, 1)
    assert use(grounder, racing, sql).unsaid_numbers == 2
    assert numbers("1.2.3 is no number, nor t2, x_3 or 4th") == set()


def test_sql_that_cannot_be_resolved_has_no_use(grounder, racing):
    assert use(grounder, racing, "SELECT FROM WHERE") is None
    assert use(grounder, racing, "SELECT 1") is None


def test_of_one_sql_text_it_is_said_once(grounder, racing):
    (found,) = uses(grounder, [Request(QUESTION, racing)], [[GOOD, GOOD]])
    (grounded,), (_, index) = grounder.ground_many([Request(QUESTION, racing)]), grounder.open(racing)
    assert found == {GOOD: use_of(GOOD, QUESTION, grounded, index)}
