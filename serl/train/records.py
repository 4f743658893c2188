"""Samples of a step as JSON lines: everything that the viewer and the notebooks show; and what the teacher read.

`serl.hindsight.diagnostics.table.of_records` reads the samples back, so that every diagnostic of hindsight can be
computed again from a run's files. `gaps` is the evidence Δ that ω was made from: null outside of the mask m.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from serl.agent.trajectory import Turn
from serl.hindsight.context import Hindsight, teacher_input
from serl.hindsight.diagnostics.table import text_of
from serl.task import Question
from serl.train.samples import Sample

Piece = Callable[[int], bytes]
"""The bytes of a token id (`serl.agent.token_bytes.TokenBytes.of`)."""

OUTCOME_ROWS = 5  # rows of a result that are kept; the true count is in the outcome


def record(sample: Sample, question: Question, step: int, number: int, seed: int, piece: Piece) -> dict[str, Any]:
    """One trajectory with its token-level values. `number` is its place in the question's group."""
    trajectory, example = sample.trajectory, question.example
    return {
        "step": step, "question_id": example.question_id, "db_id": example.db_id, "sample": number, "seed": seed,
        "question": example.question, "evidence": example.evidence, "gold_sql": example.gold_sql,
        "difficulty": example.difficulty,
        "dialect": trajectory.dialect.name, "thinking_open": trajectory.dialect.thinking_open,
        "token_ids": trajectory.token_ids,
        "tokens": [text_of([index], piece) for index in trajectory.token_ids],
        "loss_mask": trajectory.loss_mask, "action_mask": trajectory.action_mask,
        "sampler_logprobs": _numbers(trajectory.sampler_logprobs),
        "student_logprobs": _numbers([None] * len(trajectory) if sample.student is None else sample.student.tolist()),
        "teacher_logprobs": _numbers(sample.teacher.tolist()),
        "gaps": _numbers(sample.evidence.tolist()),
        "weights": _numbers(sample.weight.tolist()),
        "turns": [_turn(*each, piece) for each in zip(trajectory.turns, sample.hindsights,
                                                      sample.steps or [None] * len(trajectory.turns), strict=True)],
        "final_sql": trajectory.final_sql, "stop": trajectory.stop,
        "reward": sample.reward.total if sample.reward else None,
        "reward_terms": sample.reward.terms if sample.reward else {},
        "correct": bool(sample.reward and sample.reward.correct), "advantage": sample.advantage,
    }


def teacher_rows(samples: Sequence[Sample], step: int, group_size: int, level: str, piece: Piece
                 ) -> Iterator[dict[str, Any]]:
    """What the teacher read, one branch a row: `teacher_input[slice(*splice)]` is the hindsight.

    `token_splice` is the same place among the input's tokens; `action` is where the scored action begins in the text.
    """
    for place, sample in enumerate(samples):
        for number, (turn, hindsight) in enumerate(zip(sample.trajectory.turns, sample.hindsights)):
            if hindsight is None:
                continue
            ids, first = teacher_input(sample.trajectory, turn, hindsight)
            start, end = turn.splice_at, turn.splice_at + len(hindsight.ids)
            before, told, behind, action = (text_of(part, piece)
                                            for part in (ids[:start], ids[start:end], ids[end:first], ids[first:]))
            yield {"step": step, "question_id": sample.known.question, "sample": place % group_size, "turn": number,
                   "level": level, "hindsight": told, "splice": [len(before), len(before) + len(told)],
                   "token_splice": [start, end], "action": len(before) + len(told) + len(behind),
                   "teacher_input": before + told + behind + action}


def _turn(turn: Turn, hindsight: Hindsight | None, advantage: float | None, piece: Piece) -> dict[str, Any]:
    outcome = turn.outcome
    shown = None if outcome is None else outcome.to_json(OUTCOME_ROWS)
    return {"kind": str(turn.parsed.kind), "state": turn.state, "action": turn.action, "sql": turn.sql,
            "splice_at": turn.splice_at, "observation": turn.observation, "action_text": turn.action_text,
            "sql_text": turn.parsed.sql, "observation_text": turn.observation_text, "outcome": shown,
            "hindsight_text": None if hindsight is None else text_of(hindsight.ids, piece),
            "advantage": advantage, "refused": turn.refused}


def _numbers(values: list[float | None]) -> list[float | None]:
    """JSON has no NaN: a token without a value holds null. Six digits are what float32 is worth."""
    return [None if value is None or not math.isfinite(value) else float(f"{value:.6g}") for value in values]
