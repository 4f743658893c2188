"""Group advantages, by hand."""

import pytest

from serl.train.advantages import group_advantages


def test_hand_worked_group():
    # mean 0.25, population std sqrt(3)/4
    advantages = group_advantages([1.0, 0.0, 0.0, 0.0], eps=0.0)
    assert advantages == pytest.approx([3**0.5, -(3**-0.5), -(3**-0.5), -(3**-0.5)])


def test_equal_rewards_give_exactly_zero():
    assert group_advantages([0.1 + 0.2, 0.1 + 0.2, 0.1 + 0.2], eps=1e-6) == [0.0, 0.0, 0.0]


def test_a_trajectory_that_could_not_be_scored_is_left_out_not_scored_as_zero():
    assert group_advantages([None, 1.0, -1.0], eps=0.0) == [0.0, 1.0, -1.0]
    assert group_advantages([None, None], eps=0.0) == [0.0, 0.0]


def test_epsilon_shrinks_the_advantage():
    assert group_advantages([1.0, 0.0], eps=0.5) == pytest.approx([0.5, -0.5])


def test_dr_grpo_only_centres():
    assert group_advantages([1.0, 0.0, 0.0, None], eps=1e-6, standardize=False) == pytest.approx(
        [2 / 3, -1 / 3, -1 / 3, 0])
    assert group_advantages([0.1 + 0.2, 0.1 + 0.2], eps=1e-6, standardize=False) == [0.0, 0.0]
