"""What a selector chooses from: one sampled answer to a question, as stored in `candidates.jsonl`."""

from __future__ import annotations

from typing import TypedDict

ANSWERED = frozenset({"ok", "empty"})
"""Outcome statuses of a statement that ran to its end; an empty result is an answer too."""


class Candidate(TypedDict):
    """One sampled answer. `correct` comes from gold: only `oracle` and the metrics may read it."""

    sql: str | None
    status: str  # a sandbox outcome's status, or "none" when the agent gave no final SQL
    correct: bool
    result_key: str | None  # equal keys mean equal results; None when nothing was answered
    turns: int
    tokens: int
    mean_logprob: float
    text: str
