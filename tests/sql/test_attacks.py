"""Every attack has its outcome, and none leaves a trace: one by one, and 32 at a time."""

import asyncio
import dataclasses
import gc
import os
from pathlib import Path

import pytest

from serl.sql.outcome import Outcome
from serl.sql.sandbox import Sandbox
from tests.sql.attacks import ATTACKS
from tests.sql.processes import alive, resident_mb, worker_children
from tests.sql.shops import HASTY, LIMITS, make_shop

# Not two workers with 32 requests: of those, two run and thirty wait in a queue, where they meet nothing. With 32
# workers, 32 statements at a time really share the file, the processor and the memory.
CONCURRENCY = 32
PATIENT = dataclasses.replace(LIMITS, timeout_s=60.0)  # 32 statements on a few cores take their time


def test_the_suite_is_large_enough() -> None:
    assert len(ATTACKS) >= 60


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


def test_all_attacks_32_at_a_time_have_the_same_outcomes_and_leave_nothing_behind(tmp_path: Path) -> None:
    shop = tmp_path / "shop.sqlite"
    make_shop(shop)
    bytes_before, children_before = shop.read_bytes(), worker_children()
    gc.collect()
    memory_before = resident_mb()

    endless = [case for case in ATTACKS.values() if case[1] == "timeout"]
    others = [case for case in ATTACKS.values() if case[1] != "timeout"]
    for limits, cases in [(PATIENT, others), (HASTY, endless * (CONCURRENCY // len(endless)))]:
        with Sandbox(CONCURRENCY, limits) as pool:
            outcomes = asyncio.run(_all_at_once(pool, [(shop, sql.replace("DIR", str(tmp_path))) for sql, _ in cases]))
            wrong = [(sql[:80], status, outcome.status.value, outcome.error)
                     for (sql, status), outcome in zip(cases, outcomes) if outcome.status != status]
            assert wrong == []
            pids = pool.pids()
            assert len(pids) == CONCURRENCY
            assert max(resident_mb(pid) for pid in pids) < 64
        assert not any(alive(pid) for pid in pids)
        del outcomes

    assert worker_children() == children_before
    assert shop.read_bytes() == bytes_before
    assert os.listdir(tmp_path) == [shop.name]
    gc.collect()
    assert resident_mb() - memory_before < 32


def test_attacks_side_by_side_do_not_touch_each_other(hasty: Sandbox, shop: Path) -> None:
    good = "SELECT count(*) FROM item"
    quick = [case for case in ATTACKS.values() if case[1] not in ("timeout", "too_large")]
    slow = [ATTACKS["one long C call"], ATTACKS["endless recursion"]]
    cases = [case for attack in (*quick, *slow) for case in (attack, (good, "ok"))]
    outcomes = hasty.run_many([(shop, sql.replace("DIR", str(shop.parent))) for sql, _ in cases])
    assert [outcome.status.value for outcome in outcomes] == [status for _, status in cases]
    assert all(outcome.rows == ((3,),) for outcome, (sql, _) in zip(outcomes, cases) if sql == good)
    assert os.listdir(shop.parent) == [shop.name]


async def _all_at_once(pool: Sandbox, jobs: list[tuple[Path, str]]) -> list[Outcome]:
    return await asyncio.gather(*(pool.arun(path, sql) for path, sql in jobs))
