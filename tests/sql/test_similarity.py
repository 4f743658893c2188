"""Result similarity: worked examples, its equation by brute force, and the properties its docstring promises."""

import itertools
import math
import time
from collections import Counter
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from serl.sql.compare import strict
from serl.sql.compare.similarity import similarity
from serl.sql.outcome import Outcome, Status

REPEATABLE = settings(derandomize=True, max_examples=150, database=None)


def result(*rows: tuple, columns: int = 1) -> Outcome:
    """The outcome of a query that returned `rows`; `columns` counts where there are none."""
    names = tuple(f"c{i}" for i in range(len(rows[0]) if rows else columns))
    return Outcome(Status.OK if rows else Status.EMPTY, names, rows, len(rows))


@pytest.mark.parametrize(
    ("pred", "gold", "expected"),
    [
        ([(1, "a"), (2, "b")], [(2, "b"), (1, "a")], 1),
        ([(1,)], [(2,)], 0),
        ([("1",)], [(1,)], 0),
        ([(None,)], [(0,)], 0),
        ([], [(1,)], 0),
        # One of two rows is there: row = cell = 2·1/(1+2).
        ([(1, "a")], [(1, "a"), (2, "b")], Fraction(2, 3)),
        # A repeated row: row = 2·1/(2+1), cell = 2·2/(4+2).
        ([(1, "a"), (1, "a")], [(1, "a")], Fraction(2, 3)),
        # A column too many: no row is equal; cell = 2·2/(4+2); the half of it.
        ([(1, "a"), (2, "b")], [(1,), (2,)], Fraction(1, 3)),
        # One of three columns is lost, the first: cell = 2·4/(4+6).
        ([("a", 7), ("b", 8)], [(1, "a", 7), (2, "b", 8)], Fraction(2, 5)),
        # Columns in the other order: every cell, no row.
        ([("a", 1), ("b", 2)], [(1, "a"), (2, "b")], Fraction(1, 2)),
        # Right columns, wrongly joined: every cell, no row.
        ([(1, "b"), (2, "a")], [(1, "a"), (2, "b")], Fraction(1, 2)),
        # One cell of four is wrong: row = 2·1/4, cell = 2·3/8.
        ([(1, "a"), (2, "x")], [(1, "a"), (2, "b")], Fraction(5, 8)),
        # The best assignment is not column by column: 1 ↔ 2 has 2 cells, 2 ↔ 1 has 1; together 3 of 4.
        ([("a", 1), ("b", 9)], [(1, "a"), (2, "b")], Fraction(3, 8)),
        # 0.1 + 0.2 is 0.3: row = 2·1/4, cell = 2·1/4.
        ([(0.1 + 0.2,), (5,)], [(0.3,), (6,)], Fraction(1, 2)),
        # A float is close to an integer, two integers are never merely close.
        ([(1000000.0,), (5,)], [(1000001,), (6,)], Fraction(1, 2)),
        ([(1000000,), (5,)], [(1000001,), (5.0,)], Fraction(1, 2)),
        ([(math.nan,), (1,)], [(math.nan,), (2,)], Fraction(1, 2)),
        ([(math.inf,), (1,)], [(-math.inf,), (1.0,)], Fraction(1, 2)),
    ],
)
def test_worked_examples(pred: list, gold: list, expected: Fraction) -> None:
    assert similarity(result(*pred), result(*gold)) == pytest.approx(float(expected), abs=1e-12)
    assert similarity(result(*gold), result(*pred)) == pytest.approx(float(expected), abs=1e-12)


def test_results_without_rows_are_alike_if_they_have_as_many_columns() -> None:
    assert similarity(result(columns=2), result(columns=2)) == 1.0
    assert similarity(result(columns=2), result(columns=1)) == 0.0
    assert similarity(result(()), result((1,))) == similarity(result(()), result((), ())) == 0.0


@pytest.mark.parametrize("status", [status for status in Status if not Outcome(status).ran])
def test_what_did_not_run_has_nothing_in_common(status: Status) -> None:
    preview = Outcome(status, ("c0",), ((1,),), 1, "x")
    assert similarity(preview, result((1,))) == 0.0
    assert similarity(result((1,)), preview) == 0.0


def test_a_chain_of_near_values_that_strict_matches_is_1_and_one_that_it_does_not_is_less() -> None:
    a, b, c, d = ((1 + 0.9e-6 * step,) for step in range(4))
    assert similarity(result(a, c), result(d, b)) == 1.0
    # strict pairs b with c only; classes are {a, b} and {c, d}, so that of two rows none is in common.
    assert similarity(result(a, b), result(c, d)) == 0.0
    assert similarity(result(a, b), result(b, d)) == 0.5


