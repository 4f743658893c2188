"""A small database whose counts can be worked out by hand, and what is told of a query on it.

    city   1 Lima   state 1  10 people      state  1 Coast      visit   city 1: 2001, 2002, 2003
           2 Cusco  state 2   5                    2 Andes              city 2: 2001
           3 Puno   state 2   NULL                 3 Selva
           4 Tacna  state 9   7
"""

import sqlite3
from collections.abc import Callable

import pytest

from serl.hindsight.parts.asks import asks, found
from serl.hindsight.parts.lines import lines_of
from serl.sql.sandbox import Sandbox


@pytest.fixture(scope="session")
def geo(tmp_path_factory):
    path = tmp_path_factory.mktemp("geo") / "geo.sqlite"
    with sqlite3.connect(path) as connection:
        connection.executescript("""
            CREATE TABLE city (id INTEGER PRIMARY KEY, name TEXT, state_id INTEGER, people INTEGER);
            CREATE TABLE state (id INTEGER PRIMARY KEY, name TEXT);
            CREATE TABLE visit (city_id INTEGER, year INTEGER);
            INSERT INTO city VALUES (1, 'Lima', 1, 10), (2, 'Cusco', 2, 5), (3, 'Puno', 2, NULL), (4, 'Tacna', 9, 7);
            INSERT INTO state VALUES (1, 'Coast'), (2, 'Andes'), (3, 'Selva');
            INSERT INTO visit VALUES (1, 2001), (1, 2002), (1, 2003), (2, 2001);
        """)
    connection.close()
    return path


@pytest.fixture(scope="session")
def sandbox():
    with Sandbox(workers=1) as opened:
        yield opened


@pytest.fixture(scope="session")
def findings(geo, sandbox) -> Callable:
    """`findings(sql)`: what executing the parts of a query found."""
    def ask(sql: str):
        asked = asks(sql, sandbox.run(geo, sql).status)
        return found(asked, sandbox.run_many([(geo, ask.statement) for ask in asked]))

    return ask


@pytest.fixture(scope="session")
def lines(findings) -> Callable:
    """`lines(sql)`: what is told of a query's parts."""
    def tell(sql: str, named: bool = True) -> list[str]:
        return [line.text for line in lines_of(findings(sql), named, 40)]

    return tell


@pytest.fixture(scope="session")
def ranks(findings) -> Callable:
    """`ranks(sql)`: the rank of each line, by the name of its part."""
    def tell(sql: str) -> dict[str, int]:
        return {line.text.partition(": ")[0]: line.rank for line in lines_of(findings(sql), False, 40)}

    return tell
