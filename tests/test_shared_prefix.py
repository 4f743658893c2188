"""Models whose attention cannot be shared are refused; the others are found to agree with a plain forward."""

import pytest
import torch

from serl.errors import InputError
from serl.shared_prefix import Prompts, Rows, check
from tests.models import tiny_model


def test_the_embedded_architecture_is_accepted_in_both_precisions():
    check(tiny_model(64))
    check(tiny_model(64, dtype=torch.bfloat16))


def test_sliding_window_attention_is_refused():
    from transformers import MistralConfig, MistralForCausalLM

    config = MistralConfig(vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=1,
                           num_attention_heads=4, num_key_value_heads=2, sliding_window=8)
    with pytest.raises(InputError, match="sliding_window.*shared_prefix to false"):
        check(MistralForCausalLM(config))


def test_a_model_with_attention_of_its_own_is_refused():
    from transformers import MambaConfig, MambaForCausalLM

    model = MambaForCausalLM(MambaConfig(vocab_size=64, hidden_size=16, num_hidden_layers=1))
    with pytest.raises(InputError, match="cannot share a prompt"):
        check(model)


def test_the_models_own_attention_is_back_after_a_shared_pass_also_after_an_error():
    model = tiny_model(64)
    before = model.config._attn_implementation
    rows = Rows(Prompts(model, [[3, 4, 5]]), [0])
    rows.logits(torch.tensor([[6, 7]]), torch.tensor([[3, 4]]))
    assert model.config._attn_implementation == before
    with pytest.raises(IndexError):
        rows.logits(torch.tensor([[10_000]]), torch.tensor([[3]]))
    assert model.config._attn_implementation == before
