"""The rollout loop: nobody waits for somebody else's query, time runs out, and nothing is left behind."""

import dataclasses
import sqlite3
import time
from collections.abc import Hashable, Sequence
from pathlib import Path

import pytest

from serl.agent.env import Environment
from serl.agent.rollout import Job, Rollout, rollout
from serl.agent.trajectory import Trajectory
from serl.config import AgentConfig
from serl.data.example import Example
from serl.generate.interface import Generation, Request, StopReason
from serl.sql.limits import Limits
from serl.sql.outcome import Status
from serl.sql.sandbox import Sandbox
from tests.models import tiny_tokenizer

TOKENIZER = tiny_tokenizer()
ENV = Environment.build(TOKENIZER, AgentConfig(prompt="brief", max_turns=4, max_new_tokens=64), max_length=512)
QUICK, FINAL = "<sql>SELECT name FROM city</sql>", "<solution>SELECT count(*) FROM city</solution>"
SLOW = "<sql>WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT count(*) FROM r</sql>"
NEVER = ""  # an action that takes forever
LIMIT_S = 1.5


class Scripted:
    """A policy whose actions are written down, one text a turn for each trajectory; it answers all it was asked."""

    stepwise = True

    def __init__(self, scripts: Sequence[Sequence[str]]) -> None:
        self.scripts = scripts
        self.pending: dict[Hashable, Request] = {}
        self.asked: list[tuple[int, int]] = []  # (trajectory, turn)
        self.released: list[Hashable] = []
        self.most = 0  # trajectories under way at a time

    def submit(self, key: Hashable, request: Request, max_new_tokens: int, temperature: float) -> None:
        assert request.session == key and (max_new_tokens, temperature) == (64, 1.0)
        self.pending[key] = request
        self.asked.append((key, request.stream[-1]))
        self.most = max(self.most, len({each for each, _ in self.asked} - set(self.released)))

    def poll(self, block: bool = True) -> list[tuple[Hashable, Generation]]:
        found = {key: self.scripts[key][request.stream[-1]] for key, request in self.pending.items()}
        if not any(found.values()):
            assert not block, "nothing will ever come"
            time.sleep(0.01)
        out = []
        for key in [key for key, text in found.items() if text]:
            del self.pending[key]
            ids = TOKENIZER.encode(found[key], add_special_tokens=False)
            out.append((key, Generation(ids, [-0.5] * len(ids), StopReason.TAG)))
        return out[::-1]

    def cancel(self, key: Hashable) -> None:
        self.pending.pop(key, None)

    def release(self, session: Hashable) -> None:
        assert session not in self.pending
        self.released.append(session)


