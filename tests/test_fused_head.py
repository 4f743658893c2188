"""Log-probs by chunks equal log-softmax over all logits, with every gradient, and never hold all logits."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from serl import fused_head
from serl.fused_head import token_entropies, token_logprobs

TOKENS, WIDTH, VOCABULARY = 37, 6, 50


def made(dtype: torch.dtype = torch.float64, bias: bool = False) -> tuple[torch.Tensor, torch.nn.Linear, torch.Tensor]:
    torch.manual_seed(0)
    head = torch.nn.Linear(WIDTH, VOCABULARY, bias=bias, dtype=dtype)
    hidden = (3 * torch.randn(TOKENS, WIDTH, dtype=torch.float64)).to(dtype).requires_grad_()
    return hidden, head, torch.randint(0, VOCABULARY, (TOKENS,))


def in_chunks_of(monkeypatch, tokens: int) -> None:
    monkeypatch.setattr(fused_head, "CHUNK", tokens)
    monkeypatch.setattr(fused_head, "LOGITS", 1)


def by_definition(hidden: torch.Tensor, head: torch.nn.Linear, targets: torch.Tensor, temperature: float
                  ) -> torch.Tensor:
    return (head(hidden) / temperature).log_softmax(-1)[torch.arange(len(targets)), targets]


@pytest.mark.parametrize("chunk", [1, 8, 37, 256])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_log_probs_and_gradients_are_those_of_log_softmax(monkeypatch, chunk, bias, temperature):
    in_chunks_of(monkeypatch, chunk)
    hidden, head, targets = made(bias=bias)
    found, expected = (way(hidden, head, targets, temperature) for way in (token_logprobs, by_definition))
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-13)
    weight = torch.randn(TOKENS, dtype=torch.float64)
    leaves = [hidden, *head.parameters()]
    for one, other in zip(*(torch.autograd.grad(logp, leaves, weight) for logp in (found, expected))):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-12)


def test_finite_differences_agree(monkeypatch):
    in_chunks_of(monkeypatch, 5)
    hidden, head, targets = made(bias=True)
    assert torch.autograd.gradcheck(
        lambda h, w, b: fused_head._TokenLogprobs.apply(h, w, b, targets[:7], 0.7),
        (hidden[:7].detach().requires_grad_(), head.weight, head.bias))


def test_a_frozen_head_gets_no_gradient_and_hidden_states_keep_theirs():
    hidden, head, targets = made()
    head.requires_grad_(False)
    (found,), (expected,) = (torch.autograd.grad(way(hidden, head, targets, 1.0).sum(), [hidden])
                             for way in (token_logprobs, by_definition))
    assert head.weight.grad is None
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


def test_the_softmax_is_float32_for_a_bfloat16_model():
    hidden, head, targets = made(torch.bfloat16)
    found = token_logprobs(hidden, head, targets, 1.0)
    rounded = head(hidden).detach().double().log_softmax(-1)[torch.arange(TOKENS), targets]
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.detach().double(), rounded, rtol=0, atol=1e-5)


def test_no_tensor_holds_the_logits_of_all_tokens(monkeypatch):
    in_chunks_of(monkeypatch, 4)
    hidden, head, targets = made()
    sizes = []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            out = function(*args, **(kwargs or {}))
            sizes.extend(tensor.numel() for tensor in (out if isinstance(out, tuple) else [out])
                         if isinstance(tensor, torch.Tensor))
            return out

    with Watch():
        token_logprobs(hidden, head, targets, 1.0).sum().backward()
    assert max(sizes) == head.weight.numel() == VOCABULARY * WIDTH > 4 * VOCABULARY


def test_the_graph_can_be_walked_twice():
    hidden, head, targets = made()
    logp = token_logprobs(hidden, head, targets, 1.0)
    first, second = (torch.autograd.grad(logp.sum(), [hidden, head.weight], retain_graph=True) for _ in range(2))
    for one, other in zip(first, second):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-13)


def test_extreme_logits_stay_finite():
    hidden, head, targets = made(torch.float32)
    with torch.no_grad():
        head.weight *= 1e4
    logp = token_logprobs(hidden, head, targets, 1.0)
    logp.sum().backward()
    assert torch.isfinite(logp).all() and torch.isfinite(head.weight.grad).all()
    assert torch.isfinite(token_entropies(hidden, head, 1.0)).all()


@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_entropies_are_those_of_the_distribution(monkeypatch, temperature):
    in_chunks_of(monkeypatch, 10)
    hidden, head, _ = made()
    expected = torch.distributions.Categorical(logits=head(hidden).detach() / temperature).entropy()
    torch.testing.assert_close(token_entropies(hidden, head, temperature), expected, rtol=0, atol=1e-12)


def test_no_tokens_give_no_log_probs():
    hidden, head, targets = made()
    assert token_logprobs(hidden[:0], head, targets[:0], 1.0).shape == (0,)
    assert token_entropies(hidden[:0], head, 1.0).shape == (0,)
