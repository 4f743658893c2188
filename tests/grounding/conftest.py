"""A small database of motor racing, and the real sentence encoder, loaded once a session."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from grounding.embed import Encoder, find_encoder

RACING = """
CREATE TABLE circuit (id INTEGER PRIMARY KEY, name TEXT, country TEXT);
CREATE TABLE race (
    id INTEGER PRIMARY KEY, name TEXT, "Race Date" TEXT, laps INTEGER, circuit_id INTEGER REFERENCES circuit);
CREATE TABLE driver (id INTEGER PRIMARY KEY, name TEXT, nationality TEXT);
CREATE TABLE result (
    race_id INTEGER REFERENCES race (id), driver_id INTEGER REFERENCES driver (id), status TEXT, points REAL,
    PRIMARY KEY (race_id, driver_id));
INSERT INTO circuit VALUES (1, 'Circuit de Monaco', 'Monaco'), (2, 'Autodromo di Monza', 'Italy');
INSERT INTO race VALUES (1, 'Monaco Grand Prix', '2009-05-24', 78, 1), (2, 'ITALIAN GRAND PRIX', '2009-09-13', 53, 2);
INSERT INTO driver VALUES (1, 'Jenson Button', 'British'), (2, 'Pat O''Ward', 'Mexican');
INSERT INTO result VALUES (1, 1, 'F', 10.0), (1, 2, 'R', 0.0), (2, 1, 'F', 8.0);
"""


@pytest.fixture
def make_database(tmp_path: Path) -> Callable[..., Path]:
    """Writes a SQLite file from a script; further calls with the same name add to it."""

    def make(script: str, name: str = "racing") -> Path:
        path = tmp_path / name / f"{name}.sqlite"
        path.parent.mkdir(exist_ok=True)
        connection = sqlite3.connect(path)
        connection.executescript(script)
        connection.close()
        return path

    return make


@pytest.fixture
def racing(make_database: Callable[..., Path]) -> Path:
    return make_database(RACING)


@pytest.fixture(scope="session")
def minilm() -> Encoder:
    return find_encoder("minilm")
