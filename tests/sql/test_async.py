"""Without waiting: the event loop stays free, and a cancelled statement stops."""

import asyncio
import itertools
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from serl.sql.outcome import Outcome, Status
from serl.sql.sandbox import Sandbox
from tests.sql.processes import alive
from tests.sql.shops import HASTY, LIMITS

FOREVER = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT count(*) FROM r"
LONG_C_CALL = "SELECT printf('%.*c', 2000000000, 'x')"  # not even the engine's interrupt stops it
BEAT_S = 0.01


@pytest.fixture(scope="module")
def patient() -> Iterator[Sandbox]:
    """One worker, and a time limit beyond every assertion's patience."""
    with Sandbox(workers=1, limits=LIMITS) as pool:
        yield pool


async def started(pool: Sandbox, path: Path, sql: str) -> tuple[asyncio.Task, int]:
    """A statement that is running, and its worker's process id (of a pool with one worker)."""
    await pool.arun(path, "SELECT 1")  # the worker is up
    (pid,) = pool.pids()
    task = asyncio.create_task(pool.arun(path, sql))
    busy = _cpu(pid)
    while _cpu(pid) < busy + 0.02:  # burning
        await asyncio.sleep(BEAT_S)
    return task, pid


def test_heart_beats_on_while_slow_queries_run(hasty: Sandbox, shop: Path) -> None:
    async def beats_meanwhile() -> tuple[list[float], list[Outcome]]:
        queries = asyncio.gather(*(hasty.arun(shop, sql) for sql in [FOREVER, LONG_C_CALL, FOREVER, "SELECT 1"]))
        beats = [time.monotonic()]
        while not queries.done():
            await asyncio.sleep(BEAT_S)
            beats.append(time.monotonic())
        return beats, queries.result()

    beats, outcomes = asyncio.run(beats_meanwhile())
    assert [outcome.status for outcome in outcomes] == [*[Status.TIMEOUT] * 3, Status.OK]
    gaps = sorted(later - earlier for earlier, later in itertools.pairwise(beats))
    assert len(gaps) > 20
    assert gaps[len(gaps) // 2] < 5 * BEAT_S
    assert gaps[-1] < HASTY.timeout_s  # a blocked loop would miss a whole query's time


def test_heart_beats_on_while_a_large_result_comes_in(shop: Path) -> None:
    rows = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r LIMIT 90000) SELECT n, 'text ' || n FROM r"

    async def longest_gap(pool: Sandbox) -> float:
        query = asyncio.create_task(pool.arun(shop, rows))
        last, longest = time.monotonic(), 0.0
        while not query.done():
            await asyncio.sleep(BEAT_S)
            now = time.monotonic()
            last, longest = now, max(longest, now - last)
        assert query.result().row_count == 90_000
        return longest

    with Sandbox(workers=1) as pool:
        # The best of three: a machine that stalls for a moment does so once, a loop that is blocked every time.
        assert min(asyncio.run(longest_gap(pool)) for _ in range(3)) < 0.25


@pytest.mark.parametrize("sql", [FOREVER, LONG_C_CALL])
def test_cancel_ends_a_running_statement_and_frees_its_worker(patient: Sandbox, shop: Path, sql: str) -> None:
    async def cancel() -> float:
        task, pid = await started(patient, shop, sql)
        start = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await patient.arun(shop, "SELECT 2")).rows == ((2,),)
        took = time.monotonic() - start
        assert not alive(pid)
        return took

    assert asyncio.run(cancel()) < LIMITS.timeout_s / 2


def test_cancelled_while_waiting_never_runs(patient: Sandbox, shop: Path) -> None:
    async def cancel_the_second() -> tuple[Outcome, float]:
        first, pid = await started(patient, shop, FOREVER)
        second = asyncio.create_task(patient.arun(shop, FOREVER))
        await asyncio.sleep(5 * BEAT_S)
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        assert alive(pid) and not first.done()  # the one that runs does not notice
        third = asyncio.create_task(patient.arun(shop, "SELECT 3"))
        first.cancel()
        start = time.monotonic()
        return await third, time.monotonic() - start

    outcome, took = asyncio.run(cancel_the_second())
    assert outcome.rows == ((3,),)
    assert took < LIMITS.timeout_s / 2  # had the second run, it would have taken all its time


def test_cancel_takes_no_other_statement_with_it(shop: Path) -> None:
    async def cancel_half() -> list[Outcome | BaseException]:
        queries = [asyncio.create_task(pool.arun(shop, f"{FOREVER} LIMIT {n}" if n % 2 else f"SELECT {n}"))
                   for n in range(40)]
        await asyncio.sleep(0.2)
        for query in queries[1::2]:
            query.cancel()
        return await asyncio.gather(*queries, return_exceptions=True)

    with Sandbox(workers=4, limits=LIMITS) as pool:
        results = asyncio.run(cancel_half())
        assert [result.rows for result in results[::2]] == [((n,),) for n in range(0, 40, 2)]
        assert all(isinstance(result, asyncio.CancelledError) for result in results[1::2])
        assert len(pool.pids()) == 4


def test_submitted_statements_come_back_later_and_cancelling_frees_the_worker(patient: Sandbox, shop: Path) -> None:
    start = time.monotonic()
    running, waiting, other = (patient.submit(shop, sql) for sql in (FOREVER, FOREVER, "SELECT 4"))
    assert not any(query.outcome.done() for query in (running, waiting, other))
    waiting.cancel()
    running.cancel()
    assert other.outcome.result().rows == ((4,),)
    assert running.outcome.result().status is waiting.outcome.result().status is Status.INFRASTRUCTURE
    other.cancel()
    assert patient.run(shop, "SELECT 5").rows == ((5,),)
    assert time.monotonic() - start < LIMITS.timeout_s / 2


def test_timeout_of_the_caller_does_not_disturb_the_next(hasty: Sandbox, shop: Path) -> None:
    async def give_up_then_ask() -> Outcome:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(hasty.arun(shop, FOREVER), timeout=0.05)
        return await hasty.arun(shop, "SELECT 1")

    assert asyncio.run(give_up_then_ask()).rows == ((1,),)


def test_cancel_after_the_end_does_not_hit_the_next_statement(patient: Sandbox, shop: Path) -> None:
    async def many() -> None:
        for n in range(40):
            task = asyncio.create_task(patient.arun(shop, f"SELECT {n}"))
            await asyncio.sleep(0.0005 * (n % 5))
            task.cancel()
            assert (await patient.arun(shop, f"SELECT -{n}")).rows == ((-n,),)

    asyncio.run(many())


def _cpu(pid: int) -> float:
    """Seconds of processor time that the process has used."""
    with open(f"/proc/{pid}/schedstat") as file:
        return int(file.read().split()[0]) / 1e9
