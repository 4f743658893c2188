"""Turns of dialogues in a rollout: who waits for whom, and whose answers are remembered."""

import dataclasses
from collections.abc import Iterator, Sequence

import pytest

from serl.agent.dialects import Kind
from serl.agent.env import Environment
from serl.agent.memory import Prior
from serl.agent.past import Past
from serl.agent.rollout import rollout
from serl.agent.trajectory import Trajectory
from serl.asking import jobs_of, units_of
from serl.config import AgentConfig
from serl.data.example import Example
from serl.data.turns import earlier_turns, whole_dialogues
from serl.sql.sandbox import Limits, Sandbox
from serl.task import Question
from tests.agent.test_rollout import NEVER, Scripted, essence
from tests.dialogue import BOTH, TOKENIZER, Table, a, write_database

ENV = Environment.build(TOKENIZER, AgentConfig(dialect="hermes", prompt="brief", tools=BOTH, max_turns=3,
                                               max_new_tokens=64, observation_tokens=400), max_length=4096)
STREAMS = (None, (1, 0))  # greedy and a sample
LOOK = ENV.dialect.write(Kind.RECALL, "SELECT 1")
TURNS = {"0": 3, "1": 2}  # by dialogue


@pytest.fixture(scope="module")
def dialogue(tmp_path_factory) -> Iterator[Table]:
    path = write_database(tmp_path_factory.mktemp("dialogue"))
    with Sandbox(1, Limits(timeout_s=2, max_rows=1000)) as sandbox:
        yield Table(path, sandbox)


def questions_of(table: Table, prior: Prior, seed: int = 0, left_out: Sequence[str] = ()) -> list[Question]:
    examples = [Example(f"{name}/{turn}", "city", f"question {turn}?", "", gold(name, turn), "", table.path, "dev",
                        interaction=name, turn=turn) for name, count in TURNS.items() for turn in range(1, count + 1)]
    outcome, earlier = table.sandbox.run(table.path, "SELECT 0"), earlier_turns(examples)
    prompt = tuple(ENV.prompt_ids(examples[0], "city(name text)"))
    known = {each.question_id: outcome for each in examples}
    return [Question(example, place, "", prompt, outcome,
                     Past(table.path, earlier[example.question_id], known, prior, seed))
            for place, example in enumerate(examples) if example.question_id not in left_out]


def gold(name: str, turn: int) -> str:
    return f"SELECT 'gold {name}/{turn}'"


def own(job: int) -> str:
    """What the policy answers in a job."""
    return f"SELECT 'job {job}'"


def play(table: Table, questions: Sequence[Question], scripts: Sequence[Sequence[str]] | None = None, **options
         ) -> tuple[Scripted, list[Trajectory]]:
    """Every job looks into its memory, and answers."""
    jobs = jobs_of(questions, [STREAMS] * len(questions))
    policy = Scripted(scripts or [[LOOK, a(own(job))] for job in range(len(jobs))])
    policy.submit = lambda key, request, *rest: Scripted.submit(
        policy, key, dataclasses.replace(request, stream=(*(request.stream or ()), table_turn(policy, key))), *rest)
    return policy, rollout(ENV, policy, table.sandbox, jobs, 1.0, **options).trajectories


def table_turn(policy: Scripted, key: int) -> int:
    """The number of the turn that is asked for: greedy trajectories have no stream to tell it."""
    return sum(each == key for each, _ in policy.asked)


def remembered(trajectory: Trajectory) -> list[str]:
    """The SQL that the memory told."""
    lines = trajectory.turns[0].observation_text.splitlines()
    return [line.removeprefix("sql: ") for line in lines if line.startswith("sql: ")]


