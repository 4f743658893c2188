"""Invariants 1 to 5 of the method: bounds, signs, masks, and exactness where nothing may change."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from serl.hindsight.weights import lambda_at, token_weights

LOW, HIGH = 0.2, 0.2


def weigh(advantage, student, teacher, mask=None, lam=0.5, low=LOW, high=HIGH):
    student, teacher = torch.tensor(student), torch.tensor(teacher)
    mask = torch.ones(student.shape, dtype=torch.bool) if mask is None else torch.tensor(mask)
    return token_weights(torch.full(student.shape, float(advantage)), student, teacher, mask, lam, low, high)


def test_hand_worked_weights():
    # delta = 0.1, -0.1, +1 (bound ln 1.2), -1 (bound ln 0.8); A > 0; lambda = 1/2
    weights = weigh(2.0, [-1.0, -1.0, -2.0, -1.0], [-0.9, -1.1, -1.0, -2.0])
    expected = [1 + 0.5 * (math.exp(0.1) - 1), 1 + 0.5 * (math.exp(-0.1) - 1), 1.1, 0.9]
    assert weights.tolist() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(("advantage", "gap", "direction"), [
    (1.0, 0.1, 1), (1.0, -0.1, -1), (-1.0, 0.1, -1), (-1.0, -0.1, 1)])
def test_four_quadrants(advantage, gap, direction):
    (weight,) = weigh(advantage, [-1.0], [-1.0 + gap]).tolist()
    assert (weight - 1.0) * direction > 0.01


@pytest.mark.parametrize("changes", [{"lam": 0.0}, {"low": 0.0, "high": 0.0}, {"mask": [False] * 3}])
def test_weights_are_one_bit_for_bit_when_nothing_may_change(changes):
    assert torch.equal(weigh(1.3, [-1.0, -2.0, -0.1], [-3.0, -0.5, -0.2], **changes), torch.ones(3))


def test_zero_advantage_keeps_weight_one():
    assert torch.equal(weigh(0.0, [-1.0, -2.0], [-3.0, -0.5]), torch.ones(2))


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_values_that_are_not_finite_change_nothing_outside_or_inside_the_mask(bad):
    weights = weigh(1.0, [-1.0, -1.0, bad], [bad, -0.9, -1.0], mask=[True, True, False])
    assert weights[0] == 1.0 and weights[2] == 1.0
    assert weights[1].item() == pytest.approx(1 + 0.5 * (math.exp(0.1) - 1), abs=1e-6)


@given(advantage=st.floats(-5, 5), lam=st.floats(0, 1), low=st.floats(0, 0.99), high=st.floats(0, 3),
       pairs=st.lists(st.tuples(st.floats(-30, 0), st.floats(-30, 0), st.booleans()), min_size=1, max_size=16))
def test_weights_are_bounded_positive_and_keep_the_sign(advantage, lam, low, high, pairs):
    student, teacher, mask = map(list, zip(*pairs))
    weights = weigh(advantage, student, teacher, mask, lam, low, high)
    assert (weights >= 1 - lam * low - 1e-6).all() and (weights <= (1 + lam * high) * (1 + 1e-6)).all()
    assert (weights > 0).all()
    assert torch.equal((advantage * weights).sign(), torch.full(weights.shape, float(advantage)).sign())
    assert torch.equal(weights[~torch.tensor(mask)], torch.ones(mask.count(False)))


def test_no_gradient_reaches_the_gap():
    student = torch.tensor([-1.0], requires_grad=True)
    teacher = torch.tensor([-0.5], requires_grad=True)
    weights = token_weights(torch.ones(1), student, teacher, torch.tensor([True]), 0.5, LOW, HIGH)
    assert not weights.requires_grad


@pytest.mark.parametrize(("lam", "low", "high"), [(-0.1, 0.2, 0.2), (1.1, 0.2, 0.2), (0.5, 1.0, 0.2), (0.5, 0.2, -0.1)])
def test_settings_that_could_flip_credit_are_refused(lam, low, high):
    with pytest.raises(ValueError):
        weigh(1.0, [-1.0], [-1.0], lam=lam, low=low, high=high)


def test_lambda_decays_linearly_to_zero_and_stays_there():
    at = [lambda_at(update, 0.5, "linear", 50) for update in (0, 25, 49, 50, 51, 1000)]
    assert at == pytest.approx([0.5, 0.25, 0.01, 0.0, 0.0, 0.0])
    assert lambda_at(1000, 0.5, "constant", 50) == 0.5
