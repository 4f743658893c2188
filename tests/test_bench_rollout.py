"""The rollout benchmark at a tiny size: every way does the same work, and a slow query is one."""

from types import SimpleNamespace

import pytest

from experiments.bench.rollout import Bench, Shape, measure, measure_slow, opened, tables

ARGS = SimpleNamespace(questions=2, group=2, mean=6, action=8, observation=5, vocab=300, hidden=64, layers=1,
                       device="cpu", dtype="float32", workers=2, slow_seconds=0.5, repetitions=1, without=[],
                       generator=["again=tests.test_bench_rollout:make_again"])


def make_again(model, seed: int, rows: int):
    """A further way, which is ours once more."""
    return Bench(Shape(20, 2), ARGS, None, None).generator(share=True)


@pytest.fixture(scope="module")
def database():
    with opened(ARGS) as (sandbox, path):
        yield sandbox, path


def test_all_ways_roll_out_the_same_conversations(database):
    bench, steps = Bench(Shape(20, 2), ARGS, *database), []
    for name, way in bench.ways().items():
        trajectories, seconds = way()
        assert len(trajectories) == 4 and all(len(each.turns) == 2 for each in trajectories), name
        for trajectory, job in zip(trajectories, bench.jobs):
            assert tuple(trajectory.token_ids[:20]) == job.prompt_ids
            assert len(trajectory) == 20 + trajectory.loss_tokens + 5
            assert 2 <= trajectory.loss_tokens <= 2 * 8
        assert seconds["sql_wait"] >= 0 and seconds["sql"] > 0
    row = measure(bench, lambda: steps.append(1))
    assert set(row["ways"]) == {"generate", "plain", "ours", "again"} and len(steps) == 2
    assert row["ways"]["again"]["tokens"] == row["ways"]["ours"]["tokens"] == row["ways"]["plain"]["tokens"]
    assert row["speedup"]["again"]["cpu"] > 0
    text = tables({"options": vars(ARGS), "throughput": [row], "slow": {}})
    assert len(text.splitlines()) == 5 and "20/2" in text


def test_the_others_do_not_wait_for_the_slow_query(database):
    found = measure_slow(Bench(Shape(20, 2), ARGS, *database), lambda: None)
    assert 0 < found["with"] < ARGS.slow_seconds + found["without"]
    assert "a query of 0.5 s at 20/2" in tables({"options": vars(ARGS), "throughput": [], "slow": found})