def test_with_the_prior_predicted_a_turn_remembers_the_answers_of_its_own_trajectory(dialogue):
    questions = questions_of(dialogue, Prior.PREDICTED)
    assert units_of(questions) == [(0, 1, 2), (3, 4)]
    policy, found = play(dialogue, questions)
    # Jobs of question 0: 0, 1; of 1: 2, 3; of 2: 4, 5; of the other dialogue: 6, 7 and 8, 9.
    assert [remembered(trajectory) for trajectory in found] == [
        [], [], [own(0)], [own(1)], [own(0), own(2)], [own(1), own(3)], [], [], [own(6)], [own(7)]]
    first = [key for key, turn in policy.asked if turn == 0]
    assert first[:4] == [0, 1, 6, 7], "dialogues run beside each other"
    assert first.index(2) > 3 and first.index(4) > first.index(2)
    assert [trajectory.final_sql for trajectory in found] == [own(job) for job in range(10)]


def test_with_the_prior_gold_nobody_waits(dialogue):
    questions = questions_of(dialogue, Prior.GOLD)
    assert units_of(questions) == [(0,), (1,), (2,), (3,), (4,)]
    policy, found = play(dialogue, questions)
    assert [key for key, _ in policy.asked[:10]] == list(range(10))
    assert [remembered(trajectory) for trajectory in found[::2]] == [
        [], [gold("0", 1)], [gold("0", 1), gold("0", 2)], [], [gold("1", 1)]]


def test_with_the_prior_mixed_a_coin_of_the_seed_decides(dialogue):
    told = {}
    for seed in range(6):
        _, found = play(dialogue, questions_of(dialogue, Prior.MIXED, seed))
        told[seed] = [remembered(trajectory) for trajectory in found]
        coins = [Prior.MIXED.origin(key, seed) for key in ("0/1", "0/2")]
        assert told[seed][4] == [{"gold": gold("0", turn), "predicted": own(2 * turn - 2)}[coin]
                                 for turn, coin in enumerate(coins, start=1)]
    assert len({str(each) for each in told.values()}) > 1


def test_neither_room_nor_the_order_of_events_changes_a_trajectory(dialogue):
    questions = questions_of(dialogue, Prior.PREDICTED)
    expected = [essence(trajectory) for trajectory in play(dialogue, questions)[1]]
    for options in ({"at_once": 1}, {"at_once": 3, "patience_s": 0.0}):
        assert [essence(trajectory) for trajectory in play(dialogue, questions, **options)[1]] == expected


def test_a_turn_that_is_not_asked_or_has_no_answer_is_remembered_without_one(dialogue):
    _, found = play(dialogue, questions_of(dialogue, Prior.PREDICTED, left_out=["0/1"]))
    assert [remembered(trajectory) for trajectory in found[:4]] == [["none"], ["none"], ["none", own(0)],
                                                                     ["none", own(1)]]
    scripts = [[LOOK, LOOK, LOOK] if job < 2 else [LOOK, a(own(job))] for job in range(10)]
    _, found = play(dialogue, questions_of(dialogue, Prior.PREDICTED), scripts)
    assert found[0].stop == "max_turns"
    assert remembered(found[2]) == ["none"] and remembered(found[4]) == ["none", own(2)]


def test_who_waits_for_a_turn_whose_time_is_over_goes_on(dialogue):
    scripts = [[NEVER] if job == 0 else [LOOK, a(own(job))] for job in range(10)]
    _, found = play(dialogue, questions_of(dialogue, Prior.PREDICTED), scripts, deadline_s=0.5)
    assert found[0].stop == "deadline" and [trajectory.stop for trajectory in found[1:]] == ["final"] * 9
    assert remembered(found[2]) == ["none"]


def test_a_dialogue_that_comes_again_is_another_one(dialogue):
    questions = questions_of(dialogue, Prior.PREDICTED)
    twice = [*questions[:2], *questions[:2]]
    assert units_of(twice) == [(0, 1), (2, 3)]
    _, found = play(dialogue, twice)
    assert [remembered(trajectory) for trajectory in found[2::4]] == [[own(0)], [own(4)]]


def test_questions_that_stand_alone_are_no_dialogue():
    alone = [Example(str(number), "city", "?", "", "SELECT 1", "", None, "dev") for number in range(3)]
    assert whole_dialogues(alone) == [(0,), (1,), (2,)] and whole_dialogues([]) == []
    assert earlier_turns(alone) == {"0": (), "1": (), "2": ()}
