"""A sampled trajectory → the candidate that selectors see, and the key by which results are equal."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from typing import Any

from serl.agent.trajectory import Trajectory
from serl.select.candidate import Candidate
from serl.sql.outcome import Outcome, Status

# Of a result is kept what selectors compare: whole rows, as many as stay within both.
KEPT_CELLS = 1_000
KEPT_CHARS = 20_000


def candidate(trajectory: Trajectory, greedy: bool = False) -> Candidate:
    """The candidate of one trajectory."""
    actions = [(turn.parsed.sql, None if turn.outcome is None else turn.outcome.status) for turn in trajectory.turns]
    text = "\n".join(turn.action_text + (f"\n{turn.observation_text}" if turn.observation_text else "")
                     for turn in trajectory.turns)
    last = trajectory.turns[-1].sql if trajectory.final_sql is not None else None
    return make(actions, trajectory.final_sql, trajectory.final_outcome, trajectory.sampler_logprobs, last,
                trajectory.infrastructure_failed, text, greedy)


def make(actions: Sequence[tuple[str | None, str | None]], final_sql: str | None, outcome: Outcome | None,
         logprobs: Sequence[float | None], final_span: Sequence[int] | None, lost: bool, text: str = "",
         greedy: bool = False) -> Candidate:
    """A candidate from what a trajectory did, also one that is read from a file.

    `actions` are SQL and outcome's status of every turn, None where there is none. `logprobs` are those of all tokens,
    None for what was not sampled; the tokens of the final SQL are `logprobs[slice(*final_span)]`.
    """
    sampled = [value for value in logprobs if value is not None]
    of_sql = [value for value in logprobs[slice(*final_span)] if value is not None] if final_span else []
    asked = [" ".join(sql.split()) for sql, _ in actions if sql is not None]
    return Candidate(
        sql=final_sql,
        status=str(Status.INFRASTRUCTURE) if lost else str(outcome.status) if outcome is not None else "none",
        result_key=result_key(outcome),
        turns=len(actions),
        tokens=len(sampled),
        mean_logprob=math.fsum(sampled) / max(1, len(sampled)),
        text=text,
        greedy=greedy,
        revisions=sum(before != after for before, after in zip(asked, asked[1:])),
        failures=sum(status not in (Status.OK, Status.EMPTY) for _, status in actions[:-1]),
        sql_logprob=math.fsum(of_sql) / len(of_sql) if of_sql else None,
        result=kept(outcome),
    )


def kept(outcome: Outcome | None) -> Outcome | None:
    """A result with the rows of it that are kept; None where there is none to compare."""
    if outcome is None or not outcome.ran:
        return None
    rows, cells, chars = [], 0, 0
    for row in outcome.rows:
        cells += len(row)
        chars += sum(len(cell) for cell in row if isinstance(cell, (str, bytes)))
        if cells > KEPT_CELLS or chars > KEPT_CHARS:
            break
        rows.append(row)
    return Outcome(outcome.status, outcome.columns, tuple(rows), outcome.row_count)


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
