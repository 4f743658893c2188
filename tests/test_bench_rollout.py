"""The rollout benchmark at a tiny size: every way does the same work, and a slow query is one."""

import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from experiments.bench.process import cpu_seconds
from experiments.bench.rollout import measure, measure_slow, tables
from experiments.bench.rollout_ways import WAYS, Bench, Policy, Shape, opened
from tests.generate.vllm.conftest import needs_vllm

ARGS = SimpleNamespace(questions=2, group=2, mean=6, action=8, observation=5, vocab=300, hidden=64, layers=1,
                       device="cpu", dtype="float32", workers=2, slow_seconds=0.5, repetitions=1, without=[],
                       threads=1, kv_cache_gib=0.25)


@pytest.fixture(scope="module")
def database():
    with opened(ARGS) as (sandbox, path):
        yield sandbox, path


@pytest.fixture(scope="module")
def policy():
    return Policy(ARGS)


def check_way(bench: Bench, name: str) -> None:
    """It rolls out whole conversations of the shape 20/2."""
    trajectories, seconds = bench.way(name)()
    assert len(trajectories) == 4 and all(len(each.turns) == 2 for each in trajectories), name
    for trajectory, job in zip(trajectories, bench.jobs):
        assert tuple(trajectory.token_ids[:20]) == job.prompt_ids
        assert len(trajectory) == 20 + trajectory.loss_tokens + 5
        assert 2 <= trajectory.loss_tokens <= 2 * 8
        assert any(token in bench.policy.rule.eos_ids for token in trajectory.token_ids[20:]) or (
            trajectory.loss_tokens == 16)
    assert seconds["sql_wait"] >= 0 and seconds["sql"] > 0


def test_all_ways_roll_out_the_same_conversations(database, policy):
    bench, steps = Bench(Shape(20, 2), policy, *database), []
    for name in WAYS:
        check_way(bench, name)
    row = measure(bench, lambda: steps.append(1))
    assert tuple(row["ways"]) == WAYS and len(steps) == 2
    assert row["ways"]["ours"]["tokens"] == row["ways"]["plain"]["tokens"]
    assert row["speedup"]["plain"]["cpu"] > 0
    text = tables({"options": vars(ARGS), "throughput": [row], "slow": []})
    assert len(text.splitlines()) == 4 and "20/2" in text


def test_the_others_do_not_wait_for_the_slow_query(database, policy):
    found, = measure_slow(Bench(Shape(20, 2), policy, *database), lambda: None)
    assert 0 < found["with"] < ARGS.slow_seconds + found["without"]
    assert "a query of 0.5 s at 20/2, ours:" in tables({"options": vars(ARGS), "throughput": [], "slow": [found]})


def test_the_time_of_processes_that_were_started_counts_but_for_some():
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        before, deadline = cpu_seconds([busy.pid]), time.monotonic() + 60
        while cpu_seconds() - cpu_seconds([busy.pid]) < 0.1:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert cpu_seconds([busy.pid]) - before < 60
    finally:
        busy.kill()
        busy.wait()


@pytest.mark.engine
@needs_vllm
@pytest.mark.timeout(1200)
def test_an_engine_is_a_way_like_the_others_and_knows_no_prompt_of_the_repetition_before(database, policy):
    engines = policy.engines("vllm", [Shape(20, 2)])
    try:
        bench = Bench(Shape(20, 2), policy, *database, {"vllm": engines})
        check_way(bench, "vllm")
        before = engines._version
        row = measure(bench, lambda: None)
        assert engines._version == before + ARGS.repetitions + 1
        assert row["ways"]["vllm"]["tokens"] > 0 and row["ways"]["vllm"]["sync"] > 0
        assert [found["way"] for found in measure_slow(bench, lambda: None)] == ["ours", "vllm"]
    finally:
        engines.close()
