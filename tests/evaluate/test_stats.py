import numpy as np
import pytest

from serl.evaluate.stats import bootstrap_mean, bootstrap_ratio, interval, mean_at_n, resampled_means, wilson


def test_wilson_of_8_in_10_is_the_textbook_interval():
    estimate = wilson(8, 10)
    assert (estimate.value, estimate.n) == (0.8, 10)
    assert estimate.low == pytest.approx(0.4902, abs=5e-5)
    assert estimate.high == pytest.approx(0.9433, abs=5e-5)


def test_wilson_at_the_edges_has_width_and_stays_within_0_and_1():
    none, every = wilson(0, 10), wilson(10, 10)
    # With no success the upper end is z² / (n + z²).
    assert (none.low, none.high) == (0.0, pytest.approx(3.8414588 / 13.8414588))
    assert (every.low, every.high) == (pytest.approx(10 / 13.8414588), 1.0)


@pytest.mark.parametrize(("successes", "n"), [(1, 0), (-1, 5), (6, 5)])
def test_wilson_refuses_counts_that_cannot_be(successes, n):
    with pytest.raises(ValueError, match="successes"):
        wilson(successes, n)


def test_mean_at_n_counts_every_question_the_same():
    # 1/4 and 1/1: the mean of fractions is 0.625; pooling the five samples would give 0.4.
    assert mean_at_n([[True, False, False, False], [True]]).value == 0.625


def test_mean_at_n_refuses_a_question_without_samples():
    with pytest.raises(ValueError, match="without samples"):
        mean_at_n([[True], []])


def test_bootstrap_is_the_same_for_the_same_seed_and_covers_the_mean():
    values = [0.0, 0.25, 0.5, 1.0] * 10
    estimate = bootstrap_mean(values, seed=3)
    assert estimate == bootstrap_mean(values, seed=3)
    assert estimate != bootstrap_mean(values, seed=4)
    assert estimate.value == 0.4375
    # The normal approximation: 1.96 · 0.3698 / √40 = 0.1146 on each side.
    assert estimate.low == pytest.approx(0.4375 - 0.1146, abs=0.015)
    assert estimate.high == pytest.approx(0.4375 + 0.1146, abs=0.015)


def test_bootstrap_of_equal_values_has_no_width():
    estimate = bootstrap_mean([0.5] * 7)
    assert (estimate.low, estimate.value, estimate.high) == (0.5, 0.5, 0.5)


def test_ratio_weighs_questions_the_same_and_resamples_groups():
    # 2 of 2 and 1 of 4: three of six questions, where the mean of the two shares would be 0.625.
    estimate = bootstrap_ratio([(2, 2), (1, 4)])
    assert (estimate.value, estimate.n) == (0.5, 6)
    # Two groups drawn from two: both the first (a quarter of the time) 1, both the second 0.25.
    assert (estimate.low, estimate.high) == (0.25, 1.0)


def test_interval_of_a_ratio_is_of_the_ratio_not_of_the_groups_shares():
    estimate = bootstrap_ratio([(1, 1)] * 5 + [(0, 9)] * 5)
    assert estimate.value == 0.1
    # k of ten picks are groups of one: the ratio is k / (k + 9 (10 − k)), and 95% of the binomial's k are 2 to 8.
    assert (estimate.low, estimate.high) == (pytest.approx(2 / 74), pytest.approx(8 / 26))


def test_ratio_of_groups_of_one_is_the_mean():
    values = [0.0, 1.0, 1.0, 0.5]
    assert bootstrap_ratio([(value, 1) for value in values], seed=5) == bootstrap_mean(values, seed=5)


@pytest.mark.parametrize("groups", [[], [(0, 0)]])
def test_ratio_refuses_groups_without_questions(groups):
    with pytest.raises(ValueError, match="group"):
        bootstrap_ratio(groups)


def test_resampled_means_are_of_the_same_questions_in_every_column():
    values_QM = np.array([[1.0, 0.0, 1.0], [0.0, 0.0, 0.0], [1.0, 1.0, 1.0], [1.0, 0.0, 1.0]])
    means_RM = resampled_means(values_QM, seed=3, resamples=500)
    assert means_RM.shape == (500, 3) and (means_RM[:, 0] == means_RM[:, 2]).all()
    assert (means_RM[:, 1] <= means_RM[:, 0]).all()  # who is never better is not better in any sample
    assert set(np.round(means_RM * 4, 9).ravel()) <= {0.0, 1.0, 2.0, 3.0, 4.0}
    assert (means_RM == resampled_means(values_QM, seed=3, resamples=500)).all()
    assert means_RM[:, 0].mean() == pytest.approx(0.75, abs=0.05)


def test_its_interval_is_that_of_the_bootstrap_of_one_column():
    values = np.random.default_rng(1).random(200)
    one = bootstrap_mean(list(values), resamples=4000)
    column = interval(values.mean(), resampled_means(values[:, None], resamples=4000)[:, 0], 200)
    assert (column.value, column.n) == (pytest.approx(one.value), 200)
    assert column.low == pytest.approx(one.low, abs=0.005) and column.high == pytest.approx(one.high, abs=0.005)


def test_no_question_has_no_resampled_mean():
    with pytest.raises(ValueError, match="no values"):
        resampled_means(np.empty((0, 2)))
