"""The KL term and the correction for sampler against trainer: by hand, and against loops."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from serl.train.losses import k3_loss, row_share, sampler_correction
from tests.train.losses import reference
from tests.train.losses.cases import Row, by_row, differences, flatten, gradient, random_rows

SEEDS = st.integers(0, 10_000)


@settings(max_examples=8)
@given(SEEDS, st.booleans())
def test_k3_agrees_with_the_loop(seed, mean):
    rows = random_rows(seed)
    flat = flatten(rows)
    share = row_share(flat.mask, flat.row, torch.float64) if mean else None
    loss, metrics = k3_loss(flat.logp, flat.ref, flat.mask, 7.0, 0.1, share)
    weights = [0.1 / 7 / (len(row.logp) if mean else 1) for row in rows]
    assert loss.item() == pytest.approx(reference.k3(rows, [row.logp for row in rows], weights))
    slow = differences(lambda x: reference.k3(rows, x, weights), [row.logp for row in rows])
    for own, other in zip(by_row(gradient(loss, flat), flat), slow):
        assert own == pytest.approx(other, rel=1e-6, abs=1e-9)
    assert metrics["kl_ref"].item() == pytest.approx(reference.k3(rows, [row.logp for row in rows], [1] * len(rows)))
    assert torch.autograd.gradcheck(lambda logp: k3_loss(logp, flat.ref, flat.mask, 7.0, 0.1, share)[0], (flat.logp,))


def test_kl_is_schulmans_k3_and_is_minimised():
    logp = torch.tensor([-1.0], requires_grad=True)
    loss, metrics = k3_loss(logp, torch.tensor([-1.5]), torch.tensor([True]), 1.0, 0.5)
    expected = math.exp(-0.5) + 0.5 - 1
    assert metrics["kl_ref"].item() == pytest.approx(expected)
    assert loss.item() == pytest.approx(0.5 * expected)
    loss.backward()
    assert logp.grad.item() > 0  # a descent step lowers logp towards the reference


def mismatched(ratios):
    """One row whose trainer's probabilities are `ratios` times the sampler's."""
    return flatten([Row([-1.0] * len(ratios), [math.log(ratio) - 2 for ratio in ratios], [1.0] * len(ratios),
                        [-1.0] * len(ratios), [-2.0] * len(ratios))], garbage=())


def correct(flat, mode, cap=2.0, floor=0.5):
    return sampler_correction(flat.old, flat.sampler, flat.mask, flat.row, mode, cap, floor)


@pytest.mark.parametrize(("mode", "expected", "limited"), [
    ("off", [1, 1, 1, 1], None),
    ("token", [2, 0.25, 1.5, 0.8], 1),
    ("mask", [0, 0, 1.5, 0.8], 2),
    ("sequence", [1.2, 1.2, 1.2, 1.2], 0),
])
def test_weights_of_a_row_by_hand(mode, expected, limited):
    flat = mismatched([4.0, 0.25, 1.5, 0.8])
    weight, metrics = correct(flat, mode)
    assert weight.tolist() == pytest.approx(expected)
    # k1 = -ln(4 * 0.25 * 1.5 * 0.8); k3 = sum of rho - 1 - ln rho
    assert metrics["mismatch_k1"].item() == pytest.approx(-math.log(1.2))
    assert metrics["mismatch_k3"].item() == pytest.approx(6.55 - 4 - math.log(1.2))
    if limited is not None:
        assert (metrics["tis_limited"].item(), metrics["tis_weight"].item()) == (limited, pytest.approx(sum(expected)))


def test_a_sequence_weight_is_truncated_before_it_overflows():
    weight, metrics = correct(mismatched([1e30] * 20), "sequence")
    assert weight.tolist() == pytest.approx([2.0] * 20) and metrics["tis_limited"].item() == 20


@settings(max_examples=20)
@given(SEEDS, st.sampled_from(["token", "mask", "sequence"]))
def test_weights_agree_with_the_loop_and_need_only_whole_rows(seed, mode):
    rows = random_rows(seed)
    flat = flatten(rows)
    weight, metrics = correct(flat, mode)
    assert weight.isfinite().all() and not weight.requires_grad and metrics["mismatch_unknown"].item() == 0
    for own, slow in zip(by_row(weight, flat), reference.correction(rows, mode, 2.0, 0.5)):
        assert own == pytest.approx(slow)
    parts = [correct(flatten(part), mode)[1] for part in (rows[:1], rows[1:])]
    for name, value in metrics.items():
        assert value.item() == pytest.approx(sum(part[name].item() for part in parts))


def test_a_token_whose_sampler_log_prob_is_not_known_counts_as_equal_and_is_counted():
    flat = mismatched([4.0, 1.0])
    sampler = torch.tensor([float("nan"), -2.0], dtype=torch.float64)
    weight, metrics = sampler_correction(flat.old, sampler, flat.mask, flat.row, "token")
    assert weight.tolist() == [1.0, 1.0] and metrics["mismatch_unknown"].item() == 1


def test_an_unknown_correction_is_refused():
    with pytest.raises(ValueError, match="no such correction"):
        correct(mismatched([1.0]), "geometric")