def test_integers_do_not_become_equal_by_a_float_that_both_are_close_to() -> None:
    low, high, between = (10_000_000,), (10_000_001,), (9_999_999.5,)
    # The float's class takes in the first integer only, so that one of the three rows is in common. (Pairing the float
    # of either side with an integer of the other would make it two: what is not counted, not what is wrongly.)
    assert similarity(result(low, low, between), result(high, high, between)) == pytest.approx(1 / 3)


@pytest.mark.parametrize("known", range(9))
def test_more_of_golds_rows_is_never_worse(known: int) -> None:
    gold = [(i, f"name {i}") for i in range(8)]
    assert similarity(result(*gold[:known], columns=2), result(*gold)) == pytest.approx(2 * known / (known + 8))


# Values far apart for the tolerance: classes of close numbers are then what "close" says.
_CELLS = st.sampled_from([0, 1, 1.0, 1 + 1e-9, 2.5, "a", "b", None])


@st.composite
def _rows(draw: st.DrawFn, columns: int | None = None, min_size: int = 0) -> tuple[list, int]:
    width = draw(st.integers(1, 3)) if columns is None else columns
    return draw(st.lists(st.tuples(*[_CELLS] * width), min_size=min_size, max_size=4)), width


def exact(rows: list) -> list:
    """The rows with close values made equal."""
    return [tuple(1 if cell == 1 + 1e-9 else cell for cell in row) for row in rows]


def by_the_equation(left: list, left_width: int, right: list, right_width: int) -> float:
    """The docstring's equation with every assignment of columns tried; there is a row on both sides."""
    left, right = exact(left), exact(right)
    narrow, wide = sorted([list(zip(*left)), list(zip(*right))], key=len)
    common = max(
        sum((Counter(a) & Counter(b)).total() for a, b in zip(narrow, order))
        for order in itertools.permutations(wide, len(narrow))
    )
    cell = 2 * common / (len(left) * left_width + len(right) * right_width)
    rows = (Counter(left) & Counter(right)).total() if left_width == right_width else 0
    return (2 * rows / (len(left) + len(right)) + cell) / 2


@REPEATABLE
@given(_rows(min_size=1), _rows(min_size=1))
def test_it_is_the_equation_of_its_docstring(left: tuple, right: tuple) -> None:
    assert similarity(result(*left[0]), result(*right[0])) == pytest.approx(by_the_equation(*left, *right), abs=1e-12)


@REPEATABLE
@given(_rows(), _rows(), st.randoms(use_true_random=False))
def test_it_is_symmetric_between_0_and_1_and_ignores_order(left: tuple, right: tuple, rng) -> None:
    a, b = result(*left[0], columns=left[1]), result(*right[0], columns=right[1])
    value = similarity(a, b)
    assert 0 <= value <= 1
    assert similarity(b, a) == value
    shuffled = result(*rng.sample(left[0], len(left[0])), columns=left[1])
    assert similarity(shuffled, b) == value
    assert (value == 1) is strict(a, b, ordered=False).match
    cells = [{cell for row in exact(rows) for cell in row} for rows in (left[0], right[0])]
    if a.rows or b.rows:
        assert (value > 0) is bool(cells[0] & cells[1])


@REPEATABLE
@given(st.integers(1, 3).flatmap(lambda width: st.tuples(_rows(width, 1), _rows(width, 1))))
def test_a_missing_row_in_exchange_for_a_wrong_one_never_lowers_it(pair: tuple) -> None:
    pred, gold = exact(pair[0][0]), exact(pair[1][0])
    before = similarity(result(*pred), result(*gold))
    surplus, missing = Counter(pred) - Counter(gold), Counter(gold) - Counter(pred)
    for wrong, right in itertools.product(surplus, missing):
        changed = list(pred)
        changed[changed.index(wrong)] = right
        assert similarity(result(*changed), result(*gold)) >= before - 1e-12


def test_thousands_of_wide_rows_take_a_moment() -> None:
    gold = [(i, float(i), f"name {i}", i % 2, i * 0.37, i % 7, None, "x", -i, i / 3) for i in range(5_000)]
    pred = [(*row[:4], row[4] * (1 + 1e-9), row[5] + 1, *row[6:]) for row in reversed(gold)]
    similarity(result((1,)), result((2, 1)))  # the import of the assignment is not what is timed
    start = time.process_time()
    value = similarity(result(*pred), result(*gold))
    seconds = time.process_time() - start
    # No row is equal. Nine columns are right within the tolerance; the tenth has 1 to 7 where gold has 0 to 6, and
    # so of its 5,000 cells all are in common but for gold's 715 zeros.
    assert value == pytest.approx((9 * 5_000 + 5_000 - 715) / 50_000 / 2)
    assert seconds < 3
