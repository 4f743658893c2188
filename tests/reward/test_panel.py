"""The `serl` reward ladder on real outcomes, and what must never be scored."""

import pytest

from serl.agent.trajectory import Trajectory
from serl.reward.panel import reward
from serl.sql.outcome import Outcome, Status
from tests.agent.test_env import ROWS, act, environment, start

GOLD = Outcome(Status.OK, ("n",), ((2,), (5,)), 2)
GOLD_SQL = "SELECT n FROM t"


def ended(text: str, outcome: Outcome | None) -> Trajectory:
    """A one-action trajectory whose SQL was answered with `outcome`."""
    episode = start(environment(max_turns=1))
    act(episode, text)
    episode.observe(outcome)
    return episode.trajectory


def result(*rows: tuple, columns: tuple[str, ...] = ("n",)) -> Outcome:
    return Outcome(Status.OK if rows else Status.EMPTY, columns, rows, len(rows))


SOLUTION = "<solution>SELECT 1</solution>"


@pytest.mark.parametrize(("text", "outcome", "total"), [
    (SOLUTION, result((5,), (2,)), 1.0),  # gold does not order: rows may come in any order
    (SOLUTION, result((2,), (5,), (5,)), 0.0),  # a duplicate more
    (SOLUTION, result((2,)), 0.0),
    (SOLUTION, result((2, 1), (5, 1), columns=("n", "m")), 0.0),  # a column more
    (SOLUTION, result(), 0.0),
    (SOLUTION, Outcome(Status.ERROR, error="no such column: x"), -0.5),
    (SOLUTION, Outcome(Status.TIMEOUT), -0.5),
    (SOLUTION, Outcome(Status.DENIED), -0.5),
    (SOLUTION, Outcome(Status.TOO_LARGE), -0.5),
    ("<solution>-- nothing</solution>", Outcome(Status.NO_STATEMENT), -1.0),
    ("<sql>SELECT n FROM t</sql>", result((2,), (5,)), -1.0),  # right, but never given as the solution
    ("SELECT n FROM t", None, -1.0),
])
def test_the_ladder(text, outcome, total):
    scored = reward(ended(text, outcome), GOLD, GOLD_SQL, "serl")
    assert (scored.total, scored.terms, scored.correct) == (total, {"execution": total}, total == 1.0)


def test_order_counts_where_gold_orders():
    swapped = ended(SOLUTION, result((5,), (2,)))
    assert reward(swapped, GOLD, "SELECT n FROM t ORDER BY n", "serl").total == 0.0


def test_a_failure_of_ours_is_no_reward_at_all_even_in_an_earlier_turn():
    lost = Outcome(Status.INFRASTRUCTURE, error="worker lost")
    assert reward(ended(SOLUTION, lost), GOLD, GOLD_SQL, "serl") is None
    episode = start(environment())
    act(episode, "<sql>SELECT 1</sql>")
    episode.observe(lost)
    act(episode, SOLUTION)
    episode.observe(ROWS)
    assert reward(episode.trajectory, GOLD, GOLD_SQL, "serl") is None
