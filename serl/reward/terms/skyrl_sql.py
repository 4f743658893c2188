"""SkyRL-SQL's reward, which MARS-SQL takes over: one term for form and result."""

from serl.reward.facts import Facts


def outcome(facts: Facts) -> float:
    """−1 for a bad form in any turn, 1 for a correct result, 0 for any other."""
    if not facts.well_formed:
        return -1.0
    return 1.0 if facts.correct else 0.0
