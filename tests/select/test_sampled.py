"""Trajectories as candidates; result keys: equal for equal results, never for failures."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serl.select.sampled import KEPT_CELLS, KEPT_CHARS, kept, make, result_key
from serl.sql.outcome import Outcome, Status


def rows(*found: tuple) -> Outcome:
    return Outcome(Status.OK if found else Status.EMPTY, ("a", "b")[: len(found[0]) if found else 1], found, len(found))


def test_only_results_have_keys():
    assert result_key(None) is None
    for status in (Status.ERROR, Status.TIMEOUT, Status.TOO_LARGE, Status.NO_STATEMENT, Status.DENIED):
        assert result_key(Outcome(status)) is None
    assert result_key(rows()) is not None


def test_numbers_are_equal_by_value_and_text_is_not_a_number():
    assert result_key(rows((0.1 + 0.2,))) == result_key(rows((0.3,)))
    assert result_key(rows((1,))) == result_key(rows((1.0,)))
    assert len({result_key(rows((cell,))) for cell in (1, "1", b"1", None, 2)}) == 5


def test_duplicates_and_column_counts_count():
    assert result_key(rows((1,))) != result_key(rows((1,), (1,)))
    assert result_key(rows((1, 2))) != result_key(rows((1,), (2,)))


@given(st.lists(st.tuples(st.integers() | st.text(max_size=3) | st.none()), min_size=1, max_size=6), st.randoms())
def test_row_order_does_not_count(found, random):
    shuffled = random.sample(found, len(found))
    assert result_key(rows(*found)) == result_key(rows(*shuffled))


ONE = rows((1,))


def made(actions, final_sql="SELECT 2", outcome=ONE, span=(1, 3), lost=False):
    return make(actions, final_sql, outcome, (None, -1.0, -3.0, None, -0.5), span, lost)


def test_a_candidate_counts_what_its_trajectory_did():
    found = made([("SELECT 1", "error"), (None, None), ("SELECT  2", "ok"), ("SELECT 2", "ok")])
    assert (found.status, found.turns, found.tokens) == ("ok", 4, 3)
    assert found.mean_logprob == pytest.approx(-1.5) and found.sql_logprob == pytest.approx(-2.0)
    assert found.revisions == 1  # spaces are no revision
    assert found.failures == 2  # the error and the malformed action, not what came of the solution
    assert found.result == ONE and found.answered


def test_a_solution_that_failed_and_none_at_all_have_no_result():
    failed = made([("SELECT 2", "error")], outcome=Outcome(Status.ERROR, error="no such table"))
    assert (failed.status, failed.result_key, failed.result, failed.failures) == ("error", None, None, 0)
    silent = made([(None, None)], None, None, span=None)
    assert (silent.status, silent.sql_logprob, silent.answered) == ("none", None, False)


def test_a_failure_of_ours_in_any_turn_makes_the_candidate_lost():
    found = made([("SELECT 1", "infrastructure"), ("SELECT 2", "ok")], lost=True)
    assert found.lost and not found.answered


def test_of_a_large_result_whole_rows_are_kept_and_the_true_count():
    many = Outcome(Status.OK, ("a", "b"), ((1, 2),) * KEPT_CELLS, KEPT_CELLS)
    assert len(kept(many).rows) == KEPT_CELLS // 2 and kept(many).row_count == KEPT_CELLS
    long = Outcome(Status.OK, ("a",), (("x" * KEPT_CHARS,), ("y",)), 2)
    assert kept(long).rows == (("x" * KEPT_CHARS,),)
    small = rows((1,), (2,))
    assert kept(small) == small
