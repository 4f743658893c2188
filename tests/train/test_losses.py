"""The clipped loss against numbers worked out by hand, a slow reference, and finite differences."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from serl.train.losses import grpo_loss


def reference(logp, old, advantage, mask, denominator, eps):
    """The equation as a loop, in Python floats."""
    total = 0.0
    for row in range(len(logp)):
        for token in range(len(logp[row])):
            if mask[row][token]:
                ratio = math.exp(logp[row][token] - old[row][token])
                clipped = min(max(ratio, 1 - eps), 1 + eps)
                total += min(ratio * advantage[row][token], clipped * advantage[row][token])
    return -total / denominator


def test_hand_worked_tokens():
    # ratios 1.5 (A>0: clipped at 1.2), 1.5 (A<0: not clipped), 0.5 (A>0: not clipped), 0.5 (A<0: clipped at 0.8)
    logp = torch.tensor([[math.log(1.5), math.log(1.5), math.log(0.5), math.log(0.5)]])
    advantage = torch.tensor([[2.0, -2.0, 2.0, -2.0]])
    mask = torch.ones(1, 4, dtype=torch.bool)
    loss, metrics = grpo_loss(logp, torch.zeros(1, 4), advantage, mask, 4.0, 0.2)
    assert loss.item() == pytest.approx(-(2.4 - 3.0 + 1.0 - 1.6) / 4)
    assert metrics["clipped"].item() == 2


@settings(max_examples=50)
@given(st.integers(0, 10_000))
def test_agrees_with_the_loop(seed):
    generator = torch.Generator().manual_seed(seed)
    logp, old = torch.randn(3, 5, generator=generator).double(), torch.randn(3, 5, generator=generator).double()
    advantage, mask = torch.randn(3, 5, generator=generator).double(), torch.rand(3, 5, generator=generator) < 0.6
    loss, _ = grpo_loss(logp, old, advantage, mask, 7.0, 0.2)
    expected = reference(logp.tolist(), old.tolist(), advantage.tolist(), mask.tolist(), 7, 0.2)
    assert loss.item() == pytest.approx(expected)


def test_masked_tokens_get_zero_gradient_whatever_they_hold():
    logp = torch.tensor([[-1.0, -2.0, -3.0]], requires_grad=True)
    old = torch.tensor([[-1.0, float("nan"), float("-inf")]])
    advantage = torch.tensor([[1.0, float("inf"), float("nan")]])
    mask = torch.tensor([[True, False, False]])
    loss, _ = grpo_loss(logp, old, advantage, mask, 1.0, 0.2)
    loss.backward()
    assert loss.item() == -1.0
    assert logp.grad.tolist() == [[-1.0, 0.0, 0.0]]


def test_gradient_equals_finite_differences_with_the_weight_held_constant():
    torch.manual_seed(0)
    logp = torch.randn(2, 3, dtype=torch.float64, requires_grad=True)
    old = logp.detach() + 0.05 * torch.randn(2, 3, dtype=torch.float64)
    advantage = torch.randn(2, 3, dtype=torch.float64) * torch.tensor([1.1, 0.9, 1.0], dtype=torch.float64)
    mask = torch.tensor([[True, True, False], [True, True, True]])
    ref = torch.randn(2, 3, dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda x: grpo_loss(x, old, advantage, mask, 5.0, 0.2, ref, 0.1)[0], (logp,))


def test_kl_is_schulmans_k3_and_is_minimised():
    logp = torch.tensor([[-1.0]], requires_grad=True)
    ref = torch.tensor([[-1.5]])
    loss, metrics = grpo_loss(logp, logp, torch.zeros(1, 1), torch.ones(1, 1, dtype=torch.bool), 1.0, 0.2, ref, 0.5)
    expected = math.exp(-0.5) + 0.5 - 1
    assert metrics["kl_ref"].item() == pytest.approx(expected)
    assert loss.item() == pytest.approx(0.5 * expected)
    loss.backward()
    assert logp.grad.item() > 0  # a descent step lowers logp towards the reference
