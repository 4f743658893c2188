"""Soft F1, official and order-free: numbers worked out by hand, and the order-free one by trying every pairing."""

import itertools
import random
import time
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from serl.evaluate.metrics.soft_f1 import distinct, positional_f1, soft_f1
from serl.evaluate.metrics.soft_f1_order_free import best_f1, soft_f1_order_free
from serl.sql.outcome import Outcome, Status


@pytest.mark.parametrize(
    ("pred", "gold", "official", "order_free"),
    [
        ([], [], 1, 1),
        ([(1,)], [], 0, 0),
        ([], [(1,)], 0, 0),
        ([()], [(1,)], 0, 0),
        ([(1,)], [(1,)], 1, 1),
        ([(1,)], [(1.0,)], 1, 1),
        ([(None,)], [(None,)], 1, 1),
        ([(0.1 + 0.2,)], [(0.3,)], 0, 0),  # no tolerance
        # Reversed: only the middle row meets itself; tp 1, fp 2, fn 2.
        ([(3,), (2,), (1,)], [(1,), (2,), (3,)], 1 / 3, 1),
        # Columns in the other order are the same set of cells.
        ([("a", 1)], [(1, "a")], 1, 1),
        # Duplicate rows are free, and dropping one moves the rows after it up.
        ([(1,), (1,), (2,)], [(1,), (2,)], 1, 1),
        # One of two cells: match 1/2, pred_only 1/2, gold_only 1/2.
        ([(1, "x")], [(1, "a")], 1 / 2, 1 / 2),
        # A column too many: match 1, pred_only 1; precision 1/2, recall 1.
        ([(1, 9)], [(1,)], 2 / 3, 2 / 3),
        # A column too few: match 1/2, gold_only 1/2; precision 1, recall 1/2.
        ([(1,)], [(1, 9)], 2 / 3, 2 / 3),
        # A row too many costs 1, a row too few costs 1.
        ([(1, 2), (3, 4)], [(1, 2)], 2 / 3, 2 / 3),
        ([(1, 2)], [(1, 2), (3, 4)], 2 / 3, 2 / 3),
        # A row too few at the start moves every other: nothing meets its own.
        ([(2,), (3,)], [(1,), (2,), (3,)], 0, 4 / 5),
        # Cells are looked for, not used up: match 2/2, gold_only 1/2; precision 1, recall 1/1.5.
        ([(1, 1)], [(1, 2)], 0.8, 0.8),
        # match 3/2, gold_only 1/2: recall is 1.5/2.
        ([(1, 1, 1)], [(1, 2)], 6 / 7, 6 / 7),
        # Because cells are not used up, the row that both have is better spent on another: crosswise, match is 1/2 and
        # 2/2 with errors of 1/2 each; straight, match is 1 and 0 with errors of 0 and 2.
        ([(1, 2), (1, 1)], [(1, 2), (2, 2)], 1 / 2, 3 / 4),
        # Best pairing: (1,a)-(1,b) and (2,c)-(2,a) share a half each; by position nothing but a, once.
        ([(1, "a"), (2, "c")], [(2, "a"), (1, "b")], 1 / 4, 1 / 2),
    ],
)
def test_worked_examples(pred: list, gold: list, official: float, order_free: float) -> None:
    assert positional_f1(pred, gold) == pytest.approx(official, abs=1e-12)
    assert best_f1(pred, gold) == (pytest.approx(order_free, abs=1e-12), True)


def judged(pred: Outcome, gold: Outcome) -> SimpleNamespace:
    return SimpleNamespace(predicted=pred, gold=gold)


def test_scores_say_how_rows_were_paired() -> None:
    gold = Outcome(Status.OK, ("a",), ((1,), (2,)), 2)
    pred = Outcome(Status.OK, ("a",), ((2,), (1,)), 2)
    assert vars(soft_f1(judged(pred, gold))) == {"score": 0.0, "reason": "rows paired by position"}
    assert vars(soft_f1_order_free(judged(pred, gold))) == {"score": 1.0, "reason": "rows paired best"}


