"""Invariants 1 to 4 of the method for every map and normalization: bounds, signs, masks, exactness."""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from serl.config import HindsightConfig
from serl.hindsight.weights import token_weights

NAN, INF = float("nan"), float("inf")
PAPER = HindsightConfig()
MAPS, NORMALIZATIONS = ("clip", "tanh", "logsym"), ("none", "center", "mean1")
every_map = pytest.mark.parametrize("name", MAPS)
WAYS = [replace(PAPER, map=name, normalize=normalize) for name in MAPS for normalize in NORMALIZATIONS]
every_way = pytest.mark.parametrize("options", WAYS, ids=lambda options: f"{options.map} {options.normalize}")


def weigh(advantage, gap, mask=None, lam=0.5, options=PAPER, **changes):
    gap = torch.tensor(gap)
    mask = torch.ones(gap.shape, dtype=torch.bool) if mask is None else torch.tensor(mask)
    return token_weights(torch.full(gap.shape, float(advantage)), gap, mask, lam, replace(options, **changes))


def test_hand_worked_weights():
    # delta = 0.1, -0.1, +1 (bound ln 1.2), -1 (bound ln 0.8); A > 0; lambda = 1/2
    weights = weigh(2.0, [0.1, -0.1, 1.0, -1.0])
    expected = [1 + 0.5 * (math.exp(0.1) - 1), 1 + 0.5 * (math.exp(-0.1) - 1), 1.1, 0.9]
    assert weights.tolist() == pytest.approx(expected, abs=1e-6)


def test_hand_worked_tanh():
    weights = weigh(1.0, [0.2, -0.1, 0.4, -9.0], lam=1.0, map="tanh", eps_low=0.1)
    expected = [1 + 0.2 * math.tanh(1), 1 - 0.1 * math.tanh(1), 1 + 0.2 * math.tanh(2), 0.9]
    assert weights.tolist() == pytest.approx(expected, abs=1e-6)


def test_hand_worked_logsym():
    # eps_low = 0.5 allows -0.69 nats, eps_high = 0.2 only 0.18: both sides get ln 1.2
    weights = weigh(1.0, [0.1, -0.1, 3.0, -3.0], lam=1.0, map="logsym", eps_low=0.5)
    assert weights.tolist() == pytest.approx([math.exp(0.1), math.exp(-0.1), 1.2, 1 / 1.2], abs=1e-6)


def test_hand_worked_center():
    # mean of -0.3, -0.1, -0.2 is -0.2; the last token is outside and does not count
    weights = weigh(-1.0, [-0.3, -0.1, -0.2, 5.0], mask=[True] * 3 + [False], lam=1.0, normalize="center")
    assert weights.tolist() == pytest.approx([math.exp(0.1), math.exp(-0.1), 1.0, 1.0], abs=1e-6)


def test_hand_worked_mean1():
    # w - 1 = 0.2 against -0.2 -0.2 (both at their bound): the heavier side is halved
    weights = weigh(1.0, [1.0, -1.0, -1.0, -9.0], mask=[True] * 3 + [False], lam=1.0, normalize="mean1")
    assert weights.tolist() == pytest.approx([1.2, 0.9, 0.9, 1.0], abs=1e-6)
    # All evidence points one way: nothing to trade.
    assert weigh(1.0, [-0.1, -0.2], normalize="mean1").tolist() == [1.0, 1.0]


def test_rows_are_trajectories():
    gap = [[0.3, -0.1, 0.05], [-0.2, -0.2, 0.1]]
    for normalize in NORMALIZATIONS:
        together = weigh(1.0, gap, normalize=normalize)
        assert torch.equal(together, torch.stack([weigh(1.0, row, normalize=normalize) for row in gap]))


@every_map
@pytest.mark.parametrize(("advantage", "gap", "direction"), [
    (1.0, 0.1, 1), (1.0, -0.1, -1), (-1.0, 0.1, -1), (-1.0, -0.1, 1)])
def test_four_quadrants(name, advantage, gap, direction):
    (weight,) = weigh(advantage, [gap], map=name).tolist()
    assert (weight - 1.0) * direction > 0.01


@every_way
@given(advantage=st.sampled_from([-2.0, -0.1, 0.1, 2.0]), gaps=st.lists(st.floats(-3, 3), min_size=2, max_size=8))
@settings(max_examples=40)
def test_the_four_quadrants_hold_for_the_evidence_that_the_map_sees(options, advantage, gaps):
    weights = weigh(advantage, gaps, options=options)
    gap = torch.tensor(gaps)
    if options.normalize == "center":
        gap = gap - gap.mean()
    pull = (weights - 1.0) * math.copysign(1.0, advantage) * gap.sign()
    assert (pull >= -1e-5 * (gap.abs() < 1e-5)).all()
    both = gap.max() > 1e-3 and gap.min() < -1e-3
    if options.normalize == "none" or both:
        assert (pull[gap.abs() > 1e-2] > 0).all()


