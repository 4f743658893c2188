"""Samples of a step as JSON lines: everything that the viewer and the notebooks show."""

import math
from collections.abc import Callable
from typing import Any

from serl.agent.trajectory import Turn
from serl.task import Question
from serl.train.samples import Sample

OUTCOME_ROWS = 5  # rows of a result that are kept; the true count is in the outcome


def record(sample: Sample, question: Question, step: int, number: int, seed: int,
           piece: Callable[[int], bytes]) -> dict[str, Any]:
    """One trajectory with its token-level values. `number` is its place in the question's group."""
    trajectory, example = sample.trajectory, question.example
    return {
        "step": step, "question_id": example.question_id, "db_id": example.db_id, "sample": number, "seed": seed,
        "question": example.question, "evidence": example.evidence, "gold_sql": example.gold_sql,
        "difficulty": example.difficulty,
        "token_ids": trajectory.token_ids,
        "tokens": [piece(index).decode("utf-8", errors="replace") for index in trajectory.token_ids],
        "loss_mask": trajectory.loss_mask, "action_mask": trajectory.action_mask,
        "sampler_logprobs": _numbers(trajectory.sampler_logprobs),
        "student_logprobs": _numbers([None] * len(trajectory) if sample.student is None else sample.student.tolist()),
        "teacher_logprobs": _numbers(sample.teacher.tolist()),
        "weights": _numbers(sample.weight.tolist()),
        "turns": [_turn(turn) for turn in trajectory.turns],
        "final_sql": trajectory.final_sql, "stop": trajectory.stop,
        "reward": sample.reward.total if sample.reward else None,
        "reward_terms": sample.reward.terms if sample.reward else {},
        "correct": bool(sample.reward and sample.reward.correct), "advantage": sample.advantage,
    }


def _turn(turn: Turn) -> dict[str, Any]:
    outcome = turn.outcome
    shown = None if outcome is None else outcome.to_json(OUTCOME_ROWS)
    return {"kind": str(turn.parsed.kind), "state": turn.state, "action": turn.action, "sql": turn.sql,
            "splice_at": turn.splice_at, "observation": turn.observation, "action_text": turn.action_text,
            "sql_text": turn.parsed.sql, "observation_text": turn.observation_text, "outcome": shown}


def _numbers(values: list[float | None]) -> list[float | None]:
    """JSON has no NaN: a token without a value holds null. Six digits are what float32 is worth."""
    return [None if value is None or not math.isfinite(value) else float(f"{value:.6g}") for value in values]