@pytest.mark.parametrize("metric", [soft_f1, soft_f1_order_free])
def test_a_prediction_without_result_scores_0(metric) -> None:
    gold = Outcome(Status.EMPTY, ("a",))
    score = metric(judged(Outcome(Status.TIMEOUT, error="x"), gold))
    assert (score.score, score.reason) == (0.0, "prediction has no result: timeout")
    too_large = Outcome(Status.TOO_LARGE, ("a",), ((1,),), 9)  # its preview is not its result
    assert metric(judged(too_large, Outcome(Status.OK, ("a",), ((1,),), 1))).score == 0.0


_CELLS = st.sampled_from([0, 1, 2, "a", "b", None])


@st.composite
def _rows(draw: st.DrawFn) -> list:
    width = draw(st.integers(1, 3))
    return draw(st.lists(st.tuples(*[_CELLS] * width), max_size=4))


def every_pairing(pred: list, gold: list) -> float:
    """The highest official F1 over all orders of the prediction's distinct rows."""
    pred, gold = distinct(pred), distinct(gold)
    if len(pred) <= len(gold):
        return max(positional_f1(pred, list(order)) for order in itertools.permutations(gold))
    return max(positional_f1(list(order), gold) for order in itertools.permutations(pred))


@settings(derandomize=True, max_examples=250, database=None)
@given(_rows(), _rows())
def test_order_free_is_the_best_of_all_orders(pred: list, gold: list) -> None:
    best, exact = best_f1(pred, gold)
    assert exact
    assert best == pytest.approx(every_pairing(pred, gold), abs=1e-9)
    assert best >= positional_f1(pred, gold)


@settings(derandomize=True, max_examples=100, database=None)
@given(_rows(), _rows(), st.randoms(use_true_random=False))
def test_order_free_does_not_depend_on_order(pred: list, gold: list, rng: random.Random) -> None:
    shuffled = rng.sample(pred, len(pred))
    assert best_f1(shuffled, gold)[0] == pytest.approx(best_f1(pred, gold)[0], abs=1e-12)


def test_more_rows_than_a_block_give_a_lower_bound_and_say_so() -> None:
    gold = [(i, f"x{i}") for i in range(20)]
    pred = [(i, f"y{i}") for i in reversed(range(20))]  # every row has one of its two cells right
    assert best_f1(pred, gold, block=20) == (0.5, True)
    score, exact = best_f1(pred, gold, block=7)
    assert (score, exact) == (0.5, False)  # sorted, the rows of both fall into the same blocks
    # (0, "x0") is in both, the others have a text in common: 2 + 19 of 40 cells. Sorted, the texts run from end to end,
    # and in blocks of five only x10 is in the same block of both.
    turned = [(-i, f"x{i}") for i in reversed(range(20))]
    assert best_f1(turned, gold, block=19) == (pytest.approx(21 / 40), True)
    assert best_f1(turned, gold, block=5) == (pytest.approx(3 / 40), False)


def test_cells_of_every_type_are_put_into_blocks() -> None:
    cells = ["", "a", b"", b"a", None, 0, -1, 0.5, float("inf")]
    rows = [(cell, i) for i, cell in enumerate(cells)]
    assert best_f1([(cell, i + 1) for cell, i in rows], rows, block=4)[1] is False


def test_thousands_of_rows_take_seconds() -> None:
    rng = random.Random(0)
    gold = [(i, rng.randrange(50), f"name {i}") for i in range(5_000)]
    pred = [(i, rng.randrange(50), name) for i, _, name in gold]
    rng.shuffle(pred)
    start = time.process_time()
    score, exact = best_f1(pred, gold)
    seconds = time.process_time() - start
    assert not exact
    same = sum(p[1] == g[1] for p, g in zip(sorted(pred), gold))  # sorted, row i meets row i
    # All three cells in `same` rows, two in the rest; columns are equally many, so F1 is their share.
    assert score == pytest.approx((3 * same + 2 * (5_000 - same)) / 15_000, abs=0.01)
    assert seconds < 8