@pytest.fixture(scope="module")
def database(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("geo") / "geo.sqlite"
    with sqlite3.connect(path) as connection:
        connection.executescript("CREATE TABLE city(name TEXT); INSERT INTO city VALUES ('Lima'), ('Quito')")
    return path


@pytest.fixture(scope="module")
def sandbox(database):
    with Sandbox(workers=2, limits=Limits(timeout_s=LIMIT_S, grace_s=0.2)) as pool:
        yield pool


def jobs(database: Path, count: int) -> list[Job]:
    example = Example("1", "geo", "how many cities?", "", "SELECT 2", "simple", database, "dev")
    prompt = tuple(ENV.prompt_ids(example, "city(name text)"))
    return [Job(example, prompt, (0, number)) for number in range(count)]


def run(database: Path, sandbox: Sandbox, scripts: Sequence[Sequence[str]], **options):
    policy = Scripted(scripts)
    assert all(outcome.ran for outcome in sandbox.run_many([(database, "SELECT 1")] * 8)), "the workers are up"
    return policy, rollout(ENV, policy, sandbox, jobs(database, len(scripts)), 1.0, **options)


def essence(trajectory: Trajectory) -> tuple:
    """All of it but how long its queries took."""
    outcomes = [turn.outcome and dataclasses.replace(turn.outcome, ms=0) for turn in trajectory.turns]
    return trajectory.token_ids, trajectory.loss_mask, trajectory.action_mask, outcomes, trajectory.stop


def test_everyone_else_goes_on_while_a_query_is_slow(database, sandbox):
    scripts = [[SLOW, FINAL], *[[QUICK, QUICK, FINAL]] * 4, ["nonsense", FINAL]]
    policy, result = run(database, sandbox, scripts, patience_s=0.05)
    assert [trajectory.stop for trajectory in result.trajectories] == ["final"] * 6
    assert result.trajectories[0].turns[0].outcome.status is Status.TIMEOUT
    assert policy.asked[-1] == (0, 1) and len(policy.asked) == 2 + 4 * 3 + 2
    assert sorted(policy.released) == [0, 1, 2, 3, 4, 5] and policy.released[-1] == 0
    assert result.sql_seconds > LIMIT_S > result.sql_wait_seconds - 0.5


def test_neither_order_of_completion_nor_room_nor_workers_change_a_trajectory(database, sandbox):
    scripts = [[SLOW, QUICK, FINAL], [QUICK, FINAL], [FINAL], ["nonsense", QUICK, QUICK, QUICK]]
    hasty = dataclasses.replace(sandbox.limits, timeout_s=0.3)
    with Sandbox(workers=2, limits=hasty) as wide, Sandbox(workers=1, limits=hasty) as narrow:
        expected = [essence(trajectory) for trajectory in run(database, wide, scripts)[1].trajectories]
        assert [trajectory[-1] for trajectory in expected] == ["final", "final", "final", "max_turns"]
        for options in ({"patience_s": 0.0}, {"at_once": 1}, {"at_once": 2, "patience_s": 0.0}):
            found = run(database, narrow, scripts, **options)[1].trajectories
            assert [essence(trajectory) for trajectory in found] == expected


def test_answers_are_awaited_so_that_events_have_one_order(database, sandbox):
    scripts = [[QUICK, FINAL], ["nonsense", "nonsense", "nonsense", FINAL]]
    for _ in range(3):
        policy, _ = run(database, sandbox, scripts, patience_s=60.0)
        # The query of trajectory 0 is due after the next poll, whatever the machine does meanwhile.
        assert policy.asked == [(0, 0), (1, 0), (1, 1), (0, 1), (1, 2), (1, 3)]


def test_nobody_waits_for_answers_where_the_generator_goes_on_by_itself(database, sandbox, monkeypatch):
    """An engine that works in the background has its requests at once: what it computes together is its own affair."""
    monkeypatch.setattr(Scripted, "stepwise", False)
    policy, result = run(database, sandbox, [[SLOW, FINAL], *[[QUICK, QUICK, FINAL]] * 4], patience_s=60.0)
    assert [trajectory.stop for trajectory in result.trajectories] == ["final"] * 5
    assert policy.asked[-1] == (0, 1), "all others were done before"


def test_a_deadline_does_not_wait_for_patience(database, sandbox):
    _, result = run(database, sandbox, [[SLOW], ["nonsense", "nonsense", NEVER]], deadline_s=0.3, patience_s=60.0)
    assert result.sql_wait_seconds < LIMIT_S
    assert [trajectory.stop for trajectory in result.trajectories] == ["deadline"] * 2


def test_at_most_so_many_are_under_way(database, sandbox):
    policy, result = run(database, sandbox, [[QUICK, FINAL]] * 5, at_once=2)
    assert policy.most == 2
    assert [trajectory.stop for trajectory in result.trajectories] == ["final"] * 5


def test_a_deadline_ends_one_trajectory_at_the_database_and_one_at_the_generator(database, sandbox):
    finished = []
    start = time.monotonic()
    policy, result = run(database, sandbox, [[SLOW], [QUICK, FINAL], [NEVER], [QUICK, NEVER]], deadline_s=0.6,
                         progress=finished.append, patience_s=0.05)
    assert time.monotonic() - start < 3 * LIMIT_S
    assert [trajectory.stop for trajectory in result.trajectories] == ["deadline", "final", "deadline", "deadline"]
    assert [trajectory.infrastructure_failed for trajectory in result.trajectories] == [True, False, True, True]
    at_database, _, at_once, later = result.trajectories
    assert at_database.turns[0].outcome.status is Status.INFRASTRUCTURE
    assert at_database.turns[0].outcome.error == "the trajectory took more than 0.6 s"
    assert at_once.turns == [] and len(at_once) == len(jobs(database, 1)[0].prompt_ids)
    assert later.turns[0].outcome.status is Status.OK and later.turns[0].observation is not None
    assert sum(finished) == 4 and sorted(policy.released) == [0, 1, 2, 3] and not policy.pending


def test_a_deadline_runs_from_the_start_of_each_trajectory(database, sandbox):
    _, result = run(database, sandbox, [[NEVER], [QUICK, FINAL]], at_once=1, deadline_s=0.4)
    assert [trajectory.stop for trajectory in result.trajectories] == ["deadline", "final"]


class Broken(Scripted):
    def poll(self, block: bool = True) -> list[tuple[Hashable, Generation]]:
        if len(self.asked) > 2:
            raise ConnectionError("the engine is gone")
        return super().poll(block)


def test_an_error_leaves_no_query_and_no_session_behind(database, sandbox):
    policy = Broken([[SLOW], [QUICK, FINAL]])
    start = time.monotonic()
    with pytest.raises(ConnectionError):
        rollout(ENV, policy, sandbox, jobs(database, 2), 1.0, patience_s=0.05)
    assert all(outcome.ran for outcome in sandbox.run_many([(database, "SELECT 1")] * 2)), "both workers are free"
    assert time.monotonic() - start < LIMIT_S
    assert sorted(policy.released) == [0, 1] and not policy.pending


def test_trajectories_begin_while_others_run_and_one_that_is_cancelled_leaves_nothing(database, sandbox):
    told = []
    policy = Scripted([[QUICK, FINAL], [NEVER], [SLOW], [QUICK, QUICK, FINAL]])
    running = Rollout(ENV, policy, sandbox, 0.0, lambda index, trajectory, answered: told.append(
        (index, len(trajectory.turns), answered, trajectory.turns[-1].outcome is not None)))
    first, never, slow, last = jobs(database, 4)
    assert running.step() == [] and [running.begin(job, 1.0) for job in (first, never, slow)] == [0, 1, 2]
    ended = {}
    while 0 not in ended:
        ended.update(running.step(0.01) if running.queries else running.step())
        if running.begun == 3:
            assert running.begin(last, 1.0, deadline_s=60.0) == 3
    while not running.queries:
        ended.update(running.step(0.01))
    running.cancel(1)
    running.cancel(2)
    running.cancel(2)
    while running:
        ended.update(running.step(0.01))
    assert {index: trajectory.stop for index, trajectory in ended.items()} == {0: "final", 3: "final"}
    assert [event for event in told if event[0] == 3] == [
        (3, turn, answered, answered) for turn in (1, 2, 3) for answered in (False, True)]
    assert not policy.pending and sorted(policy.released) == [0, 1, 2, 3]
    assert not (running.jobs or running.episodes or running.deadlines or running.queries or running.sampled)
    assert all(outcome.ran for outcome in sandbox.run_many([(database, "SELECT 1")] * 2)), "both workers are free"


def test_who_waits_for_a_database_waits_no_longer_than_is_said(database, sandbox):
    running = Rollout(ENV, Scripted([[SLOW]]), sandbox, 0.0)
    running.begin(jobs(database, 1)[0], 1.0)
    start = time.monotonic()
    while not running.queries:
        running.step(0.05)
    assert running.step(0.05) == [] and time.monotonic() - start < LIMIT_S
    running.close()
    assert not running.queries
