"""Soft vote: similar results are part of a vote, and without similar ones it is execution vote."""

from hypothesis import given
from hypothesis import strategies as st

from serl.select import soft, vote
from tests.select.made import candidate, failed, keyed

LETTERS = st.lists(st.sampled_from("abcde"), max_size=9)


@given(LETTERS)
def test_with_results_that_have_nothing_in_common_it_is_execution_vote(keys):
    pool = [failed() if key == "e" else candidate((key,)) for key in keys]
    assert soft.pick(pool) == vote.pick(pool)


def test_a_result_that_others_nearly_have_beats_one_that_has_more_exact_copies():
    ones = [candidate((9,)), candidate((9,))]
    near = [candidate((1, 2, 3, number)) for number in (4, 5, 6)]
    # A row of four cells with three of another's: no row in common, 2·3 / (4 + 4) of the cells, half of that is 3/8.
    assert soft.likenesses(near)[0] == [1.0, 0.375, 0.375]
    assert soft.pick([*ones, *near]) == 0  # 2 votes against 1 + 2 · 3/8
    assert vote.pick([*ones, *near]) == 0
    more = [*near, candidate((1, 2, 3, 7))]
    assert soft.pick([*ones, *more]) == 2  # 2 votes against 1 + 3 · 3/8
    assert vote.pick([*ones, *more]) == 0


def test_a_result_that_is_not_kept_whole_counts_for_its_key_alone():
    cut = candidate((1,), (2,))
    cut = type(cut)(sql="SELECT", status="ok", result_key="cut", result=type(cut.result)(
        cut.result.status, cut.result.columns, cut.result.rows, row_count=5000))
    same, other = cut, candidate((1,), (2,))
    assert soft.likenesses([cut, same, other]) == [[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]


@given(LETTERS.filter(bool), st.randoms())
def test_likeness_is_symmetric_and_the_choice_is_a_function_of_the_list(keys, random):
    pool = [candidate((key, "x")) for key in keys]
    likeness = soft.likenesses(pool)
    assert likeness == [list(column) for column in zip(*likeness)]
    shuffled = random.sample(range(len(pool)), len(pool))
    moved = soft.pick([pool[place] for place in shuffled])
    sums = [sum(row) for row in likeness]
    assert abs(sums[shuffled[moved]] - max(sums)) < 1e-9
    assert soft.pick(pool) == soft.pick(list(pool))


def test_equal_keys_are_alike_whatever_the_rows():
    a, b = keyed("aa")
    assert soft.likenesses([a, b]) == [[1.0, 1.0], [1.0, 1.0]]
