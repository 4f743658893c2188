"""The reward of a trajectory: named terms that add up, chosen by a preset.

A term is a function of `Facts` to a float, so that a new one is one function and one entry in PRESETS.
A failure of ours (`infrastructure`, or a gold that cannot be trusted) gives no reward at all: the trajectory
is masked and counted, never scored as 0.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from serl.agent.trajectory import Trajectory
from serl.sql.compare import is_ordered, strict
from serl.sql.outcome import Outcome, Status


@dataclass(frozen=True)
class Facts:
    """What a reward may know of a finished trajectory."""

    trajectory: Trajectory
    outcome: Outcome | None  # of the solution; None if there is none
    correct: bool


@dataclass(frozen=True)
class Reward:
    """Total, the terms it is the sum of, and execution correctness."""

    total: float
    terms: dict[str, float]
    correct: bool


def execution_ladder(facts: Facts) -> float:
    """SERL-SQL's hierarchy, with our numbers: no solution −1; not executable −0.5; wrong 0; correct 1."""
    if facts.outcome is None or facts.outcome.status is Status.NO_STATEMENT:
        return -1.0
    if not facts.outcome.ran:
        return -0.5
    return 1.0 if facts.correct else 0.0


PRESETS: Mapping[str, Mapping[str, Callable[[Facts], float]]] = {
    "serl": {"execution": execution_ladder},
}


def judge(outcome: Outcome | None, gold: Outcome, gold_sql: str) -> bool:
    """Does the solution's result equal gold's (strict: multiset of rows; order where gold orders)?"""
    return outcome is not None and strict(outcome, gold, is_ordered(gold_sql)).match


def reward(trajectory: Trajectory, gold: Outcome, gold_sql: str, preset: str) -> Reward | None:
    """Reward of a trajectory, or None where the solution met an infrastructure failure."""
    outcome = trajectory.final_outcome
    if trajectory.infrastructure_failed:
        return None
    facts = Facts(trajectory, outcome, judge(outcome, gold, gold_sql))
    terms = {name: term(facts) for name, term in PRESETS[preset].items()}
    return Reward(sum(terms.values()), terms, facts.correct)
