import itertools
import random

import pytest

from serl.evaluate.paired import mcnemar_p, paired_difference, sign_flip_p


@pytest.mark.parametrize(
    ("only_first", "only_second", "p"),
    [
        (8, 2, 112 / 1024),  # 2 (1 + 10 + 45) / 2^10
        (2, 8, 112 / 1024),
        (5, 0, 2 / 32),
        (1, 0, 1),
        (3, 3, 1),  # 2 (1 + 6 + 15 + 20) / 64 is more than 1
        (0, 0, 1),
        (15, 5, 2 * 21700 / 2**20),  # 1 + 20 + 190 + 1140 + 4845 + 15504
    ],
)
def test_mcnemar_is_the_two_sided_binomial_tail(only_first, only_second, p):
    assert mcnemar_p(only_first, only_second) == pytest.approx(p)


def test_right_and_wrong_answers_are_compared_by_mcnemar():
    a = [1] * 8 + [0] * 2 + [1] * 5 + [0] * 5
    b = [0] * 8 + [1] * 2 + [1] * 5 + [0] * 5
    difference = paired_difference(a, b)
    assert (difference.value, difference.n) == (0.3, 20)
    assert difference.p_value == 112 / 1024
    # Differences are eight 1, two −1, ten 0: variance 0.5 − 0.09; 1.96 · √(0.41 / 20) = 0.281 on each side.
    assert difference.low == pytest.approx(0.3 - 0.281, abs=0.04)
    assert difference.high == pytest.approx(0.3 + 0.281, abs=0.04)


def test_exchanging_the_systems_changes_only_the_sign():
    a, b = [1, 1, 0.5, 0, 0.25], [0, 0.5, 0.5, 1, 0]
    there, back = paired_difference(a, b), paired_difference(b, a)
    assert (there.value, there.p_value) == (-back.value, back.p_value)
    assert (there.low, there.high) == (pytest.approx(-back.high), pytest.approx(-back.low))


def test_few_differences_of_several_sizes_try_all_signs():
    # ±½ ±¼ ±¼: |sum| is 1, ½, ½ or 0 with the first sign fixed; observed is ½.
    assert sign_flip_p([0.5, 0.25, -0.25, 0.0]) == 3 / 4
    # 0.1, 0.2, 0.4, 0.8: only all signs alike reach 1.5, which is 2 of 16.
    assert sign_flip_p([0.1, 0.2, 0.4, 0.8]) == 2 / 16
    assert sign_flip_p([-0.1, -0.2, -0.4, -0.8]) == 2 / 16


def test_all_signs_agree_with_mcnemar_on_equal_sizes():
    for wins, losses in itertools.product(range(5), repeat=2):
        observed = abs(wins - losses)
        flips = [abs(sum(signs)) >= observed for signs in itertools.product((1, -1), repeat=wins + losses)]
        assert mcnemar_p(wins, losses) == pytest.approx(sum(flips) / len(flips))


def test_drawn_signs_come_close_to_all_signs():
    rng = random.Random(0)
    few = [rng.uniform(-0.5, 1.0) for _ in range(16)]
    exact = sign_flip_p(few)
    tiny = [*few, 1e-12]  # one more difference, too small to matter: now signs are drawn
    # √(p (1 − p) / 10,000) is at most 0.005; three of them.
    assert sign_flip_p(tiny) == pytest.approx(exact, abs=0.015)
    assert sign_flip_p(tiny, seed=1) == sign_flip_p(tiny, seed=1)


def test_a_drawn_p_value_is_never_0():
    assert sign_flip_p([1 + i / 100 for i in range(50)], draws=999) == 1 / 1000


def test_equal_systems_differ_by_nothing():
    difference = paired_difference([0.2, 0.4], [0.2, 0.4])
    assert (difference.value, difference.low, difference.high, difference.p_value) == (0, 0, 0, 1)


def test_pairing_sees_what_separate_intervals_do_not():
    # The same hundred answers but for six that only the first system has right.
    b = [1] * 50 + [0] * 50
    a = [1] * 56 + [0] * 44
    difference = paired_difference(a, b)
    assert difference.value == pytest.approx(0.06)
    assert difference.p_value == 2 / 64
    assert difference.low > 0


def test_systems_must_have_answered_the_same_questions():
    with pytest.raises(ValueError, match="got 2 and 1 scores"):
        paired_difference([1, 0], [1])
    with pytest.raises(ValueError, match="no values"):
        paired_difference([], [])
