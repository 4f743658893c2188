"""Comparators: worked examples, then properties on random results."""

import itertools
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serl.sql.compare import bird_ex, is_ordered, matching, strict
from serl.sql.compare.matching import rows_close, same_multiset
from serl.sql.outcome import Outcome, Status


def result(*rows: tuple, columns: int = 1) -> Outcome:
    """The outcome of a query that returned `rows`; `columns` counts where there are none."""
    names = tuple("abcdef"[: len(rows[0]) if rows else columns])
    return Outcome(Status.OK if rows else Status.EMPTY, names, rows, len(rows))


@pytest.mark.parametrize(
    ("pred", "gold", "strict_matches", "bird_matches"),
    [
        ([(1,), (2,)], [(1,), (2,)], True, True),
        ([(2,), (1,)], [(1,), (2,)], True, True),
        ([(1,), (1,), (2,)], [(1,), (2,), (2,)], False, True),  # duplicates count
        ([(1,)], [(1,), (1,)], False, True),
        ([(1, 2)], [(2, 1)], False, False),
        ([(1, 2)], [(1,)], False, False),
        ([], [], True, True),
        ([], [(1,)], False, False),
        ([(1.0,)], [(1,)], True, True),
        ([("1",)], [(1,)], False, False),
        ([(None,)], [(None,)], True, True),
        ([(None,)], [(0,)], False, False),
        ([(None,)], [("",)], False, False),
        ([("a ",)], [("a",)], False, False),
        ([("A",)], [("a",)], False, False),
        ([(b"a",)], [("a",)], False, False),
        ([(0.1 + 0.2,)], [(0.3,)], True, False),  # the official rule has no tolerance
        ([(1.0000009,)], [(1,)], True, False),
        ([(1.0000011,)], [(1,)], False, False),
        ([(1000000,)], [(1000001,)], False, False),  # integers are exact, however large
        ([(1000000.0,)], [(1000001,)], True, False),
        ([(-2.0000001,)], [(-2.0,)], True, False),
        ([(2.0,)], [(-2.0,)], False, False),
        ([(math.inf,)], [(math.inf,)], True, True),
        ([(math.inf,)], [(-math.inf,)], False, False),
        ([(math.inf,)], [(1e308,)], False, False),
        ([(float("nan"), 1)], [(float("nan"), 1)], True, False),
        ([(float("nan"),)], [(1.0,)], False, False),
    ],
)
def test_worked_examples(pred: list, gold: list, strict_matches: bool, bird_matches: bool) -> None:
    assert strict(result(*pred), result(*gold), ordered=False).match is strict_matches
    assert bird_ex(result(*pred), result(*gold)).match is bird_matches


def test_order_counts_only_where_gold_asks_for_it() -> None:
    pred, gold = result((2.0,), (1.0,)), result((1.0,), (2.0,))
    assert strict(pred, gold, ordered=False).match
    verdict = strict(pred, gold, ordered=True)
    assert (verdict.match, verdict.reason) == (False, "same rows in another order")
    assert strict(result((1.0,), (2.0000001,)), gold, ordered=True).match


def test_empty_results_need_the_same_number_of_columns_under_strict_only() -> None:
    pred, gold = result(columns=2), result(columns=1)
    assert strict(pred, gold, ordered=False).reason == "2 columns, gold has 1"
    assert bird_ex(pred, gold).match


@pytest.mark.parametrize("status", [status for status in Status if not Outcome(status).ran])
def test_what_did_not_run_matches_nothing(status: Status) -> None:
    failed = Outcome(status, error="x")
    for pred, gold in [(failed, failed), (failed, result()), (result(), failed), (result((1,)), failed)]:
        assert not bird_ex(pred, gold).match
        assert not strict(pred, gold, ordered=False).match
    assert bird_ex(result(), failed).reason == f"gold has no result: {status.value}"


def test_values_on_either_side_of_a_rounding_boundary_match() -> None:
    low, high = 0.4999999999, 0.5000000001
    assert strict(result((low,), (7.0,)), result((7.0,), (high,)), ordered=False).match


def test_near_ties_in_one_column_do_not_hide_the_match_in_another() -> None:
    # Sorted, the rows pair off wrongly: 1.0 and 1.0000001 change places between the two results.
    pred = result((1.0, 5.0), (1.0000001, 9.0))
    gold = result((1.0000001, 5.0), (1.0, 9.0))
    assert strict(pred, gold, ordered=False).match


def test_a_chain_of_near_values_needs_a_true_matching() -> None:
    # Steps of 0.9e-6: each value is close to its neighbours, not to those two steps away.
    values = [1 + 0.9e-6 * step for step in range(4)]
    a, b, c, d = ((value,) for value in values)
    assert same_multiset([a, b], [b, c])
    assert not same_multiset([a, a], [b, c])
    assert not same_multiset([a, b], [c, d])
    assert same_multiset([a, c], [d, b])


