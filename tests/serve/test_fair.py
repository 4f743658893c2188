"""A share of the workers for each database: a slow one is waited for only by those who ask it."""

import time

import pytest

from serl.serve.fair import FairSandbox
from serl.sql.limits import Limits
from serl.sql.outcome import Status
from serl.sql.sandbox import Sandbox
from tests.ask.made import FOREVER, make_databases


@pytest.fixture(scope="module")
def pool():
    with Sandbox(2, Limits(timeout_s=1.0, grace_s=0.3)) as sandbox:
        yield sandbox


@pytest.fixture
def databases(tmp_path, pool):
    made = list(make_databases(tmp_path, 2).values())
    assert all(outcome.ran for outcome in pool.run_many([(made[0], "SELECT 1")] * 4)), "the workers are up"
    return made


def test_others_do_not_wait_for_a_slow_database(pool, databases):
    fair, (slow, quick) = FairSandbox(pool, 1), databases
    waiting = [fair.submit(slow, FOREVER) for _ in range(3)]
    start = time.monotonic()
    assert [fair.submit(quick, "SELECT name FROM who").outcome.result(20).rows for _ in range(5)] == [(("db1",),)] * 5
    assert time.monotonic() - start < 1.0 and not any(query.outcome.done() for query in waiting)
    for query in waiting:
        query.cancel()
    assert {query.outcome.result(20).status for query in waiting} == {Status.INFRASTRUCTURE}
    assert not fair._waiting and not +fair._running


def test_statements_of_a_database_run_in_turn_and_each_gets_its_own_answer(pool, databases):
    fair = FairSandbox(pool, 1)
    queries = [(number, path, fair.submit(path, f"SELECT {number}, name FROM who"))
               for number in range(20) for path in databases]
    for number, path, query in queries:
        assert query.outcome.result(60).rows == ((number, path.stem),)
    assert not fair._waiting and not +fair._running


def test_a_statement_that_is_cancelled_while_it_waits_never_runs(pool, databases):
    fair, (slow, _) = FairSandbox(pool, 1), databases
    first, second, third = (fair.submit(slow, sql) for sql in (FOREVER, FOREVER, "SELECT 7"))
    second.cancel()
    assert second.outcome.result(0).status is Status.INFRASTRUCTURE
    first.cancel()
    assert third.outcome.result(20).rows == ((7,),)
    third.cancel()
    assert third.outcome.result().rows == ((7,),), "of no effect"
