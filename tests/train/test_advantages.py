"""Group advantages, by hand."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serl.train.advantages import group_advantages, step_advantages


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


# Credit by step.


def test_an_action_is_judged_by_what_it_earned_against_the_group():
    # R = 3, 1: mean 2, std 1. The first trajectory's actions are worth 4 and 2, the second's only one 1.
    assert step_advantages([3.0, 1.0], [(4.0, 2.0), (1.0,)], eps=0.0) == [(2.0, 0.0), (-1.0,)]
    assert step_advantages([3.0, 1.0], [(4.0, 2.0), (1.0,)], eps=1.0) == [(1.0, 0.0), (-0.5,)]
    assert step_advantages([3.0, 1.0], [(4.0, 2.0), (1.0,)], eps=1.0, standardize=False) == [(2.0, 0.0), (-1.0,)]


REWARDS = st.lists(st.none() | st.floats(-3, 3), min_size=2, max_size=6)


@given(REWARDS, st.booleans(), st.sampled_from([1e-6, 0.5]))
def test_actions_that_earned_nothing_of_their_own_have_their_trajectorys_advantage_bit_for_bit(
        rewards, standardize, eps):
    actions = [(0.0 if reward is None else reward,) * 3 for reward in rewards]
    whole = group_advantages(rewards, eps, standardize)
    assert step_advantages(rewards, actions, eps, standardize) == [(advantage,) * 3 for advantage in whole]


@given(REWARDS, st.booleans(), st.sampled_from([1e-6, 0.5]))
def test_credit_by_trajectory_is_the_published_formula_bit_for_bit(rewards, standardize, eps):
    scored = [reward for reward in rewards if reward is not None]
    expected = [0.0] * len(rewards)
    if scored and max(scored) > min(scored):
        mean = math.fsum(scored) / len(scored)
        std = math.sqrt(math.fsum((reward - mean) ** 2 for reward in scored) / len(scored))
        expected = [0.0 if reward is None else (reward - mean) / (std + eps) if standardize else reward - mean
                    for reward in rewards]
    assert group_advantages(rewards, eps, standardize) == expected


@given(st.lists(st.lists(st.floats(0, 3), min_size=1, max_size=4), min_size=2, max_size=5))
def test_credit_moves_within_a_trajectory_and_does_not_grow(values):
    """Each action earns one value, and the trajectory their mean."""
    rewards = [math.fsum(own) / len(own) for own in values]
    whole, steps = group_advantages(rewards, 1e-6), step_advantages(rewards, values, 1e-6)
    for advantage, own in zip(whole, steps):
        assert math.fsum(own) / len(own) == pytest.approx(advantage, rel=1e-6, abs=1e-6 * max(1, *map(abs, own)))


def test_equal_rewards_and_failures_of_ours_give_exactly_zero_to_every_action():
    assert step_advantages([1.0, 1.0], [(2.0, 0.0), (1.0,)], eps=0.0) == [(0.0, 0.0), (0.0,)]
    assert step_advantages([None, 1.0, 0.0], [(0.0, 0.0), (1.0,), (0.0,)], eps=0.0) == [(0.0, 0.0), (1.0,), (-1.0,)]