def test_large_results_are_compared_quickly_also_when_they_differ() -> None:
    rows = [(i % 7, float(i), f"name {i}") for i in range(20_000)]
    noisy = [(a, b * (1 + 1e-9), c) for a, b, c in reversed(rows)]
    assert strict(result(*noisy), result(*rows), ordered=False).match
    assert not strict(result(*noisy[1:], (0, 1e9, "x")), result(*rows), ordered=False).match
    averages = [(9.99 + 1e-12 * (i % 3), float(i % 5)) for i in range(3000)]
    assert not strict(result(*averages[1:], (9.98, 0.0)), result(*averages), ordered=False).match


def test_rows_near_each_other_in_every_column_still_find_their_partners() -> None:
    rng = random.Random(0)
    gold = [(1 + rng.random() * 1e-5, 5 + rng.random() * 1e-4) for _ in range(1000)]
    pred = [tuple(cell * (1 + rng.uniform(-9e-7, 9e-7)) for cell in row) for row in gold]
    rng.shuffle(pred)
    assert same_multiset(pred, gold)
    moved = [(1 - 1e-5, pred[0][1]), *pred[1:]]
    assert not same_multiset(moved, gold)


def test_a_matching_among_too_many_near_rows_is_not_searched_for(monkeypatch) -> None:
    rows = [(1.0, 5.0), (1.0000001, 9.0), (1.0000002, 9.000001)]
    assert same_multiset(rows, [(1.0000001, 5.0), (1.0, 9.0), (1.0, 9.0)])
    monkeypatch.setattr(matching, "MAX_PAIRS", 3)
    assert not same_multiset(rows, [(1.0000001, 5.0), (1.0, 9.0), (1.0, 9.0)])


@pytest.mark.parametrize(
    ("sql", "ordered"),
    [
        ("SELECT a FROM t ORDER BY a", True),
        ("select a from t order\n by a desc limit 3", True),
        ("SELECT a FROM t /* ORDER BY a */ -- ORDER BY a", False),
        ("SELECT 'ORDER BY a' FROM t", False),
        ('SELECT "order by" FROM t', False),
        ("SELECT a FROM (SELECT a FROM t ORDER BY a)", False),
        ("WITH x AS (SELECT a FROM t ORDER BY a) SELECT a FROM x", False),
        ("WITH x AS (SELECT a FROM t) SELECT a FROM x ORDER BY a", True),
        ("SELECT a FROM t UNION SELECT b FROM u ORDER BY 1", True),
        ("SELECT row_number() OVER (ORDER BY a) FROM t", False),
        ("SELECT a FROM t WHERE a = (SELECT max(a) FROM t ORDER BY a LIMIT 1)", False),
        ("SELECT a, ')' FROM t ORDER BY a", True),
        ("SELECT \"order\" FROM t GROUP BY a", False),
    ],
)
def test_only_the_outermost_order_by_promises_an_order(sql: str, ordered: bool) -> None:
    assert is_ordered(sql) is ordered


# Values a few tolerances apart, so that near-ties, chains and exact duplicates are all common.
_NUMBERS = st.sampled_from(
    [1, 2, 1.0, 1 + 0.6e-6, 1 + 1.2e-6, 1 + 1.8e-6, 2.0, 0.0, -0.0, math.inf, math.nan]
)
_CELLS = st.one_of(_NUMBERS, st.sampled_from([None, "a", "b", b"a"]))
_TABLES = st.lists(st.tuples(_CELLS, _CELLS), max_size=5)


@given(_TABLES, _TABLES)
def test_same_multiset_equals_trying_every_pairing(left: list, right: list) -> None:
    by_hand = len(left) == len(right) and any(
        all(map(rows_close, left, shuffled)) for shuffled in itertools.permutations(right)
    )
    assert same_multiset(left, right) is by_hand


@given(_TABLES, st.randoms())
def test_strict_is_reflexive_and_ignores_the_order_of_rows(rows: list, random) -> None:
    shuffled = random.sample(rows, len(rows))
    gold, pred = result(*rows, columns=2), result(*shuffled, columns=2)
    assert strict(gold, gold, ordered=True).match
    assert strict(pred, gold, ordered=False).match
    assert strict(pred, gold, ordered=True).match is all(map(rows_close, shuffled, rows))


@given(_TABLES, _TABLES, st.booleans())
def test_comparators_are_symmetric(left: list, right: list, ordered: bool) -> None:
    a, b = result(*left, columns=2), result(*right, columns=2)
    assert strict(a, b, ordered).match is strict(b, a, ordered).match
    assert bird_ex(a, b) == bird_ex(b, a)


@given(_TABLES.filter(len))
def test_one_row_more_or_one_cell_changed_never_matches(rows: list) -> None:
    gold = result(*rows)
    assert not strict(result(*rows, rows[0]), gold, ordered=False).match
    changed = [("changed", rows[0][1]), *rows[1:]]
    assert not strict(result(*changed), gold, ordered=False).match
    assert not bird_ex(result(*changed), gold).match
