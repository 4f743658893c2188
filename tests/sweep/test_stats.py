"""Means, ratios and crossings against numbers worked out by hand."""

import math

import pytest

from serl.sweep.stats import mean_of, ratio_of, updates_to


def test_a_mean_has_students_interval():
    mean = mean_of([0.1, 0.0, 0.2])
    half = 4.302652729911275 * 0.1 / math.sqrt(3)  # t(0.975, 2), s = 0.1
    assert (mean.value, mean.low, mean.high, mean.n) == pytest.approx((0.1, 0.1 - half, 0.1 + half, 3))


def test_one_seed_and_seeds_that_agree_have_no_interval():
    assert math.isnan(mean_of([0.3]).low) and mean_of([0.3]).value == 0.3
    agree = mean_of([0.8 - 0.795, 0.805 - 0.8, 0.005])  # to rounding
    assert agree.value == pytest.approx(0.005) and math.isnan(agree.low) and math.isnan(agree.high)
    assert math.isnan(mean_of([math.nan, 0.3]).value)


def test_a_ratio_has_fiellers_interval_whose_ends_solve_its_equation():
    over, under = [0.010, 0.016, 0.013, 0.021], [0.030, 0.036, 0.028, 0.041]
    share = ratio_of(over, under)
    assert share.value == pytest.approx(0.060 / 0.135) and share.low < share.value < share.high and share.n == 4
    for end in (share.low, share.high):  # there the mean of x − θ y lies just t standard errors from 0
        left = mean_of([x - end * y for x, y in zip(over, under)])
        assert min(abs(left.low), abs(left.high)) == pytest.approx(0, abs=1e-12)
    assert ratio_of(under, under).low == pytest.approx(1) == pytest.approx(ratio_of(under, under).high)


@pytest.mark.parametrize("under", [[], [0.02], [0.01, 0.03], [-0.03, -0.031, -0.032], [0.02, 0.02, 0.02]])
def test_of_what_is_not_shown_to_be_above_zero_there_is_no_share(under):
    assert math.isnan(ratio_of([0.01] * len(under), under).value)


def test_a_curve_reaches_a_value_between_two_points():
    assert updates_to([(10, 0.2), (20, 0.6)], 0.3) == pytest.approx(12.5)
    assert updates_to([(1, 0.2), (2, 0.3)], 0.4) is None and updates_to([], 0.4) is None
    assert updates_to([(5, 0.5)], 0.4) == 5
