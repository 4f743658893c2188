"""Candidates with gold's verdict: what evaluation adds to what selectors see; and the lines of `candidates.jsonl`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from serl.agent.trajectory import Trajectory
from serl.reward.panel import judge
from serl.select import Pick
from serl.select.oracle import Marked
from serl.select.oracle import pick as pick_oracle
from serl.select.pool import Pool, results_of
from serl.task import Question


@dataclass(frozen=True)
class MarkedPool:
    """A question's candidates with gold's verdict on each; and which group of questions it is of."""

    pool: Pool
    greedy_correct: bool
    correct: tuple[bool, ...]  # of the samples
    seen: bool
    difficulty: str

    def right(self, selector: str, pick: Pick, n: int) -> bool:
        """Whether what a selector takes of the first n samples is right; taking nothing is not."""
        chosen = self.pool.choose(selector, pick, n)
        return chosen is not None and next(each.correct for each in self.marked if each.candidate is chosen)

    def oracle(self, n: int) -> bool:
        """Whether any of the first n samples is right."""
        return pick_oracle([Marked(each, correct) for each, correct in zip(self.pool.samples[:n], self.correct)
                            if not each.lost]) is not None

    def usable_correct(self, n: int) -> list[bool]:
        """Verdicts on those of the first n samples that no failure of ours met."""
        return [correct for each, correct in zip(self.pool.samples[:n], self.correct) if not each.lost]

    @property
    def marked(self) -> list[Marked]:
        """All candidates, the greedy one first."""
        pool = self.pool
        return [Marked(pool.greedy, self.greedy_correct), *map(Marked, pool.samples, self.correct)]

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> MarkedPool:
        """What a line of `candidates.jsonl` says."""
        return cls(Pool.from_json(row), row["greedy"]["correct"], tuple(each["correct"] for each in row["samples"]),
                   row["seen"], row["difficulty"])


def verdicts(trajectories: Sequence[Trajectory], question: Question) -> list[bool]:
    """Whether each trajectory's solution is right."""
    return [judge(each.final_outcome, question.gold, question.example.gold_sql) for each in trajectories]


def to_row(question: Question, pool: Pool, correct: Sequence[bool], seen: bool, gold_rows: int) -> dict[str, Any]:
    """A line of `candidates.jsonl`; `correct` is of the greedy answer, then of the samples."""
    example = question.example
    greedy, *samples = [candidate.to_json() | {"correct": right}
                        for candidate, right in zip((pool.greedy, *pool.samples), correct, strict=True)]
    return {
        "question_id": example.question_id,
        "db_id": example.db_id,
        "seen": seen,
        "difficulty": example.difficulty,
        "question": example.question,
        "evidence": example.evidence,
        "gold_sql": example.gold_sql,
        "gold": question.gold.to_json(gold_rows),
        "greedy": greedy,
        "samples": samples,
        "results": results_of((pool.greedy, *pool.samples)),
    }
