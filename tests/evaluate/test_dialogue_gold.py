"""Gold of SParC and CoSQL as its own prediction: exact match is 1 wherever gold is read; what does not run is named."""

import pytest

from serl.data import load
from serl.data.check import check
from serl.evaluate.judged import Judged
from serl.evaluate.metrics.em import em
from serl.evaluate.totals import difficulty
from serl.sql.outcome import Outcome, Status
from serl.sql.sandbox import Sandbox

NOT_READ: dict[str, list[str]] = {"sparc": [], "cosql": []}
"""Turns whose gold Spider's parser cannot read: none. What sqlglot cannot read is in tests/sql/test_clauses.py."""
NOT_RUN = {"sparc": ["161/2"], "cosql": ["100/2"]}
"""Turns whose gold SQLite refuses: an alias without the column, a parenthesis that closes nothing."""


@pytest.mark.parametrize(("format", "turns"), [("sparc", 1203), ("cosql", 1007)])
def test_exact_match_of_gold_with_itself_is_1_wherever_it_is_read(shared_data, format: str, turns: int) -> None:
    nothing = Outcome(Status.EMPTY)
    examples = load(format, shared_data / format, "dev")
    scores = {each.question_id: em(Judged(each, nothing, each.gold_sql, nothing, None)).score for each in examples}
    assert [key for key, score in scores.items() if score is None] == NOT_READ[format]
    assert sum(score or 0 for score in scores.values()) == turns - len(NOT_READ[format])
    assert all(difficulty(example) for example in examples)


@pytest.mark.slow
@pytest.mark.parametrize("format", NOT_RUN)
def test_gold_that_does_not_run_is_named(shared_data, format: str) -> None:
    with Sandbox(2) as sandbox:
        report = check(load(format, shared_data / format, "dev"), sandbox)
    assert [failure["question_id"] for failure in report["failing"]] == NOT_RUN[format]