@every_map
def test_a_map_never_falls_and_starts_with_slope_one(name):
    gap = torch.linspace(-1, 1, 401)
    weights = weigh(1.0, gap.tolist(), lam=1.0, map=name, eps_low=0.3)
    assert (weights.diff() >= 0).all()
    step = weights[201] - weights[199]
    assert step.item() == pytest.approx((gap[201] - gap[199]).item(), rel=1e-2)


@given(st.floats(-2, 2), st.floats(0, 0.9), st.floats(0, 2))
def test_logsym_gives_opposite_evidence_reciprocal_factors(gap, low, high):
    up, down = weigh(1.0, [gap, -gap], lam=1.0, map="logsym", eps_low=low, eps_high=high).tolist()
    assert up * down == pytest.approx(1.0, abs=1e-5)


@every_way
@pytest.mark.parametrize("changes", [{"lam": 0.0}, {"eps_low": 0.0, "eps_high": 0.0}, {"mask": [False] * 3}],
                         ids=lambda changes: " ".join(changes))
def test_weights_are_one_bit_for_bit_when_nothing_may_change(options, changes):
    assert torch.equal(weigh(1.3, [-2.0, 1.5, -0.1], options=options, **changes), torch.ones(3))


@every_way
def test_zero_advantage_keeps_weight_one(options):
    assert torch.equal(weigh(0.0, [-2.0, 1.5], options=options), torch.ones(2))


@every_way
@pytest.mark.parametrize("bad", [NAN, INF, -INF])
def test_evidence_that_is_not_finite_changes_nothing_outside_or_inside_the_mask(options, bad):
    weights = weigh(1.0, [bad, 0.1, bad, -0.3], mask=[True, True, False, True], options=options)
    assert weights[0] == 1.0 and weights[2] == 1.0
    assert torch.equal(weights[[1, 3]], weigh(1.0, [0.1, -0.3], options=options))


@every_way
@given(advantage=st.floats(-5, 5), lam=st.floats(0, 1), low=st.floats(0, 0.99), high=st.floats(0, 3),
       pairs=st.lists(st.tuples(st.floats(-30, 30), st.booleans()), min_size=1, max_size=16))
@settings(max_examples=60)
def test_weights_are_bounded_positive_and_keep_the_sign(options, advantage, lam, low, high, pairs):
    gap, mask = map(list, zip(*pairs))
    weights = weigh(advantage, gap, mask, lam, options, eps_low=low, eps_high=high)
    assert (weights >= 1 - lam * low - 1e-6).all() and (weights <= (1 + lam * high) * (1 + 1e-6)).all()
    assert (weights > 0).all()
    assert torch.equal((advantage * weights).sign(), torch.full(weights.shape, float(advantage)).sign())
    assert torch.equal(weights[~torch.tensor(mask)], torch.ones(mask.count(False)))
    if options.normalize == "mean1":
        assert weights.mean().item() == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize(("scope", "advantage", "moves"), [
    ("both", 1.0, True), ("both", -1.0, True), ("negative", 1.0, False), ("negative", -1.0, True),
    ("positive", 1.0, True), ("positive", -1.0, False)])
@every_way
def test_the_sign_scope_goes_by_the_advantage(options, scope, advantage, moves):
    gap = [0.3, -0.1, 0.05]
    weights = weigh(advantage, gap, options=options, sign_scope=scope)
    assert torch.equal(weights, weigh(advantage, gap, options=options) if moves else torch.ones(3))
    assert moves or not torch.equal(weigh(advantage, gap, options=options), torch.ones(3))


@every_way
def test_no_gradient_reaches_the_evidence(options):
    evidence = torch.tensor([0.5, -0.2], requires_grad=True)
    weights = token_weights(torch.ones(2), evidence, torch.tensor([True, True]), 0.5, options)
    assert not weights.requires_grad


@pytest.mark.parametrize("changes", [{"lam": -0.1}, {"lam": 1.1}, {"eps_low": 1.0}, {"eps_high": -0.1},
                                     {"map": "exp"}, {"sign_scope": "zero"}])
def test_settings_that_could_flip_credit_or_do_not_exist_are_refused(changes):
    with pytest.raises(ValueError):
        weigh(1.0, [0.1], **changes)
