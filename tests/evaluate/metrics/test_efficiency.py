"""VES and R-VES: trimming and scores worked out by hand from given times, and real runs on a real file."""

import math
import sqlite3
from pathlib import Path
from types import SimpleNamespace

import pytest

from serl.evaluate.metrics.r_ves import r_ves, reward
from serl.evaluate.metrics.timing import speed, trimmed
from serl.evaluate.metrics.ves import ves
from serl.sql.outcome import Outcome, Status
from serl.sql.sandbox import Sandbox

GOLD, PRED = "SELECT 1", "SELECT 2 - 1"
ONE = Outcome(Status.OK, ("1",), ((1,),), 1)


class Clock:
    """Stands for the sandbox where the times themselves are the test: `times` holds each statement's, in order."""

    def __init__(self, gold: list, predicted: list):
        self._times = {GOLD: iter(gold), PRED: iter(predicted)}
        self.order: list[str] = []

    def run(self, db_path: Path, sql: str) -> Outcome:
        self.order.append(sql)
        took = next(self._times[sql])
        if isinstance(took, Outcome):
            return took
        return Outcome(ONE.status, ONE.columns, ONE.rows, 1, ms=took)


def judged(sandbox, predicted: Outcome = ONE, gold: Outcome = ONE, db_path=Path("x.sqlite"), sqls=(PRED, GOLD)):
    example = SimpleNamespace(db_path=db_path, gold_sql=sqls[1])
    return SimpleNamespace(predicted_sql=sqls[0], predicted=predicted, gold=gold, example=example, sandbox=sandbox)


def test_values_three_deviations_away_are_trimmed_and_the_edge_is_out() -> None:
    # Ten ones and a twelve: mean 2, variance (10·1 + 100)/11 = 10, 3σ = 9.49, and 12 is 10 away.
    assert trimmed([1.0] * 10 + [12.0]) == [1.0] * 10
    # Nine ones and an eleven: mean 2, variance (9·1 + 81)/10 = 9, 3σ = 9, and 11 is exactly 9 away.
    assert trimmed([1.0] * 9 + [11.0]) == [1.0] * 9
    # Eight ones and a ten: mean 2, variance (8·1 + 64)/9 = 8, 3σ = 8.49, and 10 is 8 away: it stays.
    assert trimmed([1.0] * 8 + [10.0]) == [1.0] * 8 + [10.0]


def test_equal_values_all_stay_where_the_official_script_divides_by_zero() -> None:
    assert trimmed([0.7]) == [0.7]
    assert trimmed([0.1] * 7) == [0.1] * 7


def test_ratios_are_of_pairs_and_the_sides_take_turns_at_going_first() -> None:
    clock = Clock(gold=[4.0, 6.0, 1.0], predicted=[2.0, 2.0, 1.0])
    assert speed(judged(clock), 3) == pytest.approx((2 + 3 + 1) / 3)
    assert clock.order == [PRED, GOLD, GOLD, PRED, PRED, GOLD]


def test_ves_is_the_root_of_the_mean_ratio() -> None:
    score = ves(judged(Clock(gold=[9.0, 9.0], predicted=[2.0, 2.0])), iterations=2)
    assert score.score == pytest.approx(math.sqrt(4.5))
    assert score.reason == "4.5 times gold's speed in 2 runs"
    # One slow moment in eleven runs is trimmed: ten ratios of 1 and one of 12.
    slow = Clock(gold=[1.0] * 10 + [12.0], predicted=[1.0] * 11)
    assert ves(judged(slow), iterations=11).score == 1.0


@pytest.mark.parametrize(
    ("ratio", "expected"),
    [(7, 1.25), (2, 1.25), (1.999, 1), (1, 1), (0.999, 0.75), (0.5, 0.75), (0.499, 0.5), (0.25, 0.5), (0.249, 0.25),
     (1e-9, 0.25)],
)  # fmt: skip
def test_r_ves_rewards_by_the_official_steps_and_takes_the_root(ratio: float, expected: float) -> None:
    assert reward(ratio) == expected
    score = r_ves(judged(Clock(gold=[ratio], predicted=[1.0])), iterations=1)
    assert score.score == pytest.approx(math.sqrt(expected))


@pytest.mark.parametrize("metric", [ves, r_ves])
def test_a_wrong_answer_scores_0_and_is_not_timed(metric) -> None:
    clock = Clock([], [])
    wrong = Outcome(Status.OK, ("1",), ((2,),), 1)
    assert vars(metric(judged(clock, predicted=wrong))) == {"score": 0.0, "reason": "different sets of rows"}
    failed = Outcome(Status.ERROR, error="no such table: t")
    assert metric(judged(clock, predicted=failed)).score == 0.0
    assert clock.order == []


@pytest.mark.parametrize("metric", [ves, r_ves])
def test_a_prediction_that_fails_in_a_timing_run_scores_0_and_a_failure_of_ours_nothing(metric) -> None:
    timeout, lost = Outcome(Status.TIMEOUT, error="x"), Outcome(Status.INFRASTRUCTURE, error="x")
    score = metric(judged(Clock(gold=[1.0, 1.0], predicted=[1.0, timeout])), iterations=2)
    assert vars(score) == {"score": 0.0, "reason": "predicted query in timing run 2: timeout"}
    assert metric(judged(Clock(gold=[timeout], predicted=[1.0])), iterations=1).score is None
    assert metric(judged(Clock(gold=[1.0], predicted=[lost])), iterations=1).score is None


def test_iterations_must_be_at_least_one() -> None:
    with pytest.raises(ValueError, match="iteration"):
        speed(judged(Clock([], [])), 0)


@pytest.fixture(scope="module")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("numbers") / "numbers.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE n (i INTEGER PRIMARY KEY)")
        connection.executemany("INSERT INTO n VALUES (?)", ((i,) for i in range(1_000)))
    connection.close()
    return path


def test_real_runs_tell_a_fast_query_from_a_slow_one(numbers: Path) -> None:
    fast = "SELECT count(*) FROM n"
    slow = "SELECT count(*) / 1000 FROM n a, n b WHERE a.i + b.i >= 0"  # a million pairs, far slower on any machine
    with Sandbox(workers=1) as sandbox:
        result = sandbox.run(numbers, fast)
        assert result.rows == sandbox.run(numbers, slow).rows
        faster = judged(sandbox, result, result, numbers, (fast, slow))
        slower = judged(sandbox, result, result, numbers, (slow, fast))
        assert ves(faster, iterations=4).score > 2
        assert r_ves(faster, iterations=4).score == pytest.approx(math.sqrt(1.25))
        assert ves(slower, iterations=4).score < 0.7
        assert r_ves(slower, iterations=4).score in (pytest.approx(0.5), pytest.approx(math.sqrt(0.5)))
