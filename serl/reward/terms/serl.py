"""SERL-SQL's execution hierarchy."""

from serl.reward.facts import Facts
from serl.sql.outcome import Status


def execution(facts: Facts) -> float:
    """With our numbers, since the article gives none: no solution −1; not executable −0.5; wrong 0; correct 1."""
    if facts.outcome is None or facts.outcome.status is Status.NO_STATEMENT:
        return -1.0
    if not facts.outcome.ran:
        return -0.5
    return 1.0 if facts.correct else 0.0
