"""Arctic-Text2SQL-R1's reward (arXiv 2505.20315): execution alone."""

from serl.reward.facts import Facts


def execution(facts: Facts) -> float:
    """1 for a correct result, 0.1 for a query that runs, 0 for any other and for a bad form."""
    if not facts.well_formed or not facts.ran:
        return 0.0
    return 1.0 if facts.correct else 0.1
