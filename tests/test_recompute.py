"""Layers that forget what they computed: what is kept for the backward pass, and that nothing else changes."""

import copy

import pytest
import torch
from torch.autograd.graph import saved_tensors_hooks

from serl import lora
from serl.config import LoraConfig
from serl.errors import InputError
from serl.recompute import recompute_layers
from serl.train.scoring import Tail, logprobs
from tests.models import tiny_model

PROMPT = list(range(3, 23)) * 5
TAILS = [Tail([*PROMPT, *own], len(PROMPT), len(PROMPT) - 1) for own in ([4, 5, 6], [7, 8], [4, 5, 9, 10])]


def model_of(layers: int, dropout: float = 0.0):
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(0)
    return Qwen3ForCausalLM(Qwen3Config(
        vocab_size=40, hidden_size=32, intermediate_size=48, num_hidden_layers=layers, num_attention_heads=4,
        num_key_value_heads=2, head_dim=8, initializer_range=0.2, attention_dropout=dropout)).eval()


def passed(model, share: bool) -> tuple[list[torch.Tensor], int]:
    """Log-probs and all gradients of a pass, and how many numbers were saved for its backward pass, outside layers."""
    saved = 0

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        nonlocal saved
        saved += tensor.numel()
        return tensor

    model.zero_grad()
    with saved_tensors_hooks(pack, lambda tensor: tensor):
        logp = torch.cat(logprobs(model, TAILS, 1.0, share))
        loss = (logp * torch.linspace(-1, 1, len(logp))).sum()
    loss.backward()
    return [logp.detach(), *(weight.grad for weight in model.parameters() if weight.requires_grad)], saved


# Encoded tokens: 99 of the prompt and 8 of the tree behind it, or three rows padded to 104.
@pytest.mark.parametrize("share, tokens", [(True, 99 + 8), (False, 3 * 104)])
def test_of_a_layer_its_input_alone_is_saved_and_the_numbers_are_the_same(share, tokens):
    sizes = {}
    for layers in (2, 5):
        model = model_of(layers)
        plain, kept = passed(model, share)
        recompute_layers(model)
        found, sizes[layers] = passed(model, share)
        assert sizes[layers] < kept / (2 * layers)
        for one, other in zip(found, plain, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5 * other.abs().max().item())
    assert sizes[5] - sizes[2] == 3 * tokens * 32


def test_a_layer_is_computed_twice_in_training_and_once_without_gradient():
    model, calls = model_of(2), []
    model.model.layers[0].mlp.register_forward_pre_hook(lambda *_: calls.append(torch.is_grad_enabled()))
    recompute_layers(model)
    passed(model, share=False)
    assert calls == [True, True]
    with torch.no_grad():
        logprobs(model, TAILS, 1.0, False)
    assert calls == [True, True, False]


def test_dropout_stays_off():
    model = model_of(2, dropout=0.5)
    plain, _ = passed(model, share=False)
    recompute_layers(model)
    found, _ = passed(model, share=False)
    assert not model.training and torch.equal(found[0], plain[0])


def test_a_copy_computes_with_its_own_layers():
    model = model_of(2)
    recompute_layers(model)
    before = logprobs(model, TAILS, 1.0, True)[0].detach()
    twin = copy.deepcopy(model)
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(1.5)
    assert torch.equal(logprobs(twin, TAILS, 1.0, True)[0], before)
    assert not torch.equal(logprobs(model, TAILS, 1.0, True)[0], before)


def test_adapters_alone_get_gradients_through_layers_that_are_computed_again():
    model = tiny_model(40)
    lora.add(model, LoraConfig(rank=2), "somewhere", seed=0)
    torch.nn.init.normal_(model.model.layers[1].mlp.up_proj.lora_B["default"].weight)
    plain, kept = passed(model, share=True)
    recompute_layers(model)
    found, saved = passed(model, share=True)
    assert saved < kept / 4 and len(found) == 1 + 2 * 7 * 2
    for one, other in zip(found, plain, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


def test_a_model_without_such_layers_is_named():
    model = model_of(1)
    model.model.layers = torch.nn.ModuleList([torch.nn.Identity()])
    with pytest.raises(InputError, match="model.gradient_checkpointing: Qwen3ForCausalLM has no layers"):
        recompute_layers(model)
