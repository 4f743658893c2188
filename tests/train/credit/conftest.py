"""A database, and a tiny model of the tokenizer that trajectories are played with."""

import sqlite3

import pytest

from serl.sql.sandbox import Sandbox
from tests.agent.test_env import TOKENIZER
from tests.models import tiny_model


@pytest.fixture(scope="session")
def city(tmp_path_factory):
    """A database of one table."""
    path = tmp_path_factory.mktemp("city") / "geo.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE city (name TEXT, area INTEGER, people INTEGER)")
        connection.execute("INSERT INTO city VALUES ('Lima', 10, 3)")
    connection.close()
    return path


@pytest.fixture(scope="session")
def model():
    return tiny_model(len(TOKENIZER))


@pytest.fixture(scope="session")
def sandbox():
    with Sandbox(workers=1) as opened:
        yield opened
