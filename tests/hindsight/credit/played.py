"""Trajectories that end in a given solution, and the records that a run keeps of them."""

from dataclasses import replace

import torch

from serl.agent.trajectory import Trajectory
from serl.data.example import Example
from serl.reward.panel import Reward
from serl.task import Question
from serl.train.records import record
from serl.train.samples import Sample
from tests.agent.test_env import EXAMPLE, ROWS, act, environment, start

PIECE = environment().token_bytes.of


def played(solution: str, query: str | None = None) -> Trajectory:
    """A trajectory: maybe a query, then the solution."""
    episode = start(environment())
    for text in ([f"<sql>{query}</sql>"] if query else []) + [f"<think>é</think><solution>{solution}</solution>"]:
        act(episode, text)
        episode.observe(ROWS)
    return episode.trajectory


def text_of(trajectory: Trajectory, tokens) -> str:
    """The text of some tokens, one after the other."""
    return b"".join(PIECE(trajectory.token_ids[token]) for token in sorted(tokens)).decode()


def recorded(trajectory: Trajectory, gold_sql: str, correct: bool, number: int = 0, question_id: str = "1",
             student: dict[int, float] | None = None, teacher: dict[int, float] | None = None) -> dict:
    """A line of trajectories/step_000000.jsonl; log-probs by token, −0.01 for the student where none is given."""
    size = len(trajectory)
    student_T = torch.where(torch.tensor(trajectory.loss_mask, dtype=torch.bool), -0.01, float("nan"))
    teacher_T = torch.full((size,), float("nan"))
    for values, tensor in ((student, student_T), (teacher, teacher_T)):
        for token, value in (values or {}).items():
            tensor[token] = value
    sample = Sample.of(trajectory, Reward(float(correct), {}, correct), 0.0)
    sample = replace(sample, student=student_T, teacher=teacher_T)
    example: Example = replace(EXAMPLE, gold_sql=gold_sql, question_id=question_id)
    return record(sample, Question(example, 0, "", (), ROWS), 0, number, 0, PIECE)
