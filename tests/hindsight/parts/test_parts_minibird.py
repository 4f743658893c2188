"""Any gold query of a generated benchmark: all that is asked of it can be answered, and the counts are right."""

import random
import re
from contextlib import closing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from serl.data.minibird.compose import compose
from serl.data.minibird.domains import SEEN
from serl.data.minibird.kinds import KINDS
from serl.data.minibird.world import World
from serl.data.minibird.writer import sqlite_bytes
from serl.hindsight.parts.asks import asks, found
from serl.hindsight.parts.part import Kind
from serl.sql.outcome import Status

SHAPES = [(difficulty, kind) for difficulty, (_, kinds) in KINDS.items() for kind in kinds]
_TEXT = re.compile(r"SELECT (?P<columns>.*?) FROM (?P<source>.*?)(?: WHERE (?P<where>.*?))?"
                   r"(?: GROUP BY .*?| ORDER BY .*?)?")


@pytest.fixture(scope="session")
def worlds(tmp_path_factory):
    """Two generated databases, each with its file."""
    made = []
    for database in SEEN[:2]:
        path = tmp_path_factory.mktemp("worlds") / f"{database.name}.sqlite"
        made.append((world := World(database, 0), path))
        path.write_bytes(sqlite_bytes(world))
    return made


@settings(max_examples=120)
@given(st.sampled_from([0, 1]), st.sampled_from(SHAPES), st.integers(0, 10_000))
def test_every_part_of_gold_runs_and_where_keeps_what_it_keeps(worlds, sandbox, number, shape, seed):
    world, path = worlds[number]
    difficulty, kind = shape
    question = compose(world, kind, difficulty, random.Random(seed))
    if question is None:
        return
    for status in (Status.OK, Status.ERROR):  # together, and each alone
        asked = asks(question.sql, status)
        outcomes = sandbox.run_many([(path, ask.statement) for ask in asked])
        assert asked and all(outcome.status is Status.OK for outcome in outcomes), (question.sql, outcomes)
        if " INTERSECT " in question.sql or " EXCEPT " in question.sql:
            continue
        parts = {finding.part.key: finding for finding in found(asked, outcomes)}
        conditions = [key for key in parts if key[0] == "" and key[1] is Kind.CONDITION]
        kept = parts.get(("", Kind.WHERE, 1)) or (parts[conditions[0]] if conditions else None)
        source, where = _TEXT.fullmatch(question.sql).group("source", "where")
        assert (kept is None) == (where is None)
        if kept is not None:
            with closing(world.connection.execute(f"SELECT COUNT(*) FROM {source} WHERE {where}")) as cursor:
                assert kept.rows == cursor.fetchone()[0], question.sql
