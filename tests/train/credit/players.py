"""Groups of trajectories whose text is given, on a real database, for tests of the credit sources."""

from dataclasses import replace

from serl.data.example import Example
from serl.hindsight.credit.candidate import candidate_of
from serl.reward.panel import Reward
from serl.train.samples import Sample
from tests.agent.test_env import EXAMPLE
from tests.hindsight.credit.played import PIECE, played, text_of

GOLD = "SELECT name FROM city WHERE area > 5"
WRONG = "SELECT name FROM city WHERE people > 5"
SHORT = "SELECT name FROM city"


def example_of(db_path, gold_sql: str = GOLD, question_id: str = "1") -> Example:
    return replace(EXAMPLE, gold_sql=gold_sql, db_path=db_path, question_id=question_id)


def sample_of(sql: str, correct: bool, advantage: float, query: str | None = None) -> Sample:
    return Sample.of(played(sql, query), Reward(float(correct), {}, correct), advantage)


def group() -> list[Sample]:
    """A wrong column, a success, a missing clause, and a failure without a signal of its own."""
    return [sample_of(WRONG, False, -0.6, query="SELECT 1"), sample_of(GOLD, True, 1.7), sample_of(SHORT, False, -0.6),
            sample_of(WRONG, False, 0.0)]


def said(sample: Sample, tokens) -> str:
    return text_of(sample.trajectory, tokens)


def scope_of(sample: Sample) -> range:
    return candidate_of(sample.trajectory, PIECE, sample.correct).scope
