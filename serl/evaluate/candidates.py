"""Sampled trajectories as candidates: the records that metrics and selectors work on."""

import hashlib
import json
import math
from typing import Any

from serl.agent.trajectory import Trajectory
from serl.reward.panel import judge
from serl.select.candidate import Candidate
from serl.sql.outcome import Outcome, Status
from serl.task import Question


def candidate(trajectory: Trajectory, question: Question) -> Candidate:
    """The record of one trajectory; `mean_logprob` is over its sampled tokens."""
    outcome = trajectory.final_outcome
    logprobs = [value for value in trajectory.sampler_logprobs if value is not None]
    return Candidate(
        sql=trajectory.final_sql,
        status=_status(trajectory),
        correct=judge(outcome, question.gold, question.example.gold_sql),
        result_key=result_key(outcome),
        turns=len(trajectory.turns),
        tokens=len(logprobs),
        mean_logprob=math.fsum(logprobs) / max(1, len(logprobs)),
        text="\n".join(
            turn.action_text + (f"\n{turn.observation_text}" if turn.observation_text else "")
            for turn in trajectory.turns
        ),
    )


def _status(trajectory: Trajectory) -> str:
    """Status of the solution; `infrastructure` if a failure of ours met any turn, `none` without a solution."""
    if trajectory.infrastructure_failed:
        return str(Status.INFRASTRUCTURE)
    outcome = trajectory.final_outcome
    return str(outcome.status) if outcome is not None else "none"


def result_key(outcome: Outcome | None) -> str | None:
    """Equal for results with the same multiset of rows; None where there is no result to vote with.

    Numbers are keyed by six significant digits, so that 0.1 + 0.2 votes with 0.3; column names do not count.
    """
    if outcome is None or not outcome.ran:
        return None
    rows = sorted(json.dumps([_cell(cell) for cell in row]) for row in outcome.rows)
    return hashlib.sha256("\n".join([str(len(outcome.columns)), *rows]).encode()).hexdigest()[:16]


def _cell(cell: object) -> Any:
    if isinstance(cell, bytes):
        return ["bytes", cell.hex()]
    if isinstance(cell, (int, float)) and not isinstance(cell, bool):
        return f"{float(cell):.6g}"
    return ["text", cell] if isinstance(cell, str) else cell
