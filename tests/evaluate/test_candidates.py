"""Result keys: equal for equal results, never for failures."""

from hypothesis import given
from hypothesis import strategies as st

from serl.evaluate.candidates import result_key
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
